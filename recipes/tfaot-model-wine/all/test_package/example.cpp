// Runs the model once at every batch size that was compiled, on zeros.
#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <vector>

#include <tfaot-model-wine/model.h>

using Model = tfaot_model::wine;
using Buffers = std::vector<std::vector<std::byte>>;

template <std::size_t N>
Buffers buffers(const std::array<tfaot::TensorInfo, N>& tensors, std::size_t batch_size) {
  Buffers made;
  for (const tfaot::TensorInfo& tensor : tensors) {
    // No element takes more than eight bytes.
    made.emplace_back(8 * tensor.size_at(batch_size));
  }
  return made;
}

std::vector<void*> pointers(Buffers& buffers) {
  std::vector<void*> made;
  for (std::vector<std::byte>& buffer : buffers) made.push_back(buffer.data());
  return made;
}

int main() {
  try {
    tfaot::Instance instance(Model::table());
    for (const std::size_t batch_size : Model::batch_sizes) {
      Buffers inputs = buffers(Model::inputs, batch_size);
      Buffers outputs = buffers(Model::outputs, batch_size);
      const std::vector<void*> in = pointers(inputs);
      const std::vector<void*> out = pointers(outputs);
      instance.run(batch_size, in.data(), out.data());
      std::printf("%s %s (%s): batch size %zu runs\n", Model::name, Model::version, instance.target(), batch_size);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
