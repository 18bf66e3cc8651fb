// The examples of the C++ reference (cpp.md): what follows `//: NAME` belongs to the class of that name.
// tests/consumers/test_reference.py compiles and runs them with the sample model digits.
#include <cassert>
#include <cstdio>
#include <thread>
#include <vector>

#include <tfaot/tfaot.h>
#include <tfaot/operation.h>
#include <tfaot/state.h>
#include <tfaot/team.h>
#include <tfaot/threads.h>

#include <tfaot-model-digits/model.h>

void example_model() {
  //: tfaot::Model
  tfaot::Model<tfaot_model::digits> model;  // one per thread
  const std::vector<float> images(3 * 64);  // three rows
  const auto results = model.run(3, {images});
  std::printf("digit %lld, probability %g\n", static_cast<long long>(results.digit[0]),
              static_cast<double>(results.probability[0]));
  //:
}

void example_shared() {
  //: tfaot::Shared
  const tfaot::Shared<tfaot_model::digits> model;  // one for all threads
  std::thread other([&model] {
    const std::vector<float> image(64);
    std::vector<std::int64_t> digit(1);
    std::vector<float> probability(10);
    model.run(1, {image}, {digit, probability});
  });
  other.join();
  //:
}

void example_results() {
  //: tfaot::Shared::Results
  const tfaot::Shared<tfaot_model::digits> model;
  const std::vector<float> images(2 * 64);
  const tfaot::Shared<tfaot_model::digits>::Results first = model.run(1, {{images.data(), 64}});
  const auto second = model.run(2, {images});  // leaves the first results alone
  assert(first.probability.size() == 10 && second.probability.size() == 20);
  //:
}

void example_pool() {
  //: tfaot::Pool
  tfaot::Pool<tfaot_model::digits> pool;
  {
    const auto model = pool.borrow();  // given back at the end of the scope
    const std::vector<float> image(64);
    model->run(1, {image});
  }
  assert(pool.size() == 1);
  //:
}

void example_dynamic() {
  //: tfaot::DynamicModel
  tfaot::DynamicModel model(tfaot_model::digits::table());
  const std::vector<float> image(64);
  std::vector<std::int64_t> digit(1);
  std::vector<float> probability(10);
  model.run(1, {{"image", image}}, {{"digit", digit}, {"probability", probability}});
  //:
}

void example_error() {
  //: tfaot::Error
  tfaot::Model<tfaot_model::digits> model;
  try {
    const std::vector<float> too_short(100);
    model.run(2, {too_short});
  } catch (const tfaot::Error& error) {
    std::puts(error.what());  // digits: input "image": expected 128 elements (2 rows of 64), got 100
    assert(error.argument() == "input \"image\"");
  }
  //:
}

void example_span() {
  //: tfaot::span
  std::vector<float> rows(2 * 64);
  const tfaot::span<float> all = rows;                           // owns nothing
  const tfaot::span<const float> second = all.subspan(64, 64);   // the second row
  assert(second.size() == 64 && second.data() == rows.data() + 64);
  //:
}

void example_planner() {
  //: tfaot::BatchPlanner
  tfaot::BatchPlanner planner({1, 4, 16}, {10, 20, 50});  // sizes, and what a run of each costs
  assert(planner.rule(5).text() == "5:1,4" || planner.rule(5).text() == "5:4,1");
  assert(planner.cost(5) == 30);
  //:
}

void example_rule() {
  //: tfaot::BatchRule
  const tfaot::BatchRule rule("5:2,4");  // 2 rows, then 4, of which one is padding
  assert(rule.getBatchSize() == 5 && rule.nSizes() == 2 && rule.getLastPadding() == 1);
  //:
}

void example_outcome() {
  //: tfaot::Outcome
  const tfaot::Shared<tfaot_model::digits> model;
  std::vector<float> pixels(100), probability(20);
  std::vector<std::int64_t> digit(2);
  const tfaot::Outcome outcome = model.try_run(2, {pixels}, {digit, probability});
  assert(!outcome.ok() && outcome.error()->argument() == "input \"image\"");
  //:
}

void example_step() {
  //: tfaot::BatchStep
  const tfaot::BatchStep last = tfaot::BatchRule("5:2,4").step(1);
  assert(last.size == 4 && last.padding == 1);
  //:
}

void example_strategy() {
  //: tfaot::BatchStrategy
  tfaot::BatchStrategy strategy;
  strategy.setRule(tfaot::BatchRule("5:1,4"));
  strategy.setDefaultRule(7, {1, 2, 4});  // no size is 7: the smallest one, seven times
  tfaot::Model<tfaot_model::digits> model;
  model.setBatchStrategy(strategy);
  assert(model.batchRule(5).text() == "5:1,4");
  //:
}

void example_code() {
  //: tfaot::Code
  const tfaot::Code code(tfaot_model::digits::table());
  const std::vector<float> image(64);
  std::vector<std::int64_t> digit(1);
  std::vector<float> probability(10);
  const void* const inputs[] = {image.data()};              // in the order of code.info()
  void* const outputs[] = {digit.data(), probability.data()};
  code.run(1, inputs, outputs);                             // in scratch memory of this thread
  //:
}

void example_instance() {
  //: tfaot::Instance
  tfaot::Instance instance(tfaot_model::digits::table());
  instance.set_rule(tfaot::BatchRule("5:1,4"));
  const std::vector<float> images(5 * 64);
  std::vector<std::int64_t> digits(5);
  std::vector<float> probabilities(5 * 10);
  const void* const inputs[] = {images.data()};
  void* const outputs[] = {digits.data(), probabilities.data()};
  instance.run(5, inputs, outputs);
  //:
}

void example_named() {
  //: tfaot::NamedInput tfaot::NamedOutput
  const std::vector<float> image(64);
  float probability[10];
  const tfaot::NamedInput input("image", image);
  const tfaot::NamedOutput output("probability", probability);
  assert(input.size == 64 && output.size == 10);
  //:
}

// Models with state: examples/stateful is such a program.
template <class W>
void example_state() {
  //: tfaot::State
  const tfaot::Shared<W> model;   // one for all threads
  tfaot::State<W> state(model);   // one for each stream; it begins with the trained values
  const std::vector<float> frame(16);
  state.step({frame});            // carries the state over
  const auto bytes = state.save();
  state.init();                   // the trained values again
  state.restore(bytes);
  //:
}

void example_infos() {
  //: tfaot::TensorInfo
  constexpr tfaot::TensorInfo image = tfaot_model::digits::InputInfo::image;
  static_assert(image.row_size == 64 && image.has_batch_axis, "8 x 8 pixels");
  assert(image.size_at(3) == 192);
  //:
}

// Compiled: the class of a model with state, as above.
template <class W>
void example_state_info() {
  //: tfaot::StateInfo
  for (const tfaot::StateInfo& variable : W::state) {
    std::printf("%s: %zu elements%s\n", variable.name, variable.size, variable.is_updated ? "" : ", constant");
  }
  //:
}

void example_threads() {
  //: tfaot::Threads
  tfaot::Threads threads(2);
  std::vector<int> squares(10);
  threads(squares.size(), [&squares](std::size_t i) { squares[i] = static_cast<int>(i * i); });
  assert(squares[9] == 81);
  //:
}

void example_team() {
  //: tfaot::Team
  const tfaot::Shared<tfaot_model::digits> model;
  tfaot::Threads threads(2);
  const tfaot::Team team = tfaot::team_of(threads);
  const std::vector<float> images(100 * 64);
  std::vector<std::int64_t> digit(100);
  std::vector<float> probability(100 * 10);
  model.run(100, {images}, {digit, probability}, team);  // on both threads
  //:
}

void example_halves() {
  //: tfaot::bfloat16 tfaot::float16
  const tfaot::float16 third(1.0f / 3);
  const tfaot::bfloat16 coarse(1.0f / 3);
  assert(static_cast<float>(third) != static_cast<float>(coarse));  // 11 bits of precision, and 8
  assert(tfaot::float16::from_bits(third.bits).bits == third.bits);
  //:
}

void example_array() {
  //: tfaot::operation::Array
  const std::int64_t sizes[] = {2, 3};
  float values[6] = {};
  const tfaot::operation::Array<float> array(values, sizes, 2);
  array(1, 2) = 5;
  assert(array.size() == 6 && array[5] == 5);
  //:
}

void example_attributes() {
  //: tfaot::operation::Attribute tfaot::operation::Attributes
  const double alpha[] = {0.5};
  const tfaot::operation::Attribute all[] = {{"alpha", alpha, 1}};
  const tfaot::operation::Attributes attributes(all, 1);
  assert(attributes.number("alpha", 1) == 0.5 && attributes.integer("axis", -1) == -1);
  //:
}

int main() {
  example_model();
  example_shared();
  example_results();
  example_pool();
  example_dynamic();
  example_error();
  example_span();
  example_planner();
  example_rule();
  example_outcome();
  example_step();
  example_strategy();
  example_code();
  example_instance();
  example_named();
  example_infos();
  example_threads();
  example_team();
  example_halves();
  example_array();
  example_attributes();
}
