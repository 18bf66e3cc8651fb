// Batch rules, strategies, and the planner beside all compositions that there are.
#include <tfaot/batching.h>

#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"

using tfaot::BatchPlanner;
using tfaot::BatchRule;
using tfaot::BatchStrategy;

namespace {

using Sizes = std::vector<std::size_t>;
constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();

void rules_from_text_and_from_numbers_are_the_same() {
  const BatchRule stitched("5:1,4"), padded("5:2,4"), numbers(5, {2, 4}, 1), many("5:2,2,2");
  expect(stitched.getBatchSize() == 5 && stitched.getSizes() == Sizes{1, 4} && stitched.getLastPadding() == 0, "5:1,4");
  expect(padded.getBatchSize() == 5 && padded.getSizes() == Sizes{2, 4} && padded.getLastPadding() == 1, "5:2,4");
  expect(numbers.text() == "5:2,4" && numbers.getLastPadding() == 1, "numbers as text");
  expect(many.nSizes() == 3 && many.getSize(2) == 2 && many.getLastPadding() == 1, "5:2,2,2");
  expect(padded.step(0).size == 2 && padded.step(0).padding == 0, "only the last call is padded");
  expect(padded.step(1).size == 4 && padded.step(1).padding == 1, "the last call is padded");
  expect(BatchRule("1:1").text() == "1:1", "the smallest rule");
  std::ostringstream out;
  out << padded;
  expect(out.str() == "BatchRule(5:2,4, lastPadding=1)", out.str());
}

void what_is_no_rule_is_refused() {
  expect_error("batch rule \"5:2,2\": its sizes cover only 4 rows", [] { BatchRule rule("5:2,2"); });
  expect_error("batch rule \"5:2,2\": its sizes, with a padding of 0, cover 4 rows", [] { BatchRule rule(5, {2, 2}); });
  expect_error("batch rule \"5:2,4\": its sizes, with a padding of 0, cover 6 rows", [] { BatchRule rule(5, {2, 4}); });
  expect_error("batch rule \"4:4,2\": a padding of 2 reaches the last size, 2", [] { BatchRule rule("4:4,2"); });
  expect_error("batch rule \"4:4,2\": a padding of 2 reaches the last size, 2", [] { BatchRule rule(4, {4, 2}, 2); });
  expect_error("batch rule \"4:2\": a padding of 9 reaches the last size, 2", [] { BatchRule rule(4, {2}, 9); });
  expect_error("batch rule \"4:\": it has no sizes", [] { BatchRule rule(4, {}); });
  expect_error("batch rule \"4:0,4\": a size must be at least 1", [] { BatchRule rule("4:0,4"); });
  expect_error("batch rule \"4:4,0\": a size must be at least 1", [] { BatchRule rule(4, {4, 0}); });
  expect_error("batch rule \"0:1\": a batch of no rows needs no rule", [] { BatchRule rule("0:1"); });
  expect_error("batch rule \"0:\": a batch of no rows needs no rule", [] { BatchRule rule(0, {}); });
  const std::string most = std::to_string(kMost);
  expect_error("batch rule \"1:" + most + ",2\": the sum of its sizes is too large",
               [&] { BatchRule rule("1:" + most + ",2"); });
  expect_error("batch rule \"1:" + most + ",2\": the sum of its sizes is too large",
               [] { BatchRule rule(1, {kMost, 2}); });
  expect_error("batch rule \"1:" + most + "0\": " + most + "0 is too large", [&] { BatchRule rule("1:" + most + "0"); });
  for (const char* const text : {"5: 1, 4", " 5 : 1 , 4 ", "\t5:1,\t4"}) {
    expect(BatchRule(text).text() == "5:1,4", "blanks around numbers mean nothing");
  }
  for (const std::string text :
       {"", ":", "5", "5:", ":5", "5:1,", "5:,4", "5:1;4", "5:-1,6", "5:+5", " ", "5: ", "5:1, ", "5:1 4", "5 5:5", "5:0x5", "5:1,4:5", "five:5"}) {
    expect_error("batch rule \"" + text + "\" is not of the form \"5:1,4\"", [&] { BatchRule rule(text); });
  }
}

void a_strategy_keeps_one_rule_per_batch_size() {
  BatchStrategy strategy;
  expect(!strategy.hasRule(5) && strategy.rules().empty(), "empty at first");
  expect_error("no batch rule is set for batch size 5", [&] { strategy.getRule(5); });
  for (const char* text : {"5:1,4", "3:4", "9:4,4,1", "5:2,4", "1:1"}) strategy.setRule(BatchRule(text));
  expect(strategy.rules().size() == 4 && strategy.getRule(5).text() == "5:2,4", "the last rule of a size counts");
  expect(strategy.hasRule(1) && strategy.hasRule(3) && strategy.hasRule(9) && !strategy.hasRule(4), "hasRule");
  std::size_t before = 0;
  for (const BatchRule& rule : strategy.rules()) {
    expect(rule.getBatchSize() > before, "ascending");
    before = rule.getBatchSize();
  }
}

void the_default_rule_is_the_size_itself_or_the_smallest_one_repeated() {
  BatchStrategy strategy;
  for (const std::size_t size : {4u, 5u, 6u, 1u}) strategy.setDefaultRule(size, {4, 2, 8});
  expect(strategy.getRule(4).text() == "4:4" && strategy.getRule(4).getLastPadding() == 0, "an available size");
  expect(strategy.getRule(5).text() == "5:2,2,2" && strategy.getRule(5).getLastPadding() == 1, "padded");
  expect(strategy.getRule(6).text() == "6:2,2,2" && strategy.getRule(6).getLastPadding() == 0, "without padding");
  expect(strategy.getRule(1).text() == "1:2" && strategy.getRule(1).getLastPadding() == 1, "below all of them");
  expect_error("no batch sizes are available", [&] { strategy.setDefaultRule(4, {}); });
  expect_error("0 is among the available batch sizes", [&] { strategy.setDefaultRule(4, {2, 0}); });
  expect_error("batch rule \"0:\": a batch of no rows needs no rule", [&] { strategy.setDefaultRule(0, {1, 2}); });
}

// The least cost of all selections of sizes, each as often as one likes, that have at least `rows` rows.
double cheapest_of_all(const Sizes& sizes, const std::vector<double>& costs, std::size_t rows, std::size_t from = 0) {
  if (rows == 0) return 0;
  if (from == sizes.size()) return std::numeric_limits<double>::infinity();
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  for (;; spent += costs[from]) {
    const double cost = spent + cheapest_of_all(sizes, costs, rows, from + 1);
    if (cost < best) best = cost;
    if (rows == 0) return best;
    rows = rows < sizes[from] ? 0 : rows - sizes[from];
  }
}

double cost_of(const BatchRule& rule, const Sizes& sizes, const std::vector<double>& costs) {
  double cost = 0;
  for (const std::size_t size : rule.getSizes()) {
    for (std::size_t i = 0; i < sizes.size(); ++i) cost += sizes[i] == size ? costs[i] : 0;
  }
  return cost;
}

void the_planner_finds_the_cheapest_of_all_compositions() {
  std::mt19937 random(20);
  for (int round = 0; round < 200; ++round) {
    Sizes sizes;
    std::vector<double> costs;
    for (std::size_t size = 1; size <= 14; ++size) {
      if (random() % 5 != 0) continue;
      sizes.push_back(size);
      costs.push_back(1.0 + static_cast<double>(random() % (round % 2 == 0 ? 4 : 40)));  // whole numbers: sums are exact, and often equal
    }
    if (sizes.empty()) continue;
    BatchPlanner planner(sizes, costs);
    for (std::size_t rows = 1; rows <= 32; ++rows) {
      const double best = cheapest_of_all(sizes, costs, rows);
      const BatchRule rule = planner.rule(rows);  // validates itself
      expect(planner.cost(rows) == best && cost_of(rule, sizes, costs) == best,
             rule.text() + " costs " + std::to_string(cost_of(rule, sizes, costs)) + ", not " + std::to_string(best));
    }
  }
}

// The recursion of the planner's comment, without an end of its table.
std::vector<double> table_of(const Sizes& sizes, const std::vector<double>& costs, std::size_t rows) {
  std::vector<double> best(rows + 1, std::numeric_limits<double>::infinity());
  best[0] = 0;
  for (std::size_t n = 1; n <= rows; ++n) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      best[n] = std::fmin(best[n], costs[i] + best[sizes[i] < n ? n - sizes[i] : 0]);
    }
  }
  return best;
}

void the_planner_is_right_beyond_its_table() {
  std::mt19937 random(21);
  for (int round = 0; round < 30; ++round) {
    Sizes sizes;
    std::vector<double> costs;
    for (std::size_t size = 1; size <= 20; ++size) {
      if (random() % 6 != 0) continue;
      sizes.push_back(size);
      costs.push_back(1.0 + static_cast<double>(random() % 30));
    }
    if (sizes.empty()) continue;
    BatchPlanner planner(sizes, costs);
    const std::vector<double> best = table_of(sizes, costs, 1500);  // the table ends at 400 at most
    for (const std::size_t rows : {1500u, 3u, 399u, 400u, 401u, 777u, 1499u}) {
      expect(planner.cost(rows) == best[rows] && cost_of(planner.rule(rows), sizes, costs) == best[rows],
             "beyond the table: " + std::to_string(rows) + " rows");
    }
  }
}

void the_planner_stays_small_and_near_the_best_for_huge_batches() {
  const Sizes sizes = {1, 700, 1024};  // 1024 x 1024 is beyond the largest table
  const std::vector<double> costs = {3, 710, 1030};
  BatchPlanner planner(sizes, costs);
  for (const std::size_t rows : {std::size_t{100000}, std::size_t{1} << 40, (std::size_t{1} << 40) + 701}) {
    const double least = 1030.0 / 1024.0 * static_cast<double>(rows);
    expect(planner.cost(rows) >= least && planner.cost(rows) <= least + 1030, "cost of " + std::to_string(rows));
  }
  expect(planner.memory() < 3u << 20, "memory: " + std::to_string(planner.memory()));
  expect(planner.next(std::size_t{1} << 40).size == 1024, "the first call of very many rows");
  const BatchRule rule = planner.rule(200001);
  expect(rule.getBatchSize() == 200001, "a rule of very many rows");
}

void of_equal_costs_it_takes_fewer_calls() {
  BatchPlanner planner({1, 2, 4}, {1, 2, 4});
  expect(planner.rule(8).text() == "8:4,4" && planner.rule(7).text() == "7:4,2,1", planner.rule(7).text());
  expect(planner.rule(100).nSizes() == 25, "beyond the table as well");
}

void the_planner_pads_where_that_is_cheaper() {
  BatchPlanner planner({1, 8}, {5, 9});
  expect(planner.rule(1).text() == "1:1" && planner.rule(2).text() == "2:8", planner.rule(2).text());
  expect(planner.rule(9).text() == "9:1,8" || planner.rule(9).text() == "9:8,1", planner.rule(9).text());
  planner.set_costs({1, 9});
  expect(planner.rule(2).text() == "2:1,1", "other costs: " + planner.rule(2).text());
  expect_error("costs of 2 batch sizes are needed, not of 1", [&] { planner.set_costs({1}); });
  expect(planner.rule(2).text() == "2:1,1", "unchanged");
}

}  // namespace

void test_batching() {
  rules_from_text_and_from_numbers_are_the_same();
  what_is_no_rule_is_refused();
  a_strategy_keeps_one_rule_per_batch_size();
  the_default_rule_is_the_size_itself_or_the_smallest_one_repeated();
  the_planner_finds_the_cheapest_of_all_compositions();
  the_planner_is_right_beyond_its_table();
  the_planner_stays_small_and_near_the_best_for_huge_batches();
  of_equal_costs_it_takes_fewer_calls();
  the_planner_pads_where_that_is_cheaper();
}
