// The control words of the floating-point units: how they round, whether they flush subnormal numbers, and what traps.
#ifndef TFAOT_NATIVE_FLOAT_CONTROL_H_
#define TFAOT_NATIVE_FLOAT_CONTROL_H_

#include <cstdint>

namespace tfaot_native {
// Of each file its own: one for several would be compiled for the CPU of any of them.
namespace {

/// The control word of the units that all code uses except that for x87.
class FloatControl {
 public:
  static FloatControl current() {
    FloatControl now;
#if defined(__x86_64__)
    __asm__ volatile("stmxcsr %0" : "=m"(now.word_) : : "memory");
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(now.word_) : : "memory");
#endif
    return now;
  }

  /// As processes start: to nearest, without traps. Subnormal numbers are flushed if the caller flushes them.
  FloatControl standard() const {
    FloatControl made;
    made.word_ = (word_ & (kFlushes | kRaised)) | kStandard;
    return made;
  }

  bool operator==(FloatControl other) const { return (word_ | kRaised) == (other.word_ | kRaised); }

  /// Makes it the current one instead of `now`. Flags of exceptions that are raised stay so, as after any arithmetic.
  void replace(FloatControl now) const {
    if (*this == now) return;
#if defined(__x86_64__)
    const unsigned word = (word_ & ~kRaised) | (now.word_ & kRaised);
    __asm__ volatile("ldmxcsr %0" : : "m"(word) : "memory");
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(word_) : "memory");
#endif
  }

 private:
#if defined(__x86_64__)
  static constexpr unsigned kStandard = 0x1f80, kRaised = 0x3f, kFlushes = 0x8040;
  unsigned word_;
#elif defined(__aarch64__)
  // FZ and FZ16; the flags are in another register.
  static constexpr std::uint64_t kStandard = 0, kRaised = 0, kFlushes = std::uint64_t{1} << 24 | std::uint64_t{1} << 19;
  std::uint64_t word_;
#endif
};

/// In its scope arithmetic is standard; then it is the caller's again. For code that changes no control word: so an end
/// does not read it, and a call of a caller with standard arithmetic takes 3 to 6 ns longer (decision 039).
class StandardArithmetic {
 public:
  StandardArithmetic() { callers_.standard().replace(callers_); }
  StandardArithmetic(const StandardArithmetic&) = delete;
  StandardArithmetic& operator=(const StandardArithmetic&) = delete;
  ~StandardArithmetic() {
    if (!(callers_ == callers_.standard())) callers_.replace(FloatControl::current());
  }

 private:
  const FloatControl callers_ = FloatControl::current();
};

/// Around code that may change any control word. In its scope x87, which `long double` uses, is standard as well.
class KeptArithmetic {
 public:
  KeptArithmetic() { replace_x87(kStandard, x87_); }
  KeptArithmetic(const KeptArithmetic&) = delete;
  KeptArithmetic& operator=(const KeptArithmetic&) = delete;
  ~KeptArithmetic() {
    before_.replace(FloatControl::current());
    replace_x87(x87_, read_x87());
  }

 private:
  static constexpr unsigned short kStandard = 0x037f;

  static unsigned short read_x87() {
    unsigned short word = kStandard;
#if defined(__x86_64__)
    __asm__ volatile("fnstcw %0" : "=m"(word) : : "memory");
#endif
    return word;
  }
  static void replace_x87(unsigned short wanted, unsigned short now) {
    if (wanted == now) return;
#if defined(__x86_64__)
    __asm__ volatile("fldcw %0" : : "m"(wanted) : "memory");
#endif
  }

  const FloatControl before_ = FloatControl::current();
  const unsigned short x87_ = read_x87();
};

}  // namespace
}  // namespace tfaot_native

#endif  // TFAOT_NATIVE_FLOAT_CONTROL_H_
