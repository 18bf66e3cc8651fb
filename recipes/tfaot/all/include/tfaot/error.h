// tfaot/error.h: the one exception of the tfaot headers, and the outcome of calls for programs without exceptions.
#ifndef TFAOT_ERROR_H_
#define TFAOT_ERROR_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <tfaot/macros_on.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// What went wrong, in which model, and, if a single argument is at fault, which one:
/// `digits: input "image": expected 128 elements (2 rows of 64), got 100`.
///
/// The views that the accessors return point into `what()` and live as long as the exception.
class Error : public std::runtime_error {
 public:
  /// An error that no model caused.
  explicit Error(const std::string& reason) : std::runtime_error(reason) {}

  /// `model` failed for `reason`.
  Error(std::string_view model, std::string_view reason)
      : std::runtime_error(join({model, ": ", reason})), model_(model.size()) {}

  /// `argument` (`input "image"`, `batch size`) of `model` is not what it must be.
  Error(std::string_view model, std::string_view argument, std::string_view expected, std::string_view got)
      : std::runtime_error(join({model, ": ", argument, kExpected, expected, kGot, got})),
        model_(model.size()),
        argument_(argument.size()),
        expected_(expected.size()),
        got_(got.size()) {}

  /// The model's name; empty if no model caused the error.
  std::string_view model() const noexcept { return part(0, model_); }
  /// The argument at fault; empty if no single argument is.
  std::string_view argument() const noexcept { return part(model_ + 2, argument_); }
  /// What the argument must be; empty if `argument()` is.
  std::string_view expected() const noexcept { return part(model_ + 2 + argument_ + kExpected.size(), expected_); }
  /// What the argument was; empty if `argument()` is.
  std::string_view got() const noexcept {
    return part(model_ + 2 + argument_ + kExpected.size() + expected_ + kGot.size(), got_);
  }

 private:
  static constexpr std::string_view kExpected = ": expected ";
  static constexpr std::string_view kGot = ", got ";

  static std::string join(std::initializer_list<std::string_view> parts) {
    std::string text;
    for (std::string_view part : parts) text += part;
    return text;
  }

  std::string_view part(std::size_t offset, std::size_t size) const noexcept {
    return size == 0 ? std::string_view() : std::string_view(what() + offset, size);
  }

  // Sizes of the parts of what(): copying the exception copies no string, so it cannot throw.
  std::size_t model_ = 0;
  std::size_t argument_ = 0;
  std::size_t expected_ = 0;
  std::size_t got_ = 0;
};

/// The outcome of a call that returns an Error instead of throwing it.
///
///     if (const tfaot::Outcome outcome = model.try_run(1, {pixels}, {digit, probability}); !outcome.ok()) {
///       std::puts(outcome.message());
///     }
class [[nodiscard]] Outcome {
 public:
  /// Success.
  Outcome() noexcept = default;
  /// Failure, for the reason that `error` gives.
  Outcome(Error error) : error_(std::move(error)) {}  // NOLINT: functions return an Error as an Outcome

  /// Whether the call succeeded.
  bool ok() const noexcept { return !error_; }
  /// What went wrong; empty after a success.
  const char* message() const noexcept { return error_ ? error_->what() : ""; }
  /// The error; null after a success.
  const Error* error() const noexcept { return error_ ? &*error_ : nullptr; }

 private:
  std::optional<Error> error_;
};

namespace detail {

/// Throws `failure`. Without exceptions, prints it to standard error and ends the program.
template <class Failure>
[[__noreturn__]] void raise(const Failure& failure) {
#if TFAOT_EXCEPTIONS
  throw failure;
#else
  std::fprintf(stderr, "%s\n", failure.what());
  std::abort();
#endif
}

/// Throws the error of `outcome`, if it has one.
inline void require(const Outcome& outcome) {
  if (!outcome.ok()) raise(*outcome.error());
}

}  // namespace detail

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_ERROR_H_
