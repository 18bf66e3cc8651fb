/* An instance made and run before fork() runs in parent and child.
 *
 * usage: fork LIBRARY INPUTS PARENT_OUTPUTS CHILD_OUTPUTS
 */
#include "model_under_test.h"

#include <sys/wait.h>

int main(int argc, char** argv) {
  if (argc != 5) die("usage", "fork LIBRARY INPUTS PARENT_OUTPUTS CHILD_OUTPUTS");
  void* library;
  const tfaot_model_table* model = open_model(argv[1], &library);
  tfaot_instance* instance = create(model, "-");
  run_batch(model, instance, 1, ALIGNED, argv[2], argv[3]);
  const pid_t child = fork();
  if (child < 0) die("fork", "failed");
  for (size_t i = 0; i < model->info->num_batch_sizes; ++i) {
    for (int placement = ALIGNED; placement <= MISALIGNED; ++placement) {
      run_batch(model, instance, model->info->batch_sizes[i], (enum placement)placement, argv[2], argv[child == 0 ? 4 : 3]);
    }
  }
  model->destroy(instance);
  close_model(library);
  if (child == 0) return 0;
  int status = -1;
  if (waitpid(child, &status, 0) != child || status != 0) die("child", "failed");
  return 0;
}
