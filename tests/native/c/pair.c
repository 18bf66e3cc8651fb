/* Two models in one process, each opened in a way of its own; each runs every batch size, alternately.
 *
 * usage: pair HOW LIBRARY INPUTS OUTPUTS HOW LIBRARY INPUTS OUTPUTS
 *
 * HOW: linked (by ENTRY_FIRST or ENTRY_SECOND, which the program was linked with), local or global (dlopen's flags).
 */
#include "model_under_test.h"

#ifdef ENTRY_FIRST
const tfaot_model_table* ENTRY_FIRST(void);
#else
#define ENTRY_FIRST NULL
#endif
#ifdef ENTRY_SECOND
const tfaot_model_table* ENTRY_SECOND(void);
#else
#define ENTRY_SECOND NULL
#endif

struct opened {
  const tfaot_model_table* model;
  tfaot_instance* instance;
  const char* inputs;
  const char* outputs;
};

static struct opened open_one(char** words, entry_function linked) {
  struct opened made;
  entry_function entry = linked;
  if (strcmp(words[0], "linked") != 0) {
    const int scope = strcmp(words[0], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
    void* library = dlopen(words[1], RTLD_NOW | scope);
    if (library == NULL) die("dlopen", dlerror());
    *(void**)&entry = dlsym(library, TFAOT_ENTRY_POINT);
  }
  if (entry == NULL) die(words[0], "the model has no entry function");
  made.model = entry();
  made.instance = create(made.model, "-");
  made.inputs = words[2];
  made.outputs = words[3];
  return made;
}

int main(int argc, char** argv) {
  if (argc != 9) die("usage", "pair HOW LIBRARY INPUTS OUTPUTS HOW LIBRARY INPUTS OUTPUTS");
  const struct opened pair[] = {open_one(argv + 1, ENTRY_FIRST), open_one(argv + 5, ENTRY_SECOND)};
  for (int turn = 0; turn < 2; ++turn) {
    for (int i = 0; i < 2; ++i) {
      const tfaot_info* info = pair[i].model->info;
      for (size_t j = 0; j < info->num_batch_sizes; ++j) {
        run_batch(pair[i].model, pair[i].instance, info->batch_sizes[j], turn == 0 ? ALIGNED : MISALIGNED, pair[i].inputs,
                  pair[i].outputs);
      }
    }
  }
  for (int i = 0; i < 2; ++i) {
    printf("%s %s\n", pair[i].model->info->name, pair[i].model->info->version);
    pair[i].model->destroy(pair[i].instance);
  }
  return 0;
}
