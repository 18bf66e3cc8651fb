/* Runs a model at any batch size: any_size LIBRARY TARGET INPUTS OUTPUTS SIZE...
 *
 * Inputs are the first rows of files in INPUTS. For each SIZE, answers of buffers at all places go to files in OUTPUTS;
 * `odd` are buffers one byte behind an aligned address. What is no batch size must be refused, and after the first
 * run of each kind the instance must allocate nothing. Prints the target. */
#include "model_under_test.h"

#include <malloc.h>

enum { MOST = 64 };

static void* odd_buffer(size_t size) {
  char* memory = aligned_alloc(64, (size + 1 + 63) / 64 * 64);
  if (memory == NULL) die("buffer", "no memory");
  return memory + 1;
}

static void run_odd(const tfaot_model_table* model, tfaot_instance* instance, int64_t size, const char* inputs,
                    const char* outputs) {
  const tfaot_info* info = model->info;
  const void* in[MOST];
  void* out[MOST];
  for (size_t i = 0; i < info->num_inputs; ++i) {
    void* data = odd_buffer(bytes_of(&info->inputs[i], size));
    read_tensor(inputs, info->inputs[i].name, data, bytes_of(&info->inputs[i], size));
    in[i] = data;
  }
  for (size_t i = 0; i < info->num_outputs; ++i) out[i] = odd_buffer(bytes_of(&info->outputs[i], size));
  if (model->run(instance, size, in, out) != TFAOT_OK) die("run", model->message(instance));
  const size_t before = mallinfo2().uordblks, memory = model->memory(instance);
  if (model->run(instance, size, in, out) != TFAOT_OK) die("run", model->message(instance));
  if (mallinfo2().uordblks != before || model->memory(instance) != memory) die("odd", "it allocated again");
  for (size_t i = 0; i < info->num_outputs; ++i) {
    write_tensor(outputs, "odd", size, info->outputs[i].name, out[i], bytes_of(&info->outputs[i], size));
    free((char*)out[i] - 1);
  }
  for (size_t i = 0; i < info->num_inputs; ++i) free((char*)in[i] - 1);
}

static void* zeros(const tfaot_tensor* tensor, int64_t size) { return calloc(bytes_of(tensor, size) + 1, 1); }

/* After a run of one row, runs of all sizes allocate nothing. */
static void require_one_scratch(const tfaot_model_table* model, const char* target, int64_t largest) {
  const tfaot_info* info = model->info;
  tfaot_instance* instance = create(model, target);
  const void* in[MOST];
  void* out[MOST];
  for (size_t i = 0; i < info->num_inputs; ++i) in[i] = zeros(&info->inputs[i], largest);
  for (size_t i = 0; i < info->num_outputs; ++i) out[i] = zeros(&info->outputs[i], largest);
  if (model->run(instance, 1, in, out) != TFAOT_OK) die("run", model->message(instance));
  const size_t before = mallinfo2().uordblks, memory = model->memory(instance);
  for (int64_t size = largest; size > 0; size /= 2) {
    if (model->run(instance, size, in, out) != TFAOT_OK) die("run", model->message(instance));
  }
  if (mallinfo2().uordblks != before || model->memory(instance) != memory) die("sizes", "another one allocated");
  model->destroy(instance);
  for (size_t i = 0; i < info->num_inputs; ++i) free((void*)(uintptr_t)in[i]);
  for (size_t i = 0; i < info->num_outputs; ++i) free(out[i]);
}

static void require_refused(const tfaot_model_table* model, tfaot_instance* instance) {
  const int64_t wrong[] = {0, -1, INT64_MIN, INT64_MAX, INT64_MAX / 8};
  const void* in[MOST] = {NULL};
  void* out[MOST] = {NULL};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    if (model->run(instance, wrong[i], in, out) != TFAOT_NO_SUCH_BATCH_SIZE) die("refused", "not by its status");
    const char* reason = wrong[i] > 0 ? "these are more rows than there is memory" : "a batch has at least one row";
    if (strstr(model->message(instance), reason) == NULL) die("message", model->message(instance));
  }
  if (model->run(instance, 3, in, out) != TFAOT_INVALID_ARGUMENT) die("null pointers", "not refused");
  if (model->run(instance, 3, NULL, NULL) != TFAOT_INVALID_ARGUMENT) die("no pointers", "not refused");
}

int main(int argc, char** argv) {
  void* library;
  const tfaot_model_table* model = open_model(argv[1], &library);
  if (model->info->any_batch_size != 1) die("info", "it does not take any batch size");
  tfaot_instance* instance = create(model, argv[2]);
  puts(model->target(instance));
  for (int i = 5; i < argc; ++i) {
    const int64_t size = atoll(argv[i]);
    for (int place = 0; place < PLACEMENTS; ++place) {
      run_batch(model, instance, size, (enum placement)place, argv[3], argv[4]);
    }
    run_odd(model, instance, size, argv[3], argv[4]);
    require_one_scratch(model, argv[2], size);
  }
  require_refused(model, instance);
  model->destroy(instance);
  close_model(library);
  return 0;
}
