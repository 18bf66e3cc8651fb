// Stand-ins for libraries of stranger models than fake_model.cpp's, for tests of the headers:
//
//   types   every element type: output NAME is input NAME with the two elements of each row exchanged; `shift`, a
//           scalar without batch axis, is added to `i32`. Batch sizes 1 and 3.
//   total   `total`, a scalar without batch axis, is the sum of x; `y` the sum of each row. Batch sizes 1 and 2.
//   centred y is x less the mean of x over the batch: rows depend on one another. Batch sizes 1 and 4.
//   source  no inputs; y is {1, 2}. Batch size 1.
//   any     takes any batch size: `size` is the number of rows of the call, for each row. Batch sizes 1 and 4 are listed.
//   fixed   the same, with `whole`, a scalar without batch axis that is 7.
#include <cstdint>
#include <cstring>

#include <tfaot/abi.h>

struct tfaot_instance {
  char unused;
};

namespace {

constexpr int64_t kPairs[] = {-1, 2};
constexpr int64_t kRows[] = {-1};
constexpr int64_t kPair[] = {2};
constexpr const char* kTargets[] = {"x86-64"};
constexpr double kCosts[] = {1, 2};

tfaot_status create(const char*, tfaot_instance** instance, char*, size_t) {
  *instance = new tfaot_instance{};
  return TFAOT_OK;
}
void destroy(tfaot_instance* instance) { delete instance; }
const char* message(const tfaot_instance*) { return "this batch size was not compiled"; }
const char* target(const tfaot_instance*) { return kTargets[0]; }
size_t memory(const tfaot_instance*) { return sizeof(tfaot_instance); }

constexpr tfaot_info info_of(const char* name, size_t num_inputs, const tfaot_tensor* inputs, size_t num_outputs,
                             const tfaot_tensor* outputs, size_t num_batch_sizes, const int64_t* batch_sizes,
                             int32_t rows_independent = 1, int32_t any_batch_size = 0) {
  return {sizeof(tfaot_info), 64,      name,        "1.2.0",         "0123456789ab", "tensorflow 2.17.1",
          num_inputs,         inputs,  num_outputs, outputs,         num_batch_sizes, batch_sizes,
          1,                  kTargets, kCosts,      rows_independent, any_batch_size,
          0,                  nullptr, nullptr,     nullptr,         0,               nullptr, 0, nullptr, nullptr};
}

constexpr tfaot_tensor pairs(const char* name, int32_t dtype, int32_t element_size) {
  return {name, dtype, 2, kPairs, 2, element_size, 1};
}

// types

constexpr int64_t kTypesSizes[] = {1, 3};
constexpr tfaot_tensor kTypesInputs[] = {
    pairs("b", TFAOT_BOOL, 1),   pairs("d", TFAOT_FLOAT64, 8), pairs("f", TFAOT_FLOAT32, 4),
    pairs("i16", TFAOT_INT16, 2), pairs("i32", TFAOT_INT32, 4), pairs("i64", TFAOT_INT64, 8),
    pairs("i8", TFAOT_INT8, 1),  {"shift", TFAOT_INT32, 0, nullptr, 1, 4, 0},
    pairs("u16", TFAOT_UINT16, 2), pairs("u32", TFAOT_UINT32, 4), pairs("u64", TFAOT_UINT64, 8),
    pairs("u8", TFAOT_UINT8, 1),
};
constexpr tfaot_tensor kTypesOutputs[] = {
    kTypesInputs[0], kTypesInputs[1], kTypesInputs[2], kTypesInputs[3], kTypesInputs[4],  kTypesInputs[5],
    kTypesInputs[6], kTypesInputs[8], kTypesInputs[9], kTypesInputs[10], kTypesInputs[11],
};
constexpr size_t kShift = 7;  // its index among the inputs

tfaot_status run_types(tfaot_instance*, int64_t batch_size, const void* const* inputs, void* const* outputs) {
  if (batch_size != 1 && batch_size != 3) return TFAOT_NO_SUCH_BATCH_SIZE;
  for (size_t output = 0; output < 11; ++output) {
    const size_t size = static_cast<size_t>(kTypesOutputs[output].element_size);
    const char* from = static_cast<const char*>(inputs[output < kShift ? output : output + 1]);
    char* to = static_cast<char*>(outputs[output]);
    for (int64_t row = 0; row < batch_size; ++row, from += 2 * size, to += 2 * size) {
      std::memcpy(to, from + size, size);
      std::memcpy(to + size, from, size);
    }
  }
  for (int64_t i = 0; i < 2 * batch_size; ++i) {
    static_cast<int32_t*>(outputs[4])[i] += *static_cast<const int32_t*>(inputs[kShift]);
  }
  return TFAOT_OK;
}

constexpr tfaot_info kTypes = info_of("types", 12, kTypesInputs, 11, kTypesOutputs, 2, kTypesSizes);

// total

constexpr int64_t kTotalSizes[] = {1, 2};
constexpr tfaot_tensor kTotalInputs[] = {pairs("x", TFAOT_FLOAT32, 4)};
constexpr tfaot_tensor kTotalOutputs[] = {
    {"total", TFAOT_FLOAT64, 0, nullptr, 1, 8, 0},
    {"y", TFAOT_FLOAT32, 1, kRows, 1, 4, 1},
};

tfaot_status run_total(tfaot_instance*, int64_t batch_size, const void* const* inputs, void* const* outputs) {
  if (batch_size != 1 && batch_size != 2) return TFAOT_NO_SUCH_BATCH_SIZE;
  const float* const x = static_cast<const float*>(inputs[0]);
  double& total = *static_cast<double*>(outputs[0]);
  float* const y = static_cast<float*>(outputs[1]);
  total = 0;
  for (int64_t row = 0; row < batch_size; ++row) {
    y[row] = x[2 * row] + x[2 * row + 1];
    total += static_cast<double>(y[row]);
  }
  return TFAOT_OK;
}

constexpr tfaot_info kTotal = info_of("total", 1, kTotalInputs, 2, kTotalOutputs, 2, kTotalSizes);

// centred

constexpr int64_t kCentredSizes[] = {1, 4};
constexpr tfaot_tensor kCentredInputs[] = {{"x", TFAOT_FLOAT32, 1, kRows, 1, 4, 1}};
constexpr tfaot_tensor kCentredOutputs[] = {{"y", TFAOT_FLOAT32, 1, kRows, 1, 4, 1}};

tfaot_status run_centred(tfaot_instance*, int64_t batch_size, const void* const* inputs, void* const* outputs) {
  if (batch_size != 1 && batch_size != 4) return TFAOT_NO_SUCH_BATCH_SIZE;
  const float* const x = static_cast<const float*>(inputs[0]);
  float mean = 0;
  for (int64_t row = 0; row < batch_size; ++row) mean += x[row] / static_cast<float>(batch_size);
  for (int64_t row = 0; row < batch_size; ++row) static_cast<float*>(outputs[0])[row] = x[row] - mean;
  return TFAOT_OK;
}

constexpr tfaot_info kCentred = info_of("centred", 1, kCentredInputs, 1, kCentredOutputs, 2, kCentredSizes, 0);

// source

constexpr int64_t kSourceSizes[] = {1};
constexpr tfaot_tensor kSourceOutputs[] = {{"y", TFAOT_FLOAT64, 1, kPair, 2, 8, 0}};

tfaot_status run_source(tfaot_instance*, int64_t batch_size, const void* const*, void* const* outputs) {
  if (batch_size != 1) return TFAOT_NO_SUCH_BATCH_SIZE;
  static_cast<double*>(outputs[0])[0] = 1;
  static_cast<double*>(outputs[0])[1] = 2;
  return TFAOT_OK;
}

constexpr tfaot_info kSource = info_of("source", 0, nullptr, 1, kSourceOutputs, 1, kSourceSizes);

// any, fixed

constexpr int64_t kAnySizes[] = {1, 4};
constexpr tfaot_tensor kAnyInputs[] = {{"x", TFAOT_FLOAT32, 1, kRows, 1, 4, 1}};
constexpr tfaot_tensor kAnyOutputs[] = {
    {"size", TFAOT_INT64, 1, kRows, 1, 8, 1},
    {"whole", TFAOT_FLOAT64, 0, nullptr, 1, 8, 0},
};

tfaot_status run_any(tfaot_instance*, int64_t batch_size, const void* const*, void* const* outputs) {
  if (batch_size < 1) return TFAOT_NO_SUCH_BATCH_SIZE;
  for (int64_t row = 0; row < batch_size; ++row) static_cast<int64_t*>(outputs[0])[row] = batch_size;
  return TFAOT_OK;
}

tfaot_status run_fixed(tfaot_instance* instance, int64_t batch_size, const void* const* inputs, void* const* outputs) {
  static_cast<double*>(outputs[1])[0] = 7;
  return run_any(instance, batch_size, inputs, outputs);
}

constexpr tfaot_info kAny = info_of("any", 1, kAnyInputs, 1, kAnyOutputs, 2, kAnySizes, 1, 1);
constexpr tfaot_info kFixed = info_of("fixed", 1, kAnyInputs, 2, kAnyOutputs, 2, kAnySizes, 1, 1);

using Run = tfaot_status (*)(tfaot_instance*, int64_t, const void* const*, void* const*);

// As of libraries before there was one object for all threads: the table ends before its functions.
constexpr tfaot::Table table_of(const tfaot_info* info, Run run) {
  return {TFAOT_ABI_VERSION, offsetof(tfaot::Table, select), info, create, destroy, run, message, target, memory,
          nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
          nullptr, nullptr, nullptr, nullptr};
}

constexpr tfaot::Table kTypesTable = table_of(&kTypes, run_types);
constexpr tfaot::Table kTotalTable = table_of(&kTotal, run_total);
constexpr tfaot::Table kCentredTable = table_of(&kCentred, run_centred);
constexpr tfaot::Table kSourceTable = table_of(&kSource, run_source);
constexpr tfaot::Table kAnyTable = table_of(&kAny, run_any);
constexpr tfaot::Table kFixedTable = table_of(&kFixed, run_fixed);

}  // namespace

extern "C" {
const tfaot::Table* tfaot_model_types_0123456789ab(void);
const tfaot::Table* tfaot_model_types_0123456789ab(void) { return &kTypesTable; }
const tfaot::Table* tfaot_model_total_0123456789ab(void);
const tfaot::Table* tfaot_model_total_0123456789ab(void) { return &kTotalTable; }
const tfaot::Table* tfaot_model_centred_0123456789ab(void);
const tfaot::Table* tfaot_model_centred_0123456789ab(void) { return &kCentredTable; }
const tfaot::Table* tfaot_model_source_0123456789ab(void);
const tfaot::Table* tfaot_model_source_0123456789ab(void) { return &kSourceTable; }
const tfaot::Table* tfaot_model_any_0123456789ab(void);
const tfaot::Table* tfaot_model_any_0123456789ab(void) { return &kAnyTable; }
const tfaot::Table* tfaot_model_fixed_0123456789ab(void);
const tfaot::Table* tfaot_model_fixed_0123456789ab(void) { return &kFixedTable; }
}
