// Stand-in for TensorFlow's header of this name, for toolchains that compile a model to one entry function.
//
// The class that tfcompile generates derives from XlaCompiledCpuFunction and hands it tables. TensorFlow's own
// base class pulls in Eigen, Abseil and protobuf; this one only keeps the tables, for unit.cc.j2 to read.
#ifndef TFAOT_STAND_IN_XLA_COMPILED_CPU_FUNCTION_H_
#define TFAOT_STAND_IN_XLA_COMPILED_CPU_FUNCTION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"

typedef struct XlaCustomCallStatus_ XlaCustomCallStatus;

namespace xla {

class ExecutableRunOptions;
class ProgramShapeProto;
class HloProfilePrinterData;

namespace cpu_function_runtime {

struct EncodedBufferInfo {
  std::uint64_t packed_kind_and_size;  // size << 2 | kind
  std::uint32_t entry_param_number;
  std::uint32_t result_param_number;
};

class BufferInfo {
 public:
  explicit constexpr BufferInfo(const EncodedBufferInfo& encoded)
      : kind_(static_cast<int>(encoded.packed_kind_and_size & 3)), size_(encoded.packed_kind_and_size >> 2) {}

  constexpr bool is_temporary() const { return kind_ == 1; }
  constexpr bool is_parameter() const { return kind_ == 2; }
  constexpr std::uint64_t size() const { return size_; }

 private:
  int kind_;  // 0 constant, 1 temporary, 2 entry parameter, 3 on the stack
  std::uint64_t size_;
};

}  // namespace cpu_function_runtime
}  // namespace xla

namespace tensorflow {

class XlaCompiledCpuFunction {
 public:
  using RawFunction = void (*)(void* result, const xla::ExecutableRunOptions* run_options, const void** args,
                               void** temps, XlaCustomCallStatus* status, std::int64_t* profile_counters);

  struct ShapeInfo {
    const std::int32_t* dimensions;
    std::int32_t num_dimensions;
  };

  struct StaticData {
    // The generated class never frees its `new StaticData`: give it memory that goes when the library is unloaded.
    static void* operator new(std::size_t size);

    RawFunction raw_function;
    const xla::cpu_function_runtime::BufferInfo* buffer_infos;
    std::size_t num_buffers;
    const std::int32_t* result_index_table;
    const std::int32_t* arg_index_table;
    std::size_t result_index;
  };

  enum class AllocMode { ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS };

 protected:
  XlaCompiledCpuFunction(const StaticData&, AllocMode) {}

  // From 2.20 on.
  virtual bool is_thunk_mode() const { return false; }

  // Called by accessors of the generated class that nothing here uses.
  void* arg_data(std::size_t) const { return nullptr; }
  void set_arg_data(std::size_t, const void*) {}
  void* result_data(std::size_t) const { return nullptr; }

  static void set_static_data_raw_function(StaticData* data, RawFunction f) { data->raw_function = f; }
  static void set_static_data_buffer_infos(StaticData* data, const xla::cpu_function_runtime::BufferInfo* infos) {
    data->buffer_infos = infos;
  }
  static void set_static_data_num_buffers(StaticData* data, std::size_t n) { data->num_buffers = n; }
  static void set_static_data_result_index_table(StaticData* data, const std::int32_t* table) {
    data->result_index_table = table;
  }
  // From 2.20 on the generated class does not set the index of the result: TensorFlow takes the smallest.
  static void set_static_data_num_results(StaticData* data, std::int64_t n) {
    if (n > 0) data->result_index = *std::min_element(data->result_index_table, data->result_index_table + n);
  }
  static void set_static_data_arg_index_table(StaticData* data, const std::int32_t* table) {
    data->arg_index_table = table;
  }
  static void set_static_data_num_args(StaticData*, std::int64_t) {}
  static void set_static_data_num_variables(StaticData*, std::int64_t) {}
  static void set_static_data_result_index(StaticData* data, std::size_t index) { data->result_index = index; }
  static void set_static_data_arg_shape_infos(StaticData*, const ShapeInfo*) {}
  static void set_static_data_result_shape_infos(StaticData*, const ShapeInfo*) {}
  static void set_static_data_arg_names(StaticData*, const char**) {}
  static void set_static_data_variable_names(StaticData*, const char**) {}
  static void set_static_data_result_names(StaticData*, const char**) {}
  static void set_static_data_program_shape(StaticData*, const xla::ProgramShapeProto*) {}
  // From 2.20 on, for the other form of the code: empty in this one.
  static void set_static_data_function_library_symbol_map(StaticData*, const absl::flat_hash_map<std::string, void*>&) {}
  static void set_static_data_temp_allocation_index(StaticData*, std::optional<std::size_t>) {}
  static void set_static_data_thunk_run_impl(StaticData*, std::nullptr_t) {}
  static void set_static_data_compilation_result_proto(StaticData*, std::nullptr_t) {}
  static void set_static_data_hlo_profile_printer_data(StaticData*, const xla::HloProfilePrinterData*) {}
};

}  // namespace tensorflow

#endif  // TFAOT_STAND_IN_XLA_COMPILED_CPU_FUNCTION_H_
