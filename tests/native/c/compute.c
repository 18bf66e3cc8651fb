/* 64 threads share one code: compute LIBRARY TARGET INPUTS SIZE...
 *
 * Inputs are the first rows of files in INPUTS. For each SIZE, every thread must get the bits of an instance, in scratch
 * memory of its own that ends at forbidden memory, and in that of the library. Calls with scratch memory allocate
 * nothing, the first one included. Prints the target. */
#include "model_under_test.h"

#include <malloc.h>
#include <pthread.h>

enum { MOST = 64, THREADS = 64 };

struct batch {
  const tfaot_model_table* model;
  const tfaot_code* code;
  int64_t size;
  const void* inputs[MOST];
  void* expected[MOST];
};

static void* allocated(const tfaot_tensor* tensor, int64_t size) {
  void* data = aligned_alloc(64, (bytes_of(tensor, size) + 63) / 64 * 64 + 64);
  if (data == NULL) die("buffer", "no memory");
  memset(data, 0, bytes_of(tensor, size));
  return data;
}

static void compute(const struct batch* batch, void* const* outputs, void* scratch, size_t size) {
  char message[TFAOT_MESSAGE_SIZE];
  if (batch->model->compute(batch->code, batch->size, batch->inputs, outputs, scratch, size, message, sizeof message) !=
      TFAOT_OK) {
    die("compute", message);
  }
}

static void* thread(void* argument) {
  const struct batch* batch = argument;
  const tfaot_info* info = batch->model->info;
  const size_t size = batch->model->scratch_bytes(batch->code, batch->size);
  struct buffer scratch = make_buffer(BEFORE_GUARD, size, 1, TFAOT_SCRATCH_ALIGNMENT);
  void* outputs[MOST];
  for (size_t i = 0; i < info->num_outputs; ++i) outputs[i] = allocated(&info->outputs[i], batch->size);
  for (int turn = 0; turn < 4; ++turn) {
    for (size_t i = 0; i < info->num_outputs; ++i) memset(outputs[i], 0xA5, bytes_of(&info->outputs[i], batch->size));
    compute(batch, outputs, turn % 2 == 0 ? scratch.data : NULL, turn % 2 == 0 ? size : 0);
    for (size_t i = 0; i < info->num_outputs; ++i) {
      if (memcmp(outputs[i], batch->expected[i], bytes_of(&info->outputs[i], batch->size)) != 0) die("bits", "others");
    }
  }
  for (size_t i = 0; i < info->num_outputs; ++i) free(outputs[i]);
  free_buffer(scratch);
  return NULL;
}

static void require_no_allocation(const struct batch* batch) {
  const size_t size = batch->model->scratch_bytes(batch->code, batch->size);
  void* scratch = aligned_alloc(TFAOT_SCRATCH_ALIGNMENT, size);
  const size_t before = mallinfo2().uordblks;
  compute(batch, batch->expected, scratch, size);
  if (mallinfo2().uordblks != before || batch->model->kept_bytes() != 0) die("compute", "it allocated");
  free(scratch);
}

int main(int argc, char** argv) {
  void* library;
  char message[TFAOT_MESSAGE_SIZE];
  struct batch batch = {open_model(argv[1], &library), NULL, 0, {NULL}, {NULL}};
  const tfaot_model_table* model = batch.model;
  const tfaot_info* info = model->info;
  if (!TFAOT_HAS(model, compute)) die("table", "it ends too early");
  tfaot_instance* instance = create(model, argv[2]);
  if (model->select(model->target(instance), &batch.code, message, sizeof message) != TFAOT_OK) die("select", message);
  puts(model->code_target(batch.code));
  for (int arg = 4; arg < argc; ++arg) {
    batch.size = atoll(argv[arg]);
    for (size_t i = 0; i < info->num_inputs; ++i) {
      void* data = allocated(&info->inputs[i], batch.size);
      read_tensor(argv[3], info->inputs[i].name, data, bytes_of(&info->inputs[i], batch.size));
      batch.inputs[i] = data;
    }
    for (size_t i = 0; i < info->num_outputs; ++i) batch.expected[i] = allocated(&info->outputs[i], batch.size);
    require_no_allocation(&batch);
    if (model->run(instance, batch.size, batch.inputs, batch.expected) != TFAOT_OK) die("run", model->message(instance));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, thread, &batch);
    for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
    if (model->kept_bytes() == 0) die("kept", "nothing");
    model->release();
    if (model->kept_bytes() != 0) die("released", "not all");
    for (size_t i = 0; i < info->num_inputs; ++i) free((void*)(uintptr_t)batch.inputs[i]);
    for (size_t i = 0; i < info->num_outputs; ++i) free(batch.expected[i]);
  }
  model->destroy(instance);
  close_model(library);
  return 0;
}
