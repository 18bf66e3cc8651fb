/* Runs a model with every one of its allocations failing in turn: out_of_memory LIBRARY SCALE.
 *
 * Each failure must be a status, leave no memory behind, and not keep a later run from giving the first run's answers.
 * Inputs are 0, SCALE, 2 SCALE, ... bytes. Prints how many runs failed. */
#include "model_under_test.h"

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void* memory);

static long allowed = -1; /* allocations until one fails; negative: all succeed */
static long living;       /* while counting */
static int counting;

static int fails(void) { return counting && allowed >= 0 && allowed-- == 0; }

static void* counted(void* memory) {
  if (counting && memory != NULL) ++living;
  return memory;
}

void* malloc(size_t size) { return fails() ? NULL : counted(__libc_malloc(size)); }
void* calloc(size_t count, size_t size) { return fails() ? NULL : counted(__libc_calloc(count, size)); }

int posix_memalign(void** memory, size_t alignment, size_t size) {
  *memory = fails() ? NULL : counted(__libc_memalign(alignment, size));
  return *memory == NULL ? 12 : 0; /* ENOMEM */
}

void free(void* memory) {
  if (counting && memory != NULL) --living;
  __libc_free(memory);
}

static void** buffers(const tfaot_tensor* tensors, size_t count, int64_t batch_size) {
  void** made = calloc(count + 1, sizeof *made);
  for (size_t i = 0; i < count; ++i) made[i] = aligned_alloc(64, (bytes_of(&tensors[i], batch_size) + 64) / 64 * 64);
  return made;
}

static tfaot_status run_once(const tfaot_model_table* model, int64_t size, void** in, void** out) {
  tfaot_instance* instance;
  char message[TFAOT_MESSAGE_SIZE];
  tfaot_status status = model->create(NULL, &instance, message, sizeof message);
  if (status != TFAOT_OK) return status;
  status = model->run(instance, size, (const void* const*)in, out);
  model->destroy(instance);
  return status;
}

int main(int argc, char** argv) {
  (void)argc;
  void* library;
  const tfaot_model_table* model = open_model(argv[1], &library);
  const tfaot_info* info = model->info;
  const int64_t size = info->batch_sizes[info->num_batch_sizes - 1];
  void** in = buffers(info->inputs, info->num_inputs, size);
  void** out = buffers(info->outputs, info->num_outputs, size);
  void** first = buffers(info->outputs, info->num_outputs, size);
  for (size_t i = 0; i < info->num_inputs; ++i) {
    const size_t bytes = bytes_of(&info->inputs[i], size);
    for (size_t j = 0; j < bytes; ++j) ((unsigned char*)in[i])[j] = (unsigned char)(j * (size_t)atoi(argv[2]) % 61);
  }
  long failures = 0;
  tfaot_status status = TFAOT_OUT_OF_MEMORY;
  for (long nth = 0; status != TFAOT_OK; ++nth) {
    living = 0;
    allowed = nth;
    counting = 1;
    status = run_once(model, size, in, first);
    counting = 0;
    if (status != TFAOT_OK && status != TFAOT_OUT_OF_MEMORY) die("run", "another status");
    if (status != TFAOT_OK && living != 0) die("run", "memory was left behind");
    failures += status == TFAOT_OUT_OF_MEMORY;
    if (nth > 10000) die("run", "no end");
  }
  allowed = -1;
  if (run_once(model, size, in, out) != TFAOT_OK) die("run", "failed after all");
  for (size_t i = 0; i < info->num_outputs; ++i) {
    if (memcmp(out[i], first[i], bytes_of(&info->outputs[i], size)) != 0) die("run", "other answers");
  }
  printf("%ld\n", failures);
  return 0;
}
