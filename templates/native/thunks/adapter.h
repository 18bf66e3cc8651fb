// Units from toolchains that compile a model to kernels and C++ that calls them ("thunks").
#ifndef TFAOT_NATIVE_ADAPTER_H_
#define TFAOT_NATIVE_ADAPTER_H_

#include <memory>
#include <utility>

#include "runtime.h"
#include "tensorflow/compiler/tf2xla/xla_compiled_cpu_function.h"
#include "unit.h"

namespace tfaot_native {

template <class Generated>
const tensorflow::XlaCompiledCpuFunction::StaticData& static_data() {
  return Generated::StaticData();
}

// Constants come in the order of their buffers. They are taken: a second call, after one of another unit had no memory,
// leaves what the first has written. `buffers` is zero before the first.
template <class Generated>
void describe(Buffer* buffers) {
  const auto& data = static_data<Generated>();
  const auto constants = std::move(data.constants);
  auto constant = constants.begin();
  for (std::size_t i = 0; i < data.num_buffers; ++i) {
    const auto& info = data.buffer_infos[i];
    buffers[i].size = info.size();
    if (info.is_parameter()) {
      buffers[i].kind = BufferKind::kArgument;
    } else if (info.is_temporary()) {
      buffers[i].kind = BufferKind::kScratch;
    } else if (info.is_constant() && constant != constants.end()) {
      buffers[i].kind = BufferKind::kConstant;
      buffers[i].constant = (constant++)->second;
    }
  }
}

// One sequence of random numbers per thread: an instance never moves between threads while it runs.
template <class Generated>
tensorflow::XlaCompiledCpuFunction::RngStates& random_states() {
  static thread_local auto states = [] {
    const Lasting lasting;
    tensorflow::XlaCompiledCpuFunction::RngStates made;
    for (const std::int64_t delta : static_data<Generated>().rng_state_deltas) {
      made.push_back(std::make_unique<xla::cpu::RngState>(delta));
    }
    return made;
  }();
  return states;
}

template <class Generated>
bool run(void** table) {
  const auto& data = static_data<Generated>();
  // A variable of a thread that has a destructor keeps the library loaded until the thread ends, whatever dlclose says:
  // models without random numbers do without it.
  tensorflow::XlaCompiledCpuFunction::RngStates none;
  xla::ExecutableRunOptions options;
  return data.run(table, &options, data.rng_state_deltas.empty() ? none : random_states<Generated>());
}

}  // namespace tfaot_native

#endif  // TFAOT_NATIVE_ADAPTER_H_
