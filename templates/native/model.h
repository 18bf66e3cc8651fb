// What the fixed part of a library (library.cc) needs to know about its model; the values are in model.cc.
#ifndef TFAOT_NATIVE_MODEL_H_
#define TFAOT_NATIVE_MODEL_H_

#include <cstddef>
#include <cstdint>

#include "tfaot/c_api.h"
#include "unit.h"

namespace tfaot_native {

struct TargetCode {
  const char* name;
  bool (*runs_here)();
  const Target* (*units)();  // code for the target: to be called only if runs_here()
};

struct ModelData {
  tfaot_info info;
  const TargetCode* targets;  // lowest first, as info.targets
  // Weights follow the inputs in the order of arguments; those of a program are one.
  std::size_t num_weights;
  const std::uint64_t* weight_offsets;  // bytes from the start of `weights`
  const unsigned char* weights;
  const std::size_t* largest_sizes;  // maxima of info.symbols
};

extern const ModelData model_data;

// Whether this CPU and operating system can run a target's code (cpu.cc).
bool runs_x86_64();
bool runs_x86_64_v2();
bool runs_x86_64_v3();
bool runs_x86_64_v4();
bool runs_aarch64();

// Of the tables of the model and its signatures (library.cc).
tfaot_status create(const char* target, tfaot_instance** instance, char* message, std::size_t message_size);
void destroy(tfaot_instance* instance);
tfaot_status run(tfaot_instance* instance, std::int64_t batch_size, const void* const* inputs, void* const* outputs);
tfaot_status run_sized(tfaot_instance* instance, std::int64_t batch_size, const std::size_t* sizes,
                       const void* const* inputs, void* const* outputs);
const char* message(const tfaot_instance* instance);
const char* target(const tfaot_instance* instance);
std::size_t memory(const tfaot_instance* instance);
tfaot_status select(const char* target, const tfaot_code** code, char* message, std::size_t message_size);
const char* code_target(const tfaot_code* code);
std::size_t scratch_bytes(const tfaot_code* code, std::int64_t batch_size);
tfaot_status compute(const tfaot_code* code, std::int64_t batch_size, const void* const* inputs, void* const* outputs,
                     void* scratch, std::size_t scratch_size, char* message, std::size_t message_size);
tfaot_status compute_sized(const tfaot_code* code, std::int64_t batch_size, const std::size_t* sizes,
                           const void* const* inputs, void* const* outputs, void* scratch, std::size_t scratch_size,
                           char* message, std::size_t message_size);
std::size_t team_scratch_bytes(const tfaot_code* code, std::int64_t batch_size, std::size_t team_size);
tfaot_status compute_with_team(const tfaot_code* code, std::int64_t batch_size, const std::size_t* sizes,
                               const void* const* inputs, void* const* outputs, const tfaot_team* team, void* scratch,
                               std::size_t scratch_size, char* message, std::size_t message_size);
std::uint32_t permit(const tfaot_code* code, std::uint32_t features);
std::size_t kept_bytes();
void release();

// Threads that wait for the tasks of teams (thread_pool.cc), for the table.
void serve_thread_pool(tfaot_thread_pool* pool);
void stop_thread_pool(tfaot_thread_pool* pool);
void run_on_thread_pool(void* pool, std::size_t count, void (*task)(void* argument), void* argument);

// The state as bytes (state.cc), for the table.
std::size_t state_bytes();
tfaot_status save_state(const void* const* state, void* bytes, std::size_t size, char* message, std::size_t message_size);
tfaot_status restore_state(const void* bytes, std::size_t size, void* const* state, char* message,
                           std::size_t message_size);

// The model's table; the exported entry functions return it.
const tfaot_model_table* model_table();

}  // namespace tfaot_native

#endif  // TFAOT_NATIVE_MODEL_H_
