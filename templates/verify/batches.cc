// Runs prepared batches through a model's shared library: for validation under an emulator, because the Python of this
// machine cannot load the library.
//
//     batches LIBRARY TARGET flush|keep [INPUTS ANSWERS SECONDS]...
//
// INPUTS is a sequence of records: the batch size and the number of batches (int64), then these batches, each with all
// inputs in the library's order as raw bytes. ANSWERS gets all outputs of each batch in the same form, without sizes; the
// file appears when it is complete. After SECONDS SIGALRM ends the program (0: never). With `flush` subnormal numbers are
// flushed to zero.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tfaot/c_api.h"

namespace {

[[noreturn]] void die(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s\n", what, why);
  std::_Exit(1);
}

void flush_subnormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // FTZ and DAZ
#elif defined(__aarch64__)
  std::uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" : : "r"(control | (std::uint64_t{1} << 24)));  // FZ
#endif
}

const tfaot_model_table* open_model(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) die("dlopen", dlerror());
  void* symbol = dlsym(library, TFAOT_ENTRY_POINT);
  if (symbol == nullptr) die(path, "no entry function");
  const tfaot_model_table* (*entry)();
  std::memcpy(&entry, &symbol, sizeof entry);
  return entry();
}

// The buffers of all inputs, or all outputs, at one batch size.
class Buffers {
 public:
  Buffers(const tfaot_tensor* tensors, std::size_t count, std::int64_t batch_size)
      : count_(count),
        pointers_(static_cast<void**>(std::calloc(count + 1, sizeof(void*)))),
        sizes_(static_cast<std::size_t*>(std::calloc(count + 1, sizeof(std::size_t)))) {
    if (pointers_ == nullptr || sizes_ == nullptr) die("buffers", "out of memory");
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t rows = tensors[i].has_batch_axis != 0 ? batch_size : 1;
      sizes_[i] = static_cast<std::size_t>(rows * tensors[i].row_elements * tensors[i].element_size);
      if (posix_memalign(&pointers_[i], 64, sizes_[i] + 1) != 0) die("buffers", "out of memory");
    }
  }
  ~Buffers() {
    for (std::size_t i = 0; i < count_; ++i) std::free(pointers_[i]);
    std::free(pointers_);
    std::free(sizes_);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  void read(std::FILE* file) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (std::fread(pointers_[i], 1, sizes_[i], file) != sizes_[i]) die("inputs", "too short for this library");
    }
  }
  void write(std::FILE* file) const {
    for (std::size_t i = 0; i < count_; ++i) {
      if (std::fwrite(pointers_[i], 1, sizes_[i], file) != sizes_[i]) die("answers", "cannot be written");
    }
  }
  void** pointers() { return pointers_; }

 private:
  std::size_t count_;
  void** pointers_;
  std::size_t* sizes_;
};

void run_records(const tfaot_model_table* model, tfaot_instance* instance, std::FILE* inputs, std::FILE* answers) {
  std::int64_t record[2];  // batch size, number of batches
  while (std::fread(record, sizeof record, 1, inputs) == 1) {
    Buffers in(model->info->inputs, model->info->num_inputs, record[0]);
    Buffers out(model->info->outputs, model->info->num_outputs, record[0]);
    for (std::int64_t i = 0; i < record[1]; ++i) {
      in.read(inputs);
      if (model->run(instance, record[0], in.pointers(), out.pointers()) != TFAOT_OK) {
        die("run", model->message(instance));
      }
      out.write(answers);
    }
  }
}

void run_part(const tfaot_model_table* model, tfaot_instance* instance, const char* inputs, const char* answers,
              unsigned seconds) {
  char unfinished[4096];
  const int length = std::snprintf(unfinished, sizeof unfinished, "%s.part", answers);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof unfinished) die(answers, "the name is too long");
  std::FILE* from = std::fopen(inputs, "rb");
  if (from == nullptr) die(inputs, "cannot be opened");
  std::FILE* to = std::fopen(unfinished, "wb");
  if (to == nullptr) die(unfinished, "cannot be opened");
  alarm(seconds);
  run_records(model, instance, from, to);
  alarm(0);
  std::fclose(from);
  if (std::fclose(to) != 0 || std::rename(unfinished, answers) != 0) die(answers, "cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || (argc - 4) % 3 != 0) {
    die("usage", "batches LIBRARY TARGET flush|keep [INPUTS ANSWERS SECONDS]...");
  }
  const tfaot_model_table* model = open_model(argv[1]);
  tfaot_instance* instance = nullptr;
  char message[TFAOT_MESSAGE_SIZE];
  if (model->create(argv[2], &instance, message, sizeof message) != TFAOT_OK) die("create", message);
  if (std::strcmp(argv[3], "flush") == 0) flush_subnormals();
  for (int i = 4; i < argc; i += 3) {
    run_part(model, instance, argv[i], argv[i + 1], static_cast<unsigned>(std::strtoul(argv[i + 2], nullptr, 10)));
  }
  model->destroy(instance);
  return 0;
}
