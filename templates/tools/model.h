// What the programs in a package's bin/ share: the model that they are linked with, and its buffers.

#ifndef TFAOT_TOOLS_MODEL_H_
#define TFAOT_TOOLS_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tfaot/c_api.h"

// TFAOT_MODEL_SYMBOL is the entry function of the library that the program is linked with.
extern "C" const tfaot_model_table* TFAOT_MODEL_SYMBOL(void);

namespace tools {

inline const tfaot_model_table& model() { return *TFAOT_MODEL_SYMBOL(); }

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<void, Free>;

struct Destroy {
  void operator()(tfaot_instance* instance) const { model().destroy(instance); }
};
using Instance = std::unique_ptr<tfaot_instance, Destroy>;

// Bytes of `tensor` at one batch size.
inline std::size_t bytes_of(const tfaot_tensor& tensor, std::int64_t batch_size) {
  const std::int64_t rows = tensor.has_batch_axis != 0 ? batch_size : 1;
  return static_cast<std::size_t>(rows * tensor.row_elements * tensor.element_size);
}

// Zeroed memory of `size` bytes that models use in place.
inline Buffer allocate(std::size_t size) {
  const std::size_t alignment = model().info->alignment;
  const std::size_t whole = (size / alignment + 1) * alignment;
  Buffer made(std::aligned_alloc(alignment, whole));
  if (made == nullptr) std::abort();
  std::memset(made.get(), 0, whole);
  return made;
}

// One buffer per tensor.
inline std::vector<Buffer> allocate(const tfaot_tensor* tensors, std::size_t count, std::int64_t batch_size) {
  std::vector<Buffer> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(allocate(bytes_of(tensors[i], batch_size)));
  return made;
}

// What `run` of the C ABI takes.
template <typename Pointer>
std::vector<Pointer> pointers(const std::vector<Buffer>& buffers) {
  std::vector<Pointer> made;
  for (const Buffer& buffer : buffers) made.push_back(buffer.get());
  return made;
}

// An instance for `target` (nullptr: the best one). Empty where that cannot be; `message` says why, `status` how.
inline Instance create(const char* target, std::string* message, tfaot_status* status) {
  tfaot_instance* made = nullptr;
  char text[TFAOT_MESSAGE_SIZE] = "";
  *status = model().create(target, &made, text, sizeof text);
  *message = text;
  return Instance(made);
}

inline bool has_target(const std::string& name) {
  const tfaot_info& info = *model().info;
  for (std::size_t i = 0; i < info.num_targets; ++i) {
    if (name == info.targets[i]) return true;
  }
  return false;
}

inline std::string targets_text() {
  std::string text;
  const tfaot_info& info = *model().info;
  for (std::size_t i = 0; i < info.num_targets; ++i) text += (i != 0 ? ", " : "") + std::string(info.targets[i]);
  return text;
}

// "digits 1.0.0 (tensorflow 2.17.1)"
inline std::string title() {
  const tfaot_info& info = *model().info;
  return std::string(info.name) + " " + info.version + " (" + info.toolchain + ")";
}

}  // namespace tools

#endif  // TFAOT_TOOLS_MODEL_H_
