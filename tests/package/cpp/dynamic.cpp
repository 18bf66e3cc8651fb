// tfaot::DynamicModel: names, element types and sizes are checked at run time.
#include <tfaot/dynamic.h>

#include <array>
#include <string>
#include <vector>

#include <tfaot-model-affine/model.h>

#include "check.h"

namespace {

void buffers_by_name_in_any_order() {
  tfaot::DynamicModel model(tfaot_model::affine::table(), "x86-64-v3");
  const std::vector<float> x = {1, 2, 3, 6, 5, 4, 1, 1, 1};
  const float bias[] = {0.5f, 0.0f, -0.5f};
  std::array<float, 9> y{};
  std::vector<std::int64_t> label(3);
  model.run(3, {{"x", x}, {"bias-in", bias}}, {{"y", y}, {"label", label}});
  expect(y[5] == 7.5f && y[8] == 1.5f && label == std::vector<std::int64_t>{2, 0, 0}, "values");
  tfaot::span<float> view(y.data(), 3);
  const tfaot::span<const float> row(x.data(), 3);
  model.run(1, {{"bias-in", bias}, {"x", row}}, {{"y", view}, {"label", tfaot::span<std::int64_t>(label.data(), 1)}});
  expect(y[0] == 2.5f, "views");
  model.run(0, {{"bias-in", bias}, {"x", std::vector<float>()}},
            {{"label", tfaot::span<std::int64_t>()}, {"y", tfaot::span<float>()}});
  expect(std::string(model.info().name) == "affine" && model.instance().is_compiled(4), "what it is");
}

void what_does_not_fit_is_named() {
  tfaot::DynamicModel model(tfaot_model::affine::table());
  const std::vector<float> x(6), bias(3);
  const std::vector<double> doubles(6);
  std::vector<float> y(6);
  std::vector<std::int64_t> label(2);
  std::vector<std::int32_t> narrow(2);
  expect_error("affine: input: expected one of bias-in, x, got z",
               [&] { model.run(2, {{"z", x}, {"bias-in", bias}}, {{"y", y}, {"label", label}}); });
  expect_error("affine: input \"x\": expected float32, got float64",
               [&] { model.run(2, {{"x", doubles}, {"bias-in", bias}}, {{"y", y}, {"label", label}}); });
  expect_error("affine: output \"label\": expected int64, got int32",
               [&] { model.run(2, {{"x", x}, {"bias-in", bias}}, {{"y", y}, {"label", narrow}}); });
  expect_error("affine: input \"bias-in\": expected a buffer, got none",
               [&] { model.run(2, {{"x", x}}, {{"y", y}, {"label", label}}); });
  expect_error("affine: output \"label\": expected a buffer, got none",
               [&] { model.run(2, {{"x", x}, {"bias-in", bias}}, {{"y", y}}); });
  expect_error("affine: input \"x\": expected once, got twice",
               [&] { model.run(2, {{"x", x}, {"x", x}, {"bias-in", bias}}, {{"y", y}, {"label", label}}); });
  expect_error("affine: input \"x\": expected 9 elements (3 rows of 3), got 6",
               [&] { model.run(3, {{"x", x}, {"bias-in", bias}}, {{"y", y}, {"label", label}}); });
  expect_error("affine: input \"bias-in\": expected 3 elements, got 6",
               [&] { model.run(2, {{"x", x}, {"bias-in", x}}, {{"y", y}, {"label", label}}); });
}

}  // namespace

void test_dynamic() {
  buffers_by_name_in_any_order();
  what_does_not_fit_is_named();
}
