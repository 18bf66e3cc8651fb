// tfaot/batching.h: how a batch of any size is composed of the batch sizes that were compiled.
//
// A rule composes one batch size: "5:2,4" runs sizes 2 and 4 one after the other; the last of these 6 rows is padding. A
// strategy is a set of rules. A planner composes sizes without a rule as cheaply as possible.
#ifndef TFAOT_BATCHING_H_
#define TFAOT_BATCHING_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tfaot/macros_on.h>

#include <tfaot/error.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// One call of the compiled code: `size` rows, of which the last `padding` ones are padding.
struct BatchStep {
  std::size_t size;     ///< rows that are computed
  std::size_t padding;  ///< of these, rows at the end whose results are dropped
};

/// How one batch size is composed: sizes that are run one after the other, the last of them with `lastPadding` rows of
/// padding.
class BatchRule {
 public:
  /// Throws Error if `sizes` do not cover `batchSize` with that padding, or the padding reaches the last size.
  explicit BatchRule(std::size_t batchSize, std::vector<std::size_t> sizes, std::size_t lastPadding = 0)
      : batchSize_(batchSize), sizes_(std::move(sizes)), lastPadding_(lastPadding) {
    validate();
  }

  /// From text: "5:1,4" runs 1 and 4, "5:2,4" pads the last by one. Numbers may have blanks around them. Throws Error.
  explicit BatchRule(std::string_view text) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) malformed(text);
    batchSize_ = number(text.substr(0, colon), text);
    for (std::string_view rest = text.substr(colon + 1);;) {
      const std::size_t comma = rest.find(',');
      sizes_.push_back(number(rest.substr(0, comma), text));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    const std::size_t rows = sum();
    if (rows < batchSize_) refuse("its sizes cover only " + std::to_string(rows) + " rows");
    lastPadding_ = rows - batchSize_;
    validate();
  }

  /// The batch size that is composed.
  std::size_t getBatchSize() const noexcept { return batchSize_; }
  /// The sizes that are run, in order.
  const std::vector<std::size_t>& getSizes() const noexcept { return sizes_; }
  /// Rows of padding in the last size.
  std::size_t getLastPadding() const noexcept { return lastPadding_; }
  /// Number of sizes.
  std::size_t nSizes() const noexcept { return sizes_.size(); }
  /// The i-th size.
  std::size_t getSize(std::size_t i) const noexcept { return sizes_[i]; }

  /// The i-th call.
  BatchStep step(std::size_t i) const noexcept { return {sizes_[i], i + 1 == sizes_.size() ? lastPadding_ : 0}; }

  /// The rule as text, "5:2,4".
  std::string text() const {
    std::string text = std::to_string(batchSize_) + ":";
    for (std::size_t i = 0; i < sizes_.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(sizes_[i]);
    return text;
  }

 private:
  static std::size_t number(std::string_view digits, std::string_view text) {
    constexpr const char* blanks = " \t";
    const std::size_t first = digits.find_first_not_of(blanks);
    if (first == std::string_view::npos) malformed(text);
    digits = digits.substr(first, digits.find_last_not_of(blanks) - first + 1);
    std::size_t value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    if (error == std::errc::result_out_of_range) {
      detail::raise(Error("batch rule \"" + std::string(text) + "\": " + std::string(digits) + " is too large"));
    }
    if (error != std::errc() || stop != end) malformed(text);
    return value;
  }

  [[__noreturn__]] static void malformed(std::string_view text) {
    detail::raise(Error("batch rule \"" + std::string(text) + "\" is not of the form \"5:1,4\""));
  }

  [[__noreturn__]] void refuse(const std::string& reason) const {
    detail::raise(Error("batch rule \"" + text() + "\": " + reason));
  }

  std::size_t sum() const {
    std::size_t rows = 0;
    for (const std::size_t size : sizes_) {
      if (size > (std::numeric_limits<std::size_t>::max)() - rows) refuse("the sum of its sizes is too large");
      rows += size;
    }
    return rows;
  }

  void validate() const {
    if (batchSize_ == 0) refuse("a batch of no rows needs no rule");
    if (sizes_.empty()) refuse("it has no sizes");
    for (const std::size_t size : sizes_) {
      if (size == 0) refuse("a size must be at least 1");
    }
    if (lastPadding_ >= sizes_.back()) {
      refuse("a padding of " + std::to_string(lastPadding_) + " reaches the last size, " +
             std::to_string(sizes_.back()));
    }
    const std::size_t rows = sum() - lastPadding_;
    if (rows != batchSize_) {
      refuse("its sizes, with a padding of " + std::to_string(lastPadding_) + ", cover " + std::to_string(rows) +
             " rows");
    }
  }

  std::size_t batchSize_ = 0;
  std::vector<std::size_t> sizes_;
  std::size_t lastPadding_ = 0;
};

/// "BatchRule(5:2,4, lastPadding=1)".
template <class Char, class Traits>
std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& out, const BatchRule& rule) {
  return out << "BatchRule(" << rule.text().c_str() << ", lastPadding=" << rule.getLastPadding() << ")";
}

/// Rules by batch size.
class BatchStrategy {
 public:
  /// Whether there is a rule for that batch size.
  bool hasRule(std::size_t batchSize) const { return find(batchSize) != nullptr; }

  /// The rule for that batch size. Throws Error if there is none.
  const BatchRule& getRule(std::size_t batchSize) const {
    const BatchRule* const rule = find(batchSize);
    if (rule == nullptr) detail::raise(Error("no batch rule is set for batch size " + std::to_string(batchSize)));
    return *rule;
  }

  /// Set a rule, in place of one for the same batch size.
  void setRule(const BatchRule& rule) {
    const auto place = rules_.begin() + (lower_bound(rule.getBatchSize()) - rules_.begin());
    if (place != rules_.end() && place->getBatchSize() == rule.getBatchSize()) {
      *place = rule;
    } else {
      rules_.insert(place, rule);
    }
  }

  /// Set the simplest rule: `batchSize` itself if it is one of the `available` sizes, otherwise the smallest of them as
  /// often as necessary, the last one padded. Throws Error if `available` is empty, or `batchSize` is 0.
  void setDefaultRule(std::size_t batchSize, const std::vector<std::size_t>& available) {
    if (available.empty()) detail::raise(Error("no batch sizes are available"));
    std::size_t size = available.front();
    for (const std::size_t each : available) {
      if (each == batchSize) {
        setRule(BatchRule(batchSize, {batchSize}));
        return;
      }
      if (each < size) size = each;
    }
    if (size == 0) detail::raise(Error("0 is among the available batch sizes"));
    const std::size_t calls = batchSize / size + (batchSize % size != 0 ? 1 : 0);
    setRule(BatchRule(batchSize, std::vector<std::size_t>(calls, size), calls * size - batchSize));
  }

  /// All rules, ascending in batch size.
  const std::vector<BatchRule>& rules() const noexcept { return rules_; }

  /// The rule for a batch size; null if there is none.
  const BatchRule* find(std::size_t batchSize) const {
    const auto found = lower_bound(batchSize);
    return found == rules_.end() || found->getBatchSize() != batchSize ? nullptr : &*found;
  }

 private:
  std::vector<BatchRule>::const_iterator lower_bound(std::size_t batchSize) const {
    auto first = rules_.begin();
    for (auto count = rules_.size(); count != 0;) {
      const auto half = count / 2;
      const auto middle = first + static_cast<std::ptrdiff_t>(half);
      if (middle->getBatchSize() < batchSize) {
        first = middle + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return first;
  }

  std::vector<BatchRule> rules_;
};

/// Composes batches of any size as cheaply as possible, given what a run of each compiled size costs.
///
/// The cost of n rows is best(n) = min over sizes s of cost(s) + best(max(0, n - s)), with best(0) = 0: a shortest path over
/// the number of rows that are left. It is computed once for all numbers up to the largest requested one: O(rows x sizes).
/// The tables end where the size that is cheapest per row is known to come first, but at 65536 rows (or the largest size)
/// at the latest: beyond that limit taking this size first may cost up to one call of it more than the optimum.
class BatchPlanner {
 public:
  /// `sizes` are ascending and at least 1, `costs` positive; both have the same length, at least 1.
  BatchPlanner(std::vector<std::size_t> sizes, std::vector<double> costs) : sizes_(std::move(sizes)) {
    set_costs(std::move(costs));
  }

  /// Set the cost of a run of each size. Throws Error if there are more or fewer costs than sizes.
  void set_costs(std::vector<double> costs) {
    if (costs.size() != sizes_.size()) {
      detail::raise(Error("costs of " + std::to_string(sizes_.size()) + " batch sizes are needed, not of " +
                  std::to_string(costs.size())));
    }
    costs_ = std::move(costs);
    best_.clear();
    best_.push_back(0.0);
    choice_.clear();
    choice_.push_back(0);
    cheapest_row_ = 0;
    for (std::size_t i = 1; i < sizes_.size(); ++i) {
      if (per_row(i) <= per_row(cheapest_row_)) cheapest_row_ = i;
    }
    // With more than this many rows left, some best composition contains the size s that is cheapest per row: among any s
    // calls of other sizes, some have a sum that is a multiple of s, so calls of s replace them at no greater cost.
    const std::size_t most = sizes_.back(), each = sizes_[cheapest_row_];
    limit_ = most > kLargestTable / each ? kLargestTable : most * each;
    if (limit_ < most) limit_ = most;
  }

  /// The compiled sizes, ascending.
  const std::vector<std::size_t>& sizes() const noexcept { return sizes_; }
  /// The cost of a run of each.
  const std::vector<double>& costs() const noexcept { return costs_; }

  /// The first call for `rows` (at least 1) that are left. Allocates if `rows` is larger than in all earlier calls.
  BatchStep next(std::size_t rows) {
    if (rows > limit_) return {sizes_[cheapest_row_], 0};
    grow(rows);
    const std::size_t size = sizes_[choice_[rows]];
    return {size, size > rows ? size - rows : 0};
  }

  /// Compute the tables as far as they go, so that `planned` may be called.
  void complete() { grow(limit_); }

  /// As `next`, after `complete`: any number of threads may call it at a time. Allocates nothing.
  BatchStep planned(std::size_t rows) const noexcept {
    const std::size_t size = sizes_[rows > limit_ ? cheapest_row_ : choice_[rows]];
    return {size, size > rows ? size - rows : 0};
  }

  /// The whole composition of `rows` (at least 1).
  BatchRule rule(std::size_t rows) {
    std::vector<std::size_t> sizes;
    std::size_t padding = 0;
    for (std::size_t left = rows; left != 0;) {
      const BatchStep step = next(left);
      sizes.push_back(step.size);
      padding = step.padding;
      left -= step.size - step.padding;
    }
    return BatchRule(rows, std::move(sizes), padding);
  }

  /// The cost of the composition of `rows`, in the unit of the costs.
  double cost(std::size_t rows) {
    std::size_t calls = 0;
    if (rows > limit_) {
      const std::size_t size = sizes_[cheapest_row_];
      calls = (rows - limit_ + size - 1) / size;
      rows -= calls * size;
    }
    grow(rows);
    return static_cast<double>(calls) * costs_[cheapest_row_] + best_[rows];
  }

  /// Bytes that it holds.
  std::size_t memory() const noexcept {
    return best_.capacity() * sizeof(double) + choice_.capacity() * sizeof(std::uint32_t) +
           sizes_.capacity() * sizeof(std::size_t) + costs_.capacity() * sizeof(double);
  }

 private:
  static constexpr std::size_t kLargestTable = 65536;  // rows

  double per_row(std::size_t i) const { return costs_[i] / static_cast<double>(sizes_[i]); }

  void grow(std::size_t rows) {
    if (rows < best_.size()) return;
    if (rows >= best_.capacity() || rows >= choice_.capacity()) {
      const std::size_t wanted = 2 * best_.size() > rows ? 2 * best_.size() : rows + 1;
      best_.reserve(wanted);
      choice_.reserve(wanted);
    }
    for (std::size_t n = best_.size(); n <= rows; ++n) {
      std::size_t choice = sizes_.size();
      double least = 0;
      for (std::size_t i = sizes_.size(); i-- > 0;) {  // at equal cost the larger size: fewer calls
        const double cost = costs_[i] + (sizes_[i] < n ? best_[n - sizes_[i]] : 0.0);
        if (choice == sizes_.size() || cost < least) {
          choice = i;
          least = cost;
        }
      }
      best_.push_back(least);
      choice_.push_back(static_cast<std::uint32_t>(choice));
    }
  }

  std::vector<std::size_t> sizes_;
  std::vector<double> costs_;
  std::vector<double> best_;            // cost by number of rows
  std::vector<std::uint32_t> choice_;   // index of the first size by number of rows
  std::size_t cheapest_row_ = 0;        // index of the size that costs least per row
  std::size_t limit_ = 0;               // rows that the tables go up to
};

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_BATCHING_H_
