// Stand-in for TensorFlow's header of this name, for toolchains that compile a model to kernels and C++ that calls them.
//
// The class that tfcompile generates derives from XlaCompiledCpuFunction and hands it tables and a function.
// TensorFlow's own base class pulls in Eigen, Abseil and protobuf; this one only keeps what unit.cc.j2 reads.
#ifndef TFAOT_STAND_IN_XLA_COMPILED_CPU_FUNCTION_H_
#define TFAOT_STAND_IN_XLA_COMPILED_CPU_FUNCTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/flat_hash_map.h"
#include "xla/backends/cpu/runtime/rng_state_lib.h"

namespace Eigen {
struct ThreadPoolDevice;
}  // namespace Eigen

namespace xla {

class ProgramShapeProto;

// Everything runs in the caller's thread.
class ExecutableRunOptions {
 public:
  const Eigen::ThreadPoolDevice* intra_op_thread_pool() const { return nullptr; }
};

namespace cpu {

class CompilationResultProto;

struct EncodedBufferAllocationInfo {
  std::uint64_t packed_kind_and_size;  // size << 2 | kind
  std::uint32_t entry_param_number;
  std::uint32_t result_number;
};

class BufferAllocationInfo {
 public:
  explicit constexpr BufferAllocationInfo(const EncodedBufferAllocationInfo& encoded)
      : kind_(static_cast<int>(encoded.packed_kind_and_size & 3)),
        is_bound_(encoded.entry_param_number != kNone || encoded.result_number != kNone),
        size_(encoded.packed_kind_and_size >> 2) {}

  constexpr bool is_constant() const { return kind_ == 0; }
  // The tuple of all results counts as a parameter there, too: a kernel of a loop writes the results' addresses into it.
  constexpr bool is_temporary() const { return kind_ == 1 || (kind_ == 2 && !is_bound_); }
  constexpr bool is_parameter() const { return kind_ == 2 && is_bound_; }
  constexpr std::uint64_t size() const { return size_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  int kind_;  // 0 constant, 1 temporary, 2 parameter or result, 3 thread-local
  bool is_bound_;  // to an argument or a result
  std::uint64_t size_;
};

}  // namespace cpu
}  // namespace xla

namespace tensorflow {

class XlaCompiledCpuFunction {
 public:
  using RngStates = std::vector<std::unique_ptr<xla::cpu::RngState>>;
  using ThunkRunImpl = std::function<bool(void** buffer_table, xla::ExecutableRunOptions*, RngStates&)>;
  using Constants = std::vector<std::pair<std::uint64_t, char*>>;

  struct ShapeInfo {
    const std::int32_t* dimensions;
    std::int32_t num_dimensions;
  };

  struct StaticData {
    // The generated class never frees its `new StaticData`: give it memory that goes when the library is unloaded.
    static void* operator new(std::size_t size);

    ThunkRunImpl run;
    mutable Constants constants;  // until they are taken: nothing destroys a StaticData, and its memory would stay behind
    std::vector<std::int64_t> rng_state_deltas;
    const xla::cpu::BufferAllocationInfo* buffer_infos;
    std::size_t num_buffers;
    const std::int32_t* result_index_table;
    const std::int32_t* arg_index_table;
  };

  enum class AllocMode { ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS };

 protected:
  XlaCompiledCpuFunction(const StaticData&, AllocMode) {}
  virtual ~XlaCompiledCpuFunction() = default;
  virtual bool is_thunk_mode() const { return false; }

  // Called by accessors of the generated class that nothing here uses.
  void* arg_data(std::size_t) const { return nullptr; }
  void set_arg_data(std::size_t, const void*) {}
  void* result_data(std::size_t) const { return nullptr; }

  using SymbolMap = absl::flat_hash_map<std::string, void*>;
  static void set_static_data_function_library_symbol_map(StaticData*, const SymbolMap&) {}
  static void set_static_data_buffer_infos(StaticData* data, const xla::cpu::BufferAllocationInfo* infos) {
    data->buffer_infos = infos;
  }
  static void set_static_data_num_buffers(StaticData* data, std::size_t n) { data->num_buffers = n; }
  static void set_static_data_result_index_table(StaticData* data, const std::int32_t* table) {
    data->result_index_table = table;
  }
  static void set_static_data_num_results(StaticData*, std::int64_t) {}
  static void set_static_data_arg_index_table(StaticData* data, const std::int32_t* table) {
    data->arg_index_table = table;
  }
  static void set_static_data_num_args(StaticData*, std::int64_t) {}
  static void set_static_data_num_variables(StaticData*, std::int64_t) {}
  static void set_static_data_temp_allocation_index(StaticData*, std::optional<std::size_t>) {}
  static void set_static_data_arg_shape_infos(StaticData*, const ShapeInfo*) {}
  static void set_static_data_result_shape_infos(StaticData*, const ShapeInfo*) {}
  static void set_static_data_arg_names(StaticData*, const char**) {}
  static void set_static_data_variable_names(StaticData*, const char**) {}
  static void set_static_data_result_names(StaticData*, const char**) {}
  static void set_static_data_program_shape(StaticData*, const xla::ProgramShapeProto*) {}
  static void set_static_data_thunk_run_impl(StaticData* data, ThunkRunImpl run) { data->run = std::move(run); }
  static void set_static_data_embedded_constant_buffers(StaticData* data, Constants constants) {
    data->constants = std::move(constants);
  }
  static void set_static_data_rng_state_deltas(StaticData* data, std::vector<std::int64_t> deltas) {
    data->rng_state_deltas = std::move(deltas);
  }
  static void set_static_data_compilation_result_proto(StaticData*, const xla::cpu::CompilationResultProto*) {}
};

}  // namespace tensorflow

#endif  // TFAOT_STAND_IN_XLA_COMPILED_CPU_FUNCTION_H_
