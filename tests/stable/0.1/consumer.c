/* A program for any model whose inputs and outputs are float32 or int64: compiled once, with the headers of 0.1. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tfaot/c_api.h>

static void* filled(const tfaot_tensor* tensor, size_t rows, int value) {
  size_t count = (size_t)tensor->row_elements * (tensor->has_batch_axis ? rows : 1);
  float* floats = calloc(count + 1, 8);
  for (size_t i = 0; value && i < count; ++i) floats[i] = 0.25f * (float)(i % 7) - 0.5f;
  return floats;
}

static void print(const tfaot_tensor* tensor, size_t rows, const void* values) {
  size_t count = (size_t)tensor->row_elements * (tensor->has_batch_axis ? rows : 1);
  printf("%s:", tensor->name);
  for (size_t i = 0; i < count; ++i) {
    if (tensor->dtype == TFAOT_INT64) printf(" %lld", (long long)((const int64_t*)values)[i]);
    else printf(" %.5g", (double)((const float*)values)[i]);
  }
  printf("\n");
}

int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  const tfaot_model_table* (*entry)(void) = NULL;
  *(void**)&entry = dlsym(library, TFAOT_ENTRY_POINT);
  const tfaot_model_table* model = entry();
  const tfaot_info* info = model->info;
  char message[256] = "";
  tfaot_instance* instance = NULL;
  if (model->create(NULL, &instance, message, sizeof message) != TFAOT_OK) return fprintf(stderr, "%s\n", message), 1;
  size_t rows = (size_t)info->batch_sizes[info->num_batch_sizes - 1];
  const void* inputs[8];
  void* outputs[8];
  for (size_t i = 0; i < (size_t)info->num_inputs; ++i) inputs[i] = filled(&info->inputs[i], rows, 1);
  for (size_t i = 0; i < (size_t)info->num_outputs; ++i) outputs[i] = filled(&info->outputs[i], rows, 0);
  printf("%s %s, batch of %zu\n", info->name, info->version, rows);
  if (model->run(instance, rows, inputs, outputs) != TFAOT_OK) return fprintf(stderr, "%s\n", model->message(instance)), 1;
  for (size_t i = 0; i < (size_t)info->num_outputs; ++i) print(&info->outputs[i], rows, outputs[i]);
  model->destroy(instance);
  if (TFAOT_HAS(model, compute)) {
    const tfaot_code* code = NULL;
    if (model->select(NULL, &code, message, sizeof message) != TFAOT_OK) return fprintf(stderr, "%s\n", message), 1;
    for (size_t i = 0; i < (size_t)info->num_outputs; ++i) outputs[i] = filled(&info->outputs[i], rows, 0);
    size_t size = model->scratch_bytes(code, rows);
    void* scratch = aligned_alloc(TFAOT_SCRATCH_ALIGNMENT, (size / TFAOT_SCRATCH_ALIGNMENT + 1) * TFAOT_SCRATCH_ALIGNMENT);
    if (model->compute(code, rows, inputs, outputs, scratch, size, message, sizeof message) != TFAOT_OK) {
      return fprintf(stderr, "%s\n", message), 1;
    }
    for (size_t i = 0; i < (size_t)info->num_outputs; ++i) print(&info->outputs[i], rows, outputs[i]);
    model->release();
  }
  return 0;
}
