/* Opens, runs and closes a library many times; prints the memory (VmRSS, KiB) after the first tenth and at the end.
 *
 * usage: reload LIBRARY INPUTS OUTPUTS TIMES
 */
#include "model_under_test.h"

static long resident(void) {
  FILE* file = fopen("/proc/self/status", "r");
  char line[256];
  long size = -1;
  while (file != NULL && size < 0 && fgets(line, sizeof line, file) != NULL) sscanf(line, "VmRSS: %ld", &size);
  if (size < 0) die("/proc/self/status", "tells no VmRSS");
  fclose(file);
  return size;
}

int main(int argc, char** argv) {
  if (argc != 5) die("usage", "reload LIBRARY INPUTS OUTPUTS TIMES");
  const int times = atoi(argv[4]);
  for (int i = 1; i <= times; ++i) {
    void* library;
    const tfaot_model_table* model = open_model(argv[1], &library);
    tfaot_instance* instance = create(model, "-");
    run_batch(model, instance, 1, MISALIGNED, argv[2], argv[3]);
    model->destroy(instance);
    close_model(library);
    if (i == times / 10 || i == times) printf("%ld\n", resident());
  }
  void* still_there = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
  if (still_there != NULL) die("dlclose", "the library is still loaded");
  return 0;
}
