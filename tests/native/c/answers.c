/* Every batch size with buffers at every kind of place, each twice; prints the target that ran.
 *
 * usage: answers LIBRARY TARGET|- INPUTS OUTPUTS [heap]
 *
 * heap: only buffers on the heap.
 */
#include "model_under_test.h"

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) die("usage", "answers LIBRARY TARGET|- INPUTS OUTPUTS [heap]");
  const int placements = argc == 6 ? AFTER_GUARD : PLACEMENTS;
  void* library;
  const tfaot_model_table* model = open_model(argv[1], &library);
  tfaot_instance* instance = create(model, argv[2]);
  for (size_t i = 0; i < model->info->num_batch_sizes; ++i) {
    for (int placement = 0; placement < placements; ++placement) {
      run_batch(model, instance, model->info->batch_sizes[i], (enum placement)placement, argv[3], argv[4]);
      run_batch(model, instance, model->info->batch_sizes[i], (enum placement)placement, argv[3], argv[4]);
    }
  }
  puts(model->target(instance));
  model->destroy(instance);
  close_model(library);
  return 0;
}
