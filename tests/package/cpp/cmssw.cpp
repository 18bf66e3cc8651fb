// The headers under the names that they have in CMSSW, used as there.
#include "PhysicsTools/TensorFlowAOT/interface/AOT.h"
#include "PhysicsTools/TensorFlowAOT/interface/Util.h"
#include "PhysicsTools/TensorFlowAOT/interface/Wrapper.h"

#include <algorithm>
#include <sstream>
#include <tuple>

#include "tfaot-model-affine/model.h"
#include "tfaot-model-types/model.h"

#include "check.h"

namespace {

void code_for_cmssw_runs_as_there() {
  auto model = tfaot::Model<tfaot_model::affine>();
  model.setBatchRule(2, {2});
  model.setBatchRule(3, {2, 2}, 1);
  model.setBatchRule(std::string("5:2,2,2"));
  expect(model.getBatchStrategy().hasRule(3) && !model.getBatchStrategy().hasRule(4), "rules");
  expect(model.getBatchStrategy().getRule(5).getLastPadding() == 1, "padding");
  const tfaot::FloatArrays bias = {{0, 0, 1}};
  tfaot::Int64Arrays labels;
  tfaot::FloatArrays values;
  std::tie(labels, values) = model.run<tfaot::Int64Arrays, tfaot::FloatArrays>(3, bias, tfaot::FloatArrays(3, {1, 2, 3}));
  expect(labels == tfaot::Int64Arrays(3, {2}) && values == tfaot::FloatArrays(3, {2, 4, 7}), "values");
  model.run<tfaot::Int64Arrays, tfaot::FloatArrays>(4, bias, tfaot::FloatArrays(4, {1, 2, 3}));
  expect(model.getBatchStrategy().hasRule(4) && model.name() == "affine", "a size that ran has a rule");
  std::ostringstream out;
  out << model.getBatchStrategy().getRule(3);
  expect(out.str() == "BatchRule(3:2,2, lastPadding=1)", out.str());
  std::size_t sum = 0;
  tfaot::createIndexLooper<4>()([&](auto i) { sum += std::integral_constant<std::size_t, i>::value; });
  expect(sum == 6, "createIndexLooper");
}

void a_wrapper_has_a_buffer_per_tensor_and_batch_size() {
  tfaot::Wrapper wrapper(tfaot_model::affine::table(), "x86-64-v3");
  using Sizes = std::vector<std::size_t>;
  expect(wrapper.name() == "affine" && wrapper.batchSizes() == Sizes{2, 4} && wrapper.nBatchSizes() == 2, "sizes");
  expect(wrapper.hasBatchSize(4) && !wrapper.hasBatchSize(3), "hasBatchSize");
  expect(wrapper.nArgs() == 2 && wrapper.argCountsNoBatch() == Sizes{3, 3} && wrapper.argCounts().at(4) == Sizes{3, 12}, "");
  expect(wrapper.argCount(4, 1) == 12 && wrapper.argCountNoBatch(1) == 3, "arguments");
  expect(wrapper.nResults() == 2 && wrapper.resultCountsNoBatch() == Sizes{1, 3} && wrapper.resultCount(4, 0) == 4, "results");
  expect(wrapper.resultCounts().at(2) == Sizes{2, 6} && wrapper.resultCountNoBatch(1) == 3, "results of 2 rows");
  for (const std::size_t size : {4u, 2u}) {
    float* const x = wrapper.argData<float>(size, 1);
    std::fill(x, x + wrapper.argCount(size, 1), static_cast<float>(size));
    wrapper.argData<float>(size, 0)[2] = 1.0f;
  }
  wrapper.run(2);
  expect(wrapper.runSilent(4), "runSilent");
  expect(wrapper.resultData<float>(2, 1)[5] == 5.0f && wrapper.resultData<float>(4, 1)[11] == 9.0f, "each size its own");
  expect(wrapper.resultData<std::int64_t>(4, 0)[3] == 2, "labels");
  wrapper.argData<float>(2, 1)[0] = -1000.0f;
  expect(!wrapper.runSilent(2) && !wrapper.runSilent(3), "failures");
  expect_error("affine: batch size 2: x is -1000", [&] { wrapper.run(2); });
  expect_error("affine: batch size: expected a compiled one, got 3", [&] { wrapper.run(3); });
  expect_error("affine: index of argument: expected one below 2, got 2", [&] { wrapper.argData<float>(2, 2); });
  expect_error("affine: index of result: expected one below 2, got 5", [&] { wrapper.resultCount(2, 5); });
  expect_error("affine: result \"label\": expected int64, got float32", [&] { wrapper.resultData<float>(2, 0); });

  tfaot::Wrapper types(tfaot_model::types::table());
  *types.argData<std::int32_t>(1, 7) = 5;
  types.argData<bool>(1, 0)[1] = true;
  types.run(1);
  expect(types.resultData<bool>(1, 0)[0] && types.resultData<std::int32_t>(1, 4)[0] == 5, "every type");
}

}  // namespace

void test_cmssw() {
  code_for_cmssw_runs_as_there();
  a_wrapper_has_a_buffer_per_tensor_and_batch_size();
}
