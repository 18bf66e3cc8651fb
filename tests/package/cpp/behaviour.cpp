// What the generated class of the fake model `affine` (fake_model.cpp: y = 2 x + bias, batch sizes 2 and 4) does.
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <tfaot-model-affine/model.h>

#include "check.h"

using tfaot_model::affine;

static_assert(!std::is_copy_constructible<affine>::value && !std::is_copy_assignable<affine>::value, "move-only");
static_assert(std::is_nothrow_move_constructible<affine>::value, "");
static_assert(std::is_nothrow_move_assignable<affine>::value, "");
static_assert(std::is_nothrow_copy_constructible<tfaot::Error>::value, "");
static_assert(std::is_same<affine::InputTypes, std::tuple<float, float>>::value, "");
static_assert(std::is_same<affine::OutputTypes, std::tuple<std::int64_t, float>>::value, "");
static_assert(affine::batch_sizes.size() == 2 && affine::batch_sizes[1] == 4, "");
static_assert(affine::InputInfo::x.size_at(5) == 15 && affine::InputInfo::bias_in.size_at(5) == 3, "");
static_assert(affine::inputs[1].row_size == 3 && affine::outputs[0].dtype == tfaot::DType::int64, "");

// What must not compile is in test_interface.py.
template <class Out>
constexpr bool takes_label = std::is_convertible<Out, tfaot::span<std::int64_t>>::value;
static_assert(takes_label<std::vector<std::int64_t>&> && takes_label<tfaot::span<std::int64_t>>, "");
static_assert(!takes_label<float> && !takes_label<std::int64_t*>, "");
static_assert(std::is_convertible<std::vector<float>, tfaot::span<const float>>::value, "");

namespace {

const std::vector<float> kBias = {0.5f, 0.0f, -0.5f};

std::vector<float> rows(std::size_t count) {
  std::vector<float> x(count * 3);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7) % 11) - 4.0f;
  return x;
}

void every_batch_size_gives_the_same_rows() {
  affine model;
  for (std::size_t count = 0; count < 12; ++count) {
    const std::vector<float> x = rows(count);
    const float guard = 99.0f;
    std::vector<float> y(count * 3 + 1, guard);
    std::vector<std::int64_t> label(count + 1, 99);
    affine::Inputs in;
    in.x = x;
    in.bias_in = kBias;
    affine::Outputs out;
    out.label = {label.data(), count};
    out.y = {y.data(), count * 3};
    model.run(count, in, out);
    for (std::size_t i = 0; i < count * 3; ++i) {
      expect(y[i] == 2.0f * x[i] + kBias[i % 3], "y[" + std::to_string(i) + "] of " + std::to_string(count) + " rows");
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t best = 0;
      for (std::size_t j = 1; j < 3; ++j) best = y[i * 3 + j] > y[i * 3 + best] ? j : best;
      expect(label[i] == static_cast<std::int64_t>(best), "label[" + std::to_string(i) + "]");
    }
    expect(y.back() == guard && label.back() == 99, "nothing is written behind " + std::to_string(count) + " rows");
  }
}

void buffers_can_be_given_in_the_order_of_the_names() {
  affine model("x86-64-v2");
  const float x[] = {1, 2, 3, 6, 5, 4};
  std::int64_t label[2];
  float y[6];
  model.run(2, kBias, x, label, y);
  expect(label[0] == 2 && label[1] == 0 && y[5] == 7.5f, "values of two rows");
  expect(std::string(model.target()) == "x86-64-v2" && model.memory() > 0, "target and memory");
}

void wrong_sizes_are_refused_with_both_numbers() {
  affine model;
  std::vector<float> x = rows(2), y(6);
  std::vector<std::int64_t> label(2);
  expect_error("affine: input \"x\": expected 9 elements (3 rows of 3), got 6",
               [&] { model.run(3, kBias, x, label, y); });
  expect_error("affine: input \"x\": expected 3 elements (1 row of 3), got 6",
               [&] { model.run(1, kBias, x, label, y); });
  expect_error("affine: input \"bias-in\": expected 3 elements, got 6", [&] { model.run(2, x, x, label, y); });
  label.resize(3);
  expect_error("affine: output \"label\": expected 2 elements (2 rows of 1), got 3",
               [&] { model.run(2, kBias, x, label, y); });
  // 3 * size overflows to 2.
  const std::size_t huge = std::numeric_limits<std::size_t>::max() / 3 * 2 + 2;
  try {
    model.run(huge, kBias, rows(2), label, y);
    expect(false, "a size that overflows");
  } catch (const tfaot::Error& error) {
    expect(error.model() == "affine" && error.argument() == "input \"x\"" && error.got() == "6", error.what());
    expect(error.expected() == std::to_string(huge) + " rows of 3", "more elements than can be counted");
  }
}

void failures_of_the_library_carry_its_message() {
  affine model;
  std::vector<float> x = rows(2), y(6);
  std::vector<std::int64_t> label(2);
  x[4] = -1000.0f;
  expect_error("affine: batch size 2: x is -1000", [&] { model.run(2, kBias, x, label, y); });
  expect_error("affine: the library has no code for target z80", [] { affine z80("z80"); });
}

void an_instance_can_be_moved() {
  affine first;
  std::vector<float> x = rows(3), y(9), z(9);
  std::vector<std::int64_t> label(3);
  first.run(3, kBias, x, label, y);
  affine second(std::move(first));
  second.run(3, kBias, x, label, z);
  expect(y == z, "the moved instance computes");
  expect_error("affine: this instance was moved from", [&] { first.run(3, kBias, x, label, y); });
  first = std::move(second);
  first.run(3, kBias, x, label, z);
  expect(y == z, "moved back");
}

void an_error_names_its_parts_and_can_be_copied() {
  tfaot::Error error("m", "input \"a\"", "1", "2");
  const tfaot::Error copy = error;
  error = tfaot::Error("other", "reason");
  expect(copy.model() == "m" && copy.argument() == "input \"a\"" && copy.expected() == "1" && copy.got() == "2", "");
  expect(error.model() == "other" && error.argument().empty() && error.expected().empty() && error.got().empty(), "");
}

// The same library with one batch axis less, and with an ABI of the past.
void what_cannot_be_split_and_what_is_too_old_is_refused() {
  const tfaot::Table& table = affine::table();
  tfaot_tensor outputs[] = {table.info->outputs[0], table.info->outputs[1]};
  outputs[1].has_batch_axis = 0;
  tfaot_info info = *table.info;
  info.outputs = outputs;
  tfaot::Table changed = table;
  changed.info = &info;
  tfaot::Instance instance(changed);
  const void* in[] = {nullptr, nullptr};
  void* out[] = {nullptr, nullptr};
  expect_error("affine: batch size: expected a compiled one (2, 4) because output \"y\" has no batch axis, got 3",
               [&] { instance.run(3, in, out); });
  changed.abi_version = 0;
  expect_error("affine: ABI version of the library: expected at least 1, got 0", [&] { tfaot::Instance old(changed); });
}

}  // namespace

float run_in_other_unit();

void test_generated_class() {
  every_batch_size_gives_the_same_rows();
  buffers_can_be_given_in_the_order_of_the_names();
  wrong_sizes_are_refused_with_both_numbers();
  failures_of_the_library_carry_its_message();
  an_instance_can_be_moved();
  an_error_names_its_parts_and_can_be_copied();
  what_cannot_be_split_and_what_is_too_old_is_refused();
  expect(run_in_other_unit() == 2.5f, "the header works in two translation units");
}
