/* What the test programs share: opening a model, its tensors as files, buffers that lie against forbidden memory. */
#ifndef MODEL_UNDER_TEST_H_
#define MODEL_UNDER_TEST_H_

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tfaot/c_api.h>

static inline void die(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

typedef const tfaot_model_table* (*entry_function)(void);

/* The model of a shared library; of the static one where the program is linked with it (-DENTRY=its function). */
#ifdef ENTRY
const tfaot_model_table* ENTRY(void);
#endif

static inline const tfaot_model_table* open_model(const char* path, void** library) {
#ifdef ENTRY
  (void)path;
  *library = NULL;
  return ENTRY();
#else
  *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (*library == NULL) die("dlopen", dlerror());
  entry_function entry;
  *(void**)&entry = dlsym(*library, TFAOT_ENTRY_POINT);
  if (entry == NULL) die("dlsym", dlerror());
  return entry();
#endif
}

static inline void close_model(void* library) {
  if (library != NULL && dlclose(library) != 0) die("dlclose", dlerror());
}

/* `target`: "-" for the best one. */
static inline tfaot_instance* create(const tfaot_model_table* model, const char* target) {
  tfaot_instance* instance;
  char message[TFAOT_MESSAGE_SIZE];
  const char* wanted = strcmp(target, "-") == 0 ? NULL : target;
  if (model->create(wanted, &instance, message, sizeof message) != TFAOT_OK) die("create", message);
  return instance;
}

static inline size_t bytes_of(const tfaot_tensor* tensor, int64_t batch_size) {
  const int64_t rows = tensor->has_batch_axis ? batch_size : 1;
  return (size_t)(rows * tensor->row_elements * tensor->element_size);
}

/* Where a buffer lies. */
enum placement {
  ALIGNED,      /* on the heap, aligned as the library likes it: used in place */
  MISALIGNED,   /* on the heap, one element further: copied */
  AFTER_GUARD,  /* its first byte follows a page that must not be touched (aligned) */
  BEFORE_GUARD, /* its last byte is followed by such a page (aligned where its size is a multiple of that) */
  PLACEMENTS
};
static const char* const placement_names[] = {"aligned", "misaligned", "after-guard", "before-guard"};

struct buffer {
  void* data;
  void* memory;
  size_t mapped; /* 0: from the heap */
};

static inline struct buffer make_buffer(enum placement placement, size_t size, size_t element, size_t alignment) {
  struct buffer made = {NULL, NULL, 0};
  if (placement == ALIGNED || placement == MISALIGNED) {
    /* No byte more than is used: valgrind sees what is touched beyond. */
    const size_t shift = placement == MISALIGNED ? element : 0;
    if (posix_memalign(&made.memory, alignment, size + shift) != 0) die("buffer", "no memory");
    made.data = (char*)made.memory + shift;
    return made;
  }
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t used = (size + page - 1) / page * page;
  made.mapped = used + 2 * page;
  made.memory = mmap(NULL, made.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made.memory == MAP_FAILED) die("buffer", "mmap failed");
  char* first = (char*)made.memory + page;
  if (mprotect(first, used, PROT_READ | PROT_WRITE) != 0) die("buffer", "mprotect failed");
  made.data = placement == AFTER_GUARD ? first : first + used - size;
  return made;
}

static inline void free_buffer(struct buffer buffer) {
  if (buffer.mapped != 0) {
    munmap(buffer.memory, buffer.mapped);
  } else {
    free(buffer.memory);
  }
}

static inline void read_tensor(const char* folder, const char* name, void* data, size_t size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.bin", folder, name);
  FILE* file = fopen(path, "rb");
  if (file == NULL || fread(data, 1, size, file) != size) die(path, "too short or not there");
  fclose(file);
}

static inline void write_tensor(const char* folder, const char* label, int64_t batch_size, const char* name,
                                const void* data, size_t size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.%lld.%s.bin", folder, label, (long long)batch_size, name);
  FILE* file = fopen(path, "wb");
  if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) die(path, "cannot be written");
}

/* Run one batch whose inputs are the first rows of the files in `inputs`; answers go to files in `outputs`. */
static inline void run_batch(const tfaot_model_table* model, tfaot_instance* instance, int64_t batch_size,
                             enum placement placement, const char* inputs, const char* outputs) {
  const tfaot_info* info = model->info;
  enum { MOST = 64 };
  struct buffer in[MOST], out[MOST];
  const void* in_data[MOST];
  void* out_data[MOST];
  if (info->num_inputs > MOST || info->num_outputs > MOST) die("run_batch", "too many tensors");
  for (size_t i = 0; i < info->num_inputs; ++i) {
    const tfaot_tensor* tensor = &info->inputs[i];
    const size_t size = bytes_of(tensor, batch_size);
    in[i] = make_buffer(placement, size, (size_t)tensor->element_size, info->alignment);
    read_tensor(inputs, tensor->name, in[i].data, size);
    in_data[i] = in[i].data;
  }
  for (size_t i = 0; i < info->num_outputs; ++i) {
    const tfaot_tensor* tensor = &info->outputs[i];
    out[i] = make_buffer(placement, bytes_of(tensor, batch_size), (size_t)tensor->element_size, info->alignment);
    out_data[i] = out[i].data;
  }
  if (model->run(instance, batch_size, in_data, out_data) != TFAOT_OK) die("run", model->message(instance));
  for (size_t i = 0; i < info->num_outputs; ++i) {
    const tfaot_tensor* tensor = &info->outputs[i];
    const size_t size = bytes_of(tensor, batch_size);
    write_tensor(outputs, placement_names[placement], batch_size, tensor->name, out[i].data, size);
    free_buffer(out[i]);
  }
  for (size_t i = 0; i < info->num_inputs; ++i) free_buffer(in[i]);
}

#endif /* MODEL_UNDER_TEST_H_ */
