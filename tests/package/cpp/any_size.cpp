// Models that are compiled for any batch size: one call for each batch, except where a rule says otherwise.
#include <tfaot/tfaot.h>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <tfaot-model-affine/model.h>
#include <tfaot-model-any/model.h>
#include <tfaot-model-fixed/model.h>

#include <PhysicsTools/TensorFlowAOT/interface/Wrapper.h>

#include "check.h"

using tfaot_model::any;
using tfaot_model::fixed;
using Sizes = std::vector<std::int64_t>;

namespace {

Sizes calls(tfaot::Model<any>& model, std::size_t rows) {
  const std::vector<float> x(rows);
  Sizes size(rows);
  model.run(rows, {x}, {size});
  return size;
}

void every_size_is_one_call() {
  static_assert(any::any_batch_size && !tfaot_model::affine::any_batch_size, "in the generated class");
  tfaot::Model<any> model;
  expect(model.any_batch_size() && !tfaot::Model<tfaot_model::affine>().any_batch_size(), "at run time");
  for (const std::size_t rows : {1u, 2u, 3u, 4u, 5u, 63u, 100000u}) {
    expect(calls(model, rows) == Sizes(rows, static_cast<std::int64_t>(rows)), std::to_string(rows) + " rows");
    expect(model.batchRule(rows).text() == std::to_string(rows) + ":" + std::to_string(rows), "its rule");
    expect(model.compiled().instance().is_compiled(rows), "is_compiled");
  }
  expect(calls(model, 0).empty() && !model.compiled().instance().is_compiled(0), "no rows, no call");
  const auto [nested] = model.run<tfaot::Int64Arrays>(3, tfaot::FloatArrays{{1}, {2}, {3}});
  expect(nested == tfaot::Int64Arrays{{3}, {3}, {3}}, "nested vectors");
  expect(model.run(7, {std::vector<float>(7)}).size[6] == 7, "into the model's buffers");
}

void rules_are_obeyed() {
  tfaot::Model<any> model;
  model.setBatchRule("5:1,4");
  model.setBatchRule(6, {4, 3}, 1);
  expect(calls(model, 5) == Sizes{1, 4, 4, 4, 4} && calls(model, 6) == Sizes{4, 4, 4, 4, 3, 3}, "two rules");
  expect(calls(model, 7) == Sizes(7, 7), "a size without one");
  tfaot::BatchStrategy strategy;
  strategy.setDefaultRule(3, {2});
  model.setBatchStrategy(strategy);
  expect(calls(model, 3) == Sizes{2, 2, 2} && calls(model, 5) == Sizes(5, 5), "a strategy");
}

void calibrate_has_nothing_to_measure() {
  tfaot::Model<any> model;
  const std::vector<double> costs = model.compiled().instance().planner().costs();
  model.calibrate(std::chrono::nanoseconds(1));
  expect(model.compiled().instance().planner().costs() == costs && calls(model, 9) == Sizes(9, 9), "calibrate");
}

void numbers_of_rows_that_do_not_fit_are_refused() {
  tfaot::Model<any> model;
  std::vector<float> x(4);
  Sizes size(4);
  expect_error("any: input \"x\": expected 3 elements (3 rows of 1), got 4", [&] { model.run(3, {x}, {size}); });
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  expect_error("any: input \"x\": expected " + std::to_string(most) + " elements (" + std::to_string(most) +
                   " rows of 1), got 4",
               [&] { model.run(most, {x}, {size}); });
}

void an_output_without_a_batch_axis_needs_one_call() {
  tfaot::Model<fixed> model;
  const std::vector<float> x(5);
  Sizes size(5);
  std::vector<double> whole(1);
  model.run(5, {x}, {size, whole});
  expect(size == Sizes(5, 5) && whole[0] == 7, "five rows");
  const std::string because = " because output \"whole\" has no batch axis, got ";
  expect_error("fixed: batch size: expected at least 1 row" + because + "0", [&] {
    model.run(0, {tfaot::span<const float>()}, {tfaot::span<std::int64_t>(), whole});
  });
  expect_error("fixed: batch size: expected one call" + because + "5", [&] { model.setBatchRule("5:1,4"); });
  model.setBatchRule("5:5");
}

void a_library_that_does_not_tell_takes_its_sizes_only() {
  tfaot_info info = *any::table().info;
  tfaot::Table table = any::table();
  table.info = &info;
  const std::vector<float> x(5);
  Sizes size(5);
  const void* const inputs[] = {x.data()};
  void* const outputs[] = {size.data()};
  info.struct_size = offsetof(tfaot_info, any_batch_size);  // one that ends before the field
  tfaot::Instance(table).run(5, inputs, outputs);
  expect(size[0] != 5, "a struct without the field");
  info.struct_size = sizeof info;
  info.any_batch_size = 0;  // one that has the field as it was when it was reserved
  tfaot::Instance older(table);
  older.run(5, inputs, outputs);
  expect(size[0] != 5 && !older.is_compiled(5) && older.is_compiled(4), "a reserved field");
  info.any_batch_size = 1;
  older.run(5, inputs, outputs);
  expect(size == Sizes(5, 5), "a library of today");
}

void cmssws_wrapper_has_buffers_for_the_listed_sizes_only() {
  tfaot::Wrapper wrapper(any::table());
  expect(wrapper.batchSizes() == std::vector<std::size_t>{1, 4} && !wrapper.hasBatchSize(3), "sizes");
  wrapper.run(4);
  expect(wrapper.resultData<std::int64_t>(4, 0)[3] == 4, "a listed size");
  expect_error("any: batch size: expected a compiled one, got 3", [&] { wrapper.run(3); });
}

}  // namespace

void test_any_size() {
  every_size_is_one_call();
  rules_are_obeyed();
  calibrate_has_nothing_to_measure();
  numbers_of_rows_that_do_not_fit_are_refused();
  an_output_without_a_batch_axis_needs_one_call();
  a_library_that_does_not_tell_takes_its_sizes_only();
  cmssws_wrapper_has_buffers_for_the_listed_sizes_only();
}
