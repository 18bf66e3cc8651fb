// tfaot::Model over fake models: nested vectors and contiguous buffers, batch rules, costs.
#include <tfaot/dynamic.h>
#include <tfaot/model.h>
#include <tfaot/pool.h>

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tfaot-model-affine/model.h>
#include <tfaot-model-centred/model.h>
#include <tfaot-model-source/model.h>
#include <tfaot-model-total/model.h>
#include <tfaot-model-types/model.h>

#include "check.h"

using tfaot::FloatArrays;
using tfaot::Int64Arrays;
using tfaot_model::affine;

static_assert(!std::is_copy_constructible<tfaot::Model<affine>>::value, "move-only");
static_assert(std::is_nothrow_move_constructible<tfaot::Model<affine>>::value, "");

extern "C" std::size_t tfaot_model_affine_0123456789ab_runs(std::int64_t batch_size);
extern "C" void tfaot_model_affine_0123456789ab_during(void (*called)());

namespace {

const std::vector<float> kBias = {0.5f, 0.0f, -0.5f};

float value(std::size_t i) { return static_cast<float>((i * 7) % 11) - 4.0f; }

FloatArrays rows(std::size_t count) {
  FloatArrays x(count, std::vector<float>(3));
  for (std::size_t i = 0; i < 3 * count; ++i) x[i / 3][i % 3] = value(i);
  return x;
}

std::vector<float> flat(std::size_t count) {
  std::vector<float> x(3 * count);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = value(i);
  return x;
}

float answer(std::size_t i) { return 2.0f * value(i) + kBias[i % 3]; }

/// How often the sizes 2 and 4 ran in `call`.
template <class F>
std::pair<std::size_t, std::size_t> runs_of(F call) {
  const std::size_t twos = tfaot_model_affine_0123456789ab_runs(2), fours = tfaot_model_affine_0123456789ab_runs(4);
  call();
  return {tfaot_model_affine_0123456789ab_runs(2) - twos, tfaot_model_affine_0123456789ab_runs(4) - fours};
}

void nested_vectors_of_any_batch_size() {
  tfaot::Model<affine> model;
  for (std::size_t count = 0; count < 20; ++count) {
    const auto [label, y] = model.run<Int64Arrays, FloatArrays>(count, FloatArrays{kBias}, rows(count));
    expect(label.size() == count && y.size() == count, std::to_string(count) + " rows of outputs");
    for (std::size_t i = 0; i < 3 * count; ++i) {
      expect(y[i / 3].size() == 3 && y[i / 3][i % 3] == answer(i), "y[" + std::to_string(i) + "]");
    }
    for (const auto& row : label) expect(row.size() == 1 && row[0] >= 0 && row[0] < 3, "label");
  }
}

void nested_containers_of_other_kinds() {
  tfaot::Model<affine> model;
  const std::deque<std::deque<float>> x = {{1, 2, 3}, {6, 5, 4}};
  const std::array<std::array<float, 3>, 1> bias = {{{0.5f, 0.0f, -0.5f}}};
  Int64Arrays label;
  FloatArrays y;
  std::tie(label, y) = model.run<Int64Arrays, FloatArrays>(2, bias, x);
  expect(label == Int64Arrays{{2}, {0}} && y == FloatArrays{{2.5f, 4, 5.5f}, {12.5f, 10, 7.5f}}, "deques and arrays");
}

void nested_vectors_of_wrong_sizes_are_refused_with_both_numbers() {
  tfaot::Model<affine> model;
  const FloatArrays bias = {kBias};
  const auto run = [&](std::size_t count, const FloatArrays& b, const FloatArrays& x) {
    return model.run<Int64Arrays, FloatArrays>(count, b, x);
  };
  expect_error("affine: input \"x\": expected 3 rows, got 2", [&] { run(3, bias, rows(2)); });
  expect_error("affine: input \"x\", row 1: expected 3 elements, got 2", [&] { run(2, bias, {{1, 2, 3}, {1, 2}}); });
  expect_error("affine: input \"x\", row 0: expected 3 elements, got 4", [&] { run(1, bias, {{1, 2, 3, 4}}); });
  expect_error("affine: input \"bias-in\": expected 1 row, got 0", [&] { run(1, {}, rows(1)); });
  expect_error("affine: input \"bias-in\", row 0: expected 3 elements, got 0", [&] { run(0, {{}}, rows(0)); });
  // Before memory for so many rows is asked for.
  const auto most = static_cast<std::size_t>(-1);
  expect_error("affine: input \"x\": expected 18446744073709551615 rows, got 1", [&] { run(most, bias, rows(1)); });
  const std::vector<float> x(3);
  expect_error("affine: input \"x\": expected 864691128455135232 elements (288230376151711744 rows of 3), got 3",
               [&] { model.run(std::size_t{1} << 58, {kBias, x}); });
  const auto result = run(1, {kBias, {}}, rows(5));
  expect(std::get<1>(result).size() == 1, "rows beyond the batch size are not looked at");
}

template <class T>
tfaot::Arrays<T> pairs_of(T first, T second, std::size_t count) {
  return tfaot::Arrays<T>(count, std::vector<T>{first, second});
}

void every_element_type() {
  tfaot::Model<tfaot_model::types> model;
  for (const std::size_t count : {0u, 1u, 2u, 3u, 8u}) {
    const auto out = model.run<tfaot::BoolArrays, tfaot::DoubleArrays, tfaot::FloatArrays, tfaot::Int16Arrays,
                               tfaot::Int32Arrays, tfaot::Int64Arrays, tfaot::Int8Arrays, tfaot::UInt16Arrays,
                               tfaot::UInt32Arrays, tfaot::UInt64Arrays, tfaot::UInt8Arrays>(
        count, pairs_of(true, false, count), pairs_of(0.1, -1e300, count), pairs_of(0.1f, 2.0f, count),
        pairs_of<std::int16_t>(-32768, 7, count), pairs_of<std::int32_t>(-2147483647, 7, count),
        pairs_of<std::int64_t>(-9223372036854775807, 7, count), pairs_of<std::int8_t>(-128, 7, count),
        tfaot::Int32Arrays{{100}}, pairs_of<std::uint16_t>(65535, 7, count), pairs_of<std::uint32_t>(4294967295u, 7, count),
        pairs_of<std::uint64_t>(18446744073709551615u, 7, count), pairs_of<std::uint8_t>(255, 7, count));
    expect(std::get<0>(out) == pairs_of(false, true, count), "bool");
    expect(std::get<1>(out) == pairs_of(-1e300, 0.1, count), "float64");
    expect(std::get<2>(out) == pairs_of(2.0f, 0.1f, count), "float32");
    expect(std::get<3>(out) == pairs_of<std::int16_t>(7, -32768, count), "int16");
    expect(std::get<4>(out) == pairs_of<std::int32_t>(107, -2147483547, count), "int32, with the scalar added");
    expect(std::get<5>(out) == pairs_of<std::int64_t>(7, -9223372036854775807, count), "int64");
    expect(std::get<6>(out) == pairs_of<std::int8_t>(7, -128, count), "int8");
    expect(std::get<7>(out) == pairs_of<std::uint16_t>(7, 65535, count), "uint16");
    expect(std::get<8>(out) == pairs_of<std::uint32_t>(7, 4294967295u, count), "uint32");
    expect(std::get<9>(out) == pairs_of<std::uint64_t>(7, 18446744073709551615u, count), "uint64");
    expect(std::get<10>(out) == pairs_of<std::uint8_t>(7, 255, count), "uint8");
  }
}

void contiguous_buffers_of_the_caller_and_of_the_model() {
  tfaot::Model<affine> model;
  for (const std::size_t count : {0u, 1u, 2u, 7u, 100u}) {
    const std::vector<float> x = flat(count);
    std::vector<float> y(x.size());
    std::vector<std::int64_t> label(count);
    model.run(count, {kBias, x}, {label, y});
    const affine::Outputs own = model.run(count, {kBias, x});
    expect(own.y.size() == y.size() && own.label.size() == count, "sizes of the model's own buffers");
    expect(own.y.data() == own.get<1>().data() && own.label.data() == own.get<0>().data(), "by name and by index");
    for (std::size_t i = 0; i < y.size(); ++i) expect(y[i] == answer(i) && own.y[i] == answer(i), "contiguous y");
    for (std::size_t i = 0; i < count; ++i) expect(label[i] == own.label[i], "contiguous label");
    expect(reinterpret_cast<std::uintptr_t>(own.y.data()) % 64 == 0, "the model's own buffers are aligned");
  }
  affine::Inputs in;
  const std::vector<float> x = flat(2);
  in.get<0>() = kBias;
  in.get<1>() = x;
  expect(model.run(2, in).y[5] == answer(5), "inputs by index");
  expect_error("affine: input \"x\": expected 9 elements (3 rows of 3), got 6", [&] { model.run(3, in); });
  std::vector<float> y(6);
  std::vector<std::int64_t> label(1);
  expect_error("affine: output \"label\": expected 2 elements (2 rows of 1), got 1",
               [&] { model.run(2, in, {label, y}); });
}

void a_rule_is_used_and_replaced() {
  tfaot::Model<affine> model("x86-64-v3");
  const std::vector<float> x = flat(12);
  const auto run = [&](std::size_t count) {
    return runs_of([&] {
      const affine::Outputs out = model.run(count, {kBias, {x.data(), 3 * count}});
      for (std::size_t i = 0; i < 3 * count; ++i) expect(out.y[i] == answer(i), "y with a rule");
    });
  };
  using Runs = std::pair<std::size_t, std::size_t>;
  expect(run(6) == Runs(1, 1), "by cost: 2 and 4");
  model.setBatchRule(6, {2, 2, 2});
  expect(run(6) == Runs(3, 0), "2, 2, 2");
  model.setBatchRule("6:4,4");
  expect(run(6) == Runs(0, 2), "4, 4 with padding");
  model.setBatchRule("4:2,2");
  expect(run(4) == Runs(2, 0), "a compiled size can have a rule too");
  model.setBatchRule(5, {2, 4}, 1);
  expect(run(5) == Runs(1, 1), "2 and 4 of which one is padding");
  expect(model.batchRule(5).text() == "5:2,4" && model.batchRule(2).text() == "2:2", "how a size is composed");
  tfaot::BatchStrategy strategy;
  strategy.setDefaultRule(6, {affine::batch_sizes.begin(), affine::batch_sizes.end()});
  model.setBatchStrategy(strategy);
  expect(run(6) == Runs(3, 0) && run(4) == Runs(0, 1), "a strategy replaces all rules");
  expect(model.getBatchStrategy().rules().size() == 1, "contiguous calls remember no rules");
}

void padding_repeats_the_last_row() {
  tfaot::Model<affine> model;
  model.setBatchRule("3:4");
  model.setBatchRule("1:4");
  std::vector<float> x = flat(3);
  x[8] = -1000.0f;  // the fake fails where it sees this
  expect_error("affine: batch size 4: x is -1000", [&] { model.run(3, {kBias, x}); });
  expect(model.run(1, {kBias, {x.data(), 3}}).y[2] == answer(2), "nothing is left of the rows before");
}

void rules_that_cannot_run_are_refused_when_they_are_set() {
  tfaot::Model<affine> model;
  expect_error("affine: batch rule \"3:1,2\": expected compiled sizes (2, 4), got 1", [&] { model.setBatchRule("3:1,2"); });
  expect_error("affine: batch rule \"8:8\": expected compiled sizes (2, 4), got 8", [&] { model.setBatchRule(8, {8}); });
  expect_error("batch rule \"5:2,2\": its sizes cover only 4 rows", [&] { model.setBatchRule("5:2,2"); });
  tfaot::BatchStrategy good, bad;
  good.setRule(tfaot::BatchRule("4:2,2"));
  model.setBatchStrategy(good);
  bad.setRule(tfaot::BatchRule("3:4"));
  bad.setRule(tfaot::BatchRule("9:3,3,3"));
  expect_error("affine: batch rule \"9:3,3,3\": expected compiled sizes (2, 4), got 3", [&] { model.setBatchStrategy(bad); });
  expect(model.getBatchStrategy().hasRule(4) && !model.getBatchStrategy().hasRule(3), "nothing changed");
}

void a_size_has_a_rule_once_it_ran_on_nested_vectors() {
  tfaot::Model<affine> model("x86-64-v3");
  model.setBatchRule("3:4");
  expect(!model.getBatchStrategy().hasRule(2) && model.getBatchStrategy().hasRule(3), "before");
  for (const std::size_t count : {0u, 2u, 3u, 6u, 1000u}) {
    model.run<Int64Arrays, FloatArrays>(count, FloatArrays{kBias}, rows(count));
  }
  const tfaot::BatchStrategy& strategy = model.getBatchStrategy();
  expect(strategy.hasRule(2) && strategy.getRule(2).text() == "2:2", "a compiled size");
  expect(strategy.hasRule(6) && strategy.getRule(6).nSizes() == 2, "a composed size");
  expect(strategy.getRule(3).text() == "3:4", "a rule that was set stays");
  expect(!strategy.hasRule(4) && !strategy.hasRule(0), "others have none");
  expect(!strategy.hasRule(1000), "nor has a size of very many calls");
  model.calibrate(std::chrono::nanoseconds(1));
  expect(!strategy.hasRule(6) && strategy.hasRule(3), "new costs: what was set stays, what was remembered goes");
}

void costs_are_those_of_the_target() {
  tfaot::Model<affine> low("x86-64-v2"), high("x86-64-v3");
  expect(low.compiled().instance().planner().costs() == std::vector<double>{100, 100}, "costs of x86-64-v2");
  expect(high.compiled().instance().planner().costs() == std::vector<double>{100, 150}, "costs of x86-64-v3");
  expect(low.batchRule(6).text() == "6:4,4", "padding is cheap: " + low.batchRule(6).text());
  expect(high.batchRule(10).nSizes() == 3 && high.batchRule(10).getLastPadding() == 0, "no padding is needed");
  expect(high.batchRule(5).getLastPadding() == 1 && low.batchRule(5).getLastPadding() == 3, "padding by cost");
}

void a_library_that_tells_no_costs_works() {
  tfaot_info info = *affine::table().info;
  tfaot::Table table = affine::table();
  table.info = &info;
  info.struct_size = offsetof(tfaot_info, batch_costs);
  info.batch_costs = reinterpret_cast<const double*>(8);  // what lies behind the struct of an old library: not to be read
  expect(tfaot::Instance(table).planner().costs() == std::vector<double>{3, 5}, "an old library");
  info.struct_size = sizeof info;
  info.batch_costs = nullptr;
  expect(tfaot::Instance(table).planner().costs() == std::vector<double>{3, 5}, "no costs");
}

void calibrate_measures_every_size() {
  tfaot::Model<affine> model;
  model.setBatchRule("6:2,2,2");
  const auto [twos, fours] = runs_of([&] { model.calibrate(std::chrono::nanoseconds(1)); });
  expect(twos == 5 && fours == 5, "five runs at least: " + std::to_string(twos) + ", " + std::to_string(fours));
  const std::vector<double>& costs = model.compiled().instance().planner().costs();
  expect(costs.size() == 2 && costs[0] >= 1 && costs[1] >= 1 && costs[0] < 1e9, "nanoseconds");
  expect(model.batchRule(6).text() == "6:2,2,2", "rules that were set are kept");
  const std::vector<float> x = flat(7);
  expect(model.run(7, {kBias, x}).y[20] == answer(20), "it computes as before");
}

void outputs_without_a_batch_axis() {
  tfaot::Model<tfaot_model::total> model;
  const auto [total, y] = model.run<tfaot::DoubleArrays, FloatArrays>(2, FloatArrays{{1, 2}, {3, 4}});
  expect(total == tfaot::DoubleArrays{{10}} && y == FloatArrays{{3}, {7}}, "one row, whatever the batch size");
  const std::string refusal =
      "total: batch size: expected a compiled one (1, 2) because output \"total\" has no batch axis, got ";
  const std::vector<float> x(6, 1.0f);
  for (const std::size_t count : {0u, 3u}) {
    expect_error(refusal + std::to_string(count), [&] { model.run(count, {{x.data(), 2 * count}}); });
    expect_error(refusal + std::to_string(count), [&] { model.batchRule(count); });
  }
  expect_error(refusal + "3", [&] { model.setBatchRule("3:1,2"); });
  expect_error(refusal + "1", [&] { model.setBatchRule("1:2"); });
  model.setBatchRule("2:2");
}

void rows_that_depend_on_one_another_run_as_whole_batches_only() {
  using tfaot_model::centred;
  static_assert(affine::rows_independent && !centred::rows_independent, "in the generated class");
  tfaot::Model<centred> model;
  expect(!model.rows_independent() && tfaot::Model<affine>().rows_independent(), "at run time");
  const std::vector<float> x = {1, 2, 3, 6, 8};
  expect(model.run(4, {{x.data(), 4}}).y[3] == 3 && model.run(1, {{x.data(), 1}}).y[0] == 0, "compiled sizes");
  const std::string refusal =
      "centred: batch size: expected a compiled one (1, 4) because rows of this model depend on one another, got ";
  for (const std::size_t count : {0u, 2u, 5u}) {
    expect_error(refusal + std::to_string(count), [&] { model.run(count, {{x.data(), count}}); });
    expect_error(refusal + std::to_string(count), [&] { model.batchRule(count); });
    expect_error(refusal + std::to_string(count), [&] { model.run<FloatArrays>(count, FloatArrays(count, {1.0f})); });
  }
  for (const char* const rule : {"2:1,1", "3:4", "4:1,1,1,1"}) {
    expect_error(refusal + rule[0], [&] { model.setBatchRule(rule); });
  }
  tfaot::BatchStrategy strategy;
  strategy.setDefaultRule(2, {1, 4});
  expect_error(refusal + "2", [&] { model.setBatchStrategy(strategy); });
  strategy = tfaot::BatchStrategy();
  strategy.setDefaultRule(4, {1, 4});
  model.setBatchStrategy(strategy);
  std::vector<float> y(5);
  model.calibrate(std::chrono::nanoseconds(1));
  expect(model.run(4, {{x.data(), 4}}).y[0] == -2, "after calibrate");
  tfaot::DynamicModel dynamic(centred::table());
  expect_error(refusal + "5", [&] { dynamic.run(5, {{"x", x}}, {{"y", y}}); });
  tfaot::Pool<centred> pool;
  expect_error(refusal + "5", [&] { pool.borrow()->run(5, {x}, {y}); });
}

void a_library_that_does_not_tell_of_its_rows_composes_batches_as_before() {
  tfaot_info info = *tfaot_model::centred::table().info;
  tfaot::Table table = tfaot_model::centred::table();
  table.info = &info;
  info.struct_size = offsetof(tfaot_info, rows_independent);
  expect(tfaot::Instance(table).can_be_split(), "an old library");
}

void a_second_call_while_one_is_in_progress_is_refused() {
  static const std::string refusal = "affine: this instance is in use by another thread: use one instance per thread";
  static tfaot::Model<affine> model;
  static std::vector<float> x;
  x = flat(8);
  static const auto refused = [&] {
    expect_error(refusal, [&] { model.run(8, {kBias, x}); });
    expect_error(refusal, [&] { model.run<Int64Arrays, FloatArrays>(4, FloatArrays{kBias}, rows(4)); });
  };
  tfaot_model_affine_0123456789ab_during([] { refused(); });
  expect(model.run(8, {kBias, x}).y[23] == answer(23) && model.run(8, {kBias, x}).y[23] == answer(23), "usable afterwards");
  x[0] = -2000.0f;  // the library answers TFAOT_BUSY
  expect_error(refusal, [&] { model.run(8, {kBias, x}); });
  expect_error(refusal, [&] { model.run(8, {kBias, x}); });
  x[0] = value(0);
  expect(model.run(8, {kBias, x}).y[0] == answer(0), "usable after an error");
}

void a_model_without_inputs() {
  tfaot::Model<tfaot_model::source> model;
  std::vector<double> y(2);
  model.run(1, {}, {y});
  expect(y == std::vector<double>{1, 2} && model.run(1, {}).y[1] == 2, "contiguous");
  expect(std::get<0>(model.run<tfaot::DoubleArrays>(1)) == tfaot::DoubleArrays{{1, 2}}, "nested");
}

void a_model_can_be_moved_and_tells_what_it_is() {
  tfaot::Model<affine> first("x86-64-v3");
  first.setBatchRule("3:4");
  const std::size_t before = first.memory();
  const std::vector<float> x = flat(50);
  first.run(50, {kBias, x});
  expect(first.memory() >= before + 50 * 3 * sizeof(float), "memory grows with buffers");
  tfaot::Model<affine> second = std::move(first);
  expect(second.name() == "affine" && std::string(second.target()) == "x86-64-v3", "name and target");
  expect(second.run(50, {kBias, x}).y[149] == answer(149) && second.getBatchStrategy().hasRule(3), "moved");
  expect_error("affine: this instance was moved from", [&] { first.run(50, {kBias, x}); });
  first = std::move(second);
  expect(first.run(50, {kBias, x}).y[149] == answer(149), "moved back");
}

}  // namespace

void test_model() {
  nested_vectors_of_any_batch_size();
  nested_containers_of_other_kinds();
  nested_vectors_of_wrong_sizes_are_refused_with_both_numbers();
  every_element_type();
  contiguous_buffers_of_the_caller_and_of_the_model();
  a_rule_is_used_and_replaced();
  padding_repeats_the_last_row();
  rules_that_cannot_run_are_refused_when_they_are_set();
  a_size_has_a_rule_once_it_ran_on_nested_vectors();
  costs_are_those_of_the_target();
  a_library_that_tells_no_costs_works();
  calibrate_measures_every_size();
  outputs_without_a_batch_axis();
  rows_that_depend_on_one_another_run_as_whole_batches_only();
  a_library_that_does_not_tell_of_its_rows_composes_batches_as_before();
  a_second_call_while_one_is_in_progress_is_refused();
  a_model_without_inputs();
  a_model_can_be_moved_and_tells_what_it_is();
}
