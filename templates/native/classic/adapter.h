// Units from toolchains that compile a model to one entry function ("classic").
#ifndef TFAOT_NATIVE_ADAPTER_H_
#define TFAOT_NATIVE_ADAPTER_H_

#include "tensorflow/compiler/tf2xla/xla_compiled_cpu_function.h"
#include "unit.h"

// What XLA's code reports failures of custom calls through; the functions are in status.cc.
struct XlaCustomCallStatus_ {
  bool failed;
};

namespace tfaot_native {

template <class Generated>
const tensorflow::XlaCompiledCpuFunction::StaticData& static_data() {
  return Generated::StaticData();
}

// XLA's constants lie inside of the code, so that the table has no entry for them.
template <class Generated>
void describe(Buffer* buffers) {
  const auto& data = static_data<Generated>();
  for (std::size_t i = 0; i < data.num_buffers; ++i) {
    const auto& info = data.buffer_infos[i];
    const BufferKind kind = info.is_parameter()   ? BufferKind::kArgument
                            : info.is_temporary() ? BufferKind::kScratch
                                                  : BufferKind::kUnused;
    buffers[i] = Buffer{info.size(), kind, nullptr};
  }
}

template <class Generated>
bool run(void** table) {
  const auto& data = static_data<Generated>();
  XlaCustomCallStatus_ status = {false};
  data.raw_function(table[data.result_index], nullptr, nullptr, table, &status, nullptr);
  return !status.failed;
}

}  // namespace tfaot_native

#endif  // TFAOT_NATIVE_ADAPTER_H_
