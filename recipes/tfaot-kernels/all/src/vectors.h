// vectors.h: the vectors of the target that is being compiled for, by the vector extensions of GCC and Clang.
#ifndef TFAOT_KERNELS_VECTORS_H_
#define TFAOT_KERNELS_VECTORS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "tfaot_kernels/kernels.h"

// Loops over registers must be unrolled at every level of optimisation.
#if defined(__clang__)
#define TFAOT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TFAOT_UNROLL _Pragma("GCC unroll 16")
#endif
#define TFAOT_INLINE inline __attribute__((always_inline))
// For loops that fill the registers.
#define TFAOT_ALONE __attribute__((noinline))

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

// The shape of a block of sums, for each kind of vectors:
//
//   kLanes       floats in a vector
//   kBlockRows   most rows of a block
//   kRowsOfOne, kRowsOfFewOdd, kRowsOfMany
//                most rows of a block if there is one vector of columns, if there are 3, 5 or 7, and otherwise
//   kBlockWidth  most vectors of columns, for each number of rows
//   kSteps       inputs per iteration of the inner loop, for each number of rows
//   kChainSums   most sums of a block whose sums are computed in four chains
//
// The registers must hold the sums and, in addition, one row's weights and one input, or the inputs of all rows and one
// weight. At least 8 sums keep two units with a latency of 4 cycles busy. Of the shapes that fit, those with fewer loads
// per multiply-add are faster. Several steps are unrolled only if the loop overhead was measurable.
//
// What a block prefetches (`askedBy` in blocks.h):
//
//   kAskingRows  blocks up to that many rows prefetch all weights, larger ones only those that they use first
//   kAskingSteps most inputs per iteration of the larger blocks that prefetch; these are few, and their code is large
//   kAhead       bytes between a prefetch and the use
//   kAsksAlong   if weights are large, each larger block also prefetches a part of the next strip's; otherwise the second
//                block prefetches all of them
//
// All were chosen by benchmarks/kernels.py; docs/decisions/024 has the figures.
//
// With TFAOT_KERNELS_SIXTEEN vectors have 16 floats on any target, so that a machine without AVX-512 can show that
// results do not depend on the width.
#if defined(__AVX512F__) || defined(TFAOT_KERNELS_SIXTEEN)
inline constexpr int kLanes = 16;
inline constexpr int kBlockRows = 12;
inline constexpr int kRowsOfOne = 12, kRowsOfFewOdd = 8, kRowsOfMany = 8;
inline constexpr int kBlockWidth[kBlockRows + 1] = {0, 8, 8, 4, 4, 5, 4, 3, 3, 2, 2, 2, 2};
inline constexpr int kSteps[kBlockRows + 1] = {0, 4, 4, 1, 1, 1, 1, 4, 4, 2, 2, 2, 2};
inline constexpr int kChainSums = 24;
inline constexpr int kAskingRows = 4;
inline constexpr int kAskingSteps = 1;
inline constexpr std::size_t kAhead = 384;
inline constexpr bool kAsksAlong = true;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
inline constexpr int kBlockRows = 8;
inline constexpr int kRowsOfOne = 8, kRowsOfFewOdd = 4, kRowsOfMany = 6;
inline constexpr int kBlockWidth[kBlockRows + 1] = {0, 8, 6, 4, 3, 2, 2, 1, 1};
inline constexpr int kSteps[kBlockRows + 1] = {0, 1, 1, 1, 1, 3, 3, 3, 3};
inline constexpr int kChainSums = 12;
inline constexpr int kAskingRows = 4;
inline constexpr int kAskingSteps = 3;
inline constexpr std::size_t kAhead = 2048;
inline constexpr bool kAsksAlong = false;
#elif defined(__aarch64__)
inline constexpr int kLanes = 4;
inline constexpr int kBlockRows = 4;
inline constexpr int kRowsOfOne = 4, kRowsOfFewOdd = 4, kRowsOfMany = 4;
inline constexpr int kBlockWidth[kBlockRows + 1] = {0, 8, 8, 4, 4};
inline constexpr int kSteps[kBlockRows + 1] = {0, 1, 1, 1, 3};
inline constexpr int kChainSums = 16;
inline constexpr int kAskingRows = 4;
inline constexpr int kAskingSteps = 3;
inline constexpr std::size_t kAhead = 4096;
inline constexpr bool kAsksAlong = false;
#else
inline constexpr int kLanes = 4;
inline constexpr int kBlockRows = 2;
inline constexpr int kRowsOfOne = 2, kRowsOfFewOdd = 2, kRowsOfMany = 2;
inline constexpr int kBlockWidth[kBlockRows + 1] = {0, 8, 4};
inline constexpr int kSteps[kBlockRows + 1] = {0, 1, 3};
inline constexpr int kChainSums = 8;
inline constexpr int kAskingRows = 2;
inline constexpr int kAskingSteps = 3;
inline constexpr std::size_t kAhead = 4096;
inline constexpr bool kAsksAlong = false;
#endif
inline constexpr int kVectors = static_cast<int>(kPanel) / kLanes;  ///< vectors of one row of a panel

/// The number of vectors that hold so many floats.
template <class Size>
constexpr Size vectorsOf(Size floats) {
  return (floats + kLanes - 1) / kLanes;
}

/// Whether a dense layer's sums are computed in chains (chains.h): it has too few columns to keep the units busy for one
/// row. With fewer inputs, adding the chains up costs more than a single row gains.
constexpr bool isChained(std::size_t inputs, std::size_t outputs) { return outputs <= 2 * kPanel && inputs >= 128; }

// Sums along a row consist of kPartial partial sums, element i in sum i % kPartial, which are added in a tree (sum i and sum
// i + kPartial / 2, and so on): the same for every target, whatever the length of its vectors.
inline constexpr int kPartial = 16;
inline constexpr int kPartialVectors = kPartial / kLanes;

// The intrinsics that functions below use: each is faster than the portable code in the last branch.
#if defined(__AVX512F__)
#define TFAOT_AVX512
#elif defined(__AVX2__) && !defined(TFAOT_KERNELS_SIXTEEN)
#define TFAOT_AVX2
#elif defined(__x86_64__) && !defined(TFAOT_KERNELS_SIXTEEN)
#define TFAOT_SSE
#elif defined(__aarch64__) && !defined(TFAOT_KERNELS_SIXTEEN)
#define TFAOT_NEON
#endif

using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
using Mask = std::int32_t __attribute__((vector_size(kLanes * sizeof(float))));
using Unsigned = std::uint32_t __attribute__((vector_size(kLanes * sizeof(float))));

#if defined(TFAOT_AVX512)
inline constexpr __mmask16 kAllLanes = 0xffff;  // GCC 12 warns of its own header if there is no mask
#endif

TFAOT_INLINE Vector load(const float* from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

TFAOT_INLINE void store(float* to, Vector value) { std::memcpy(to, &value, sizeof value); }

template <class Of, int... kLane>
TFAOT_INLINE Mask perLane(Of of, std::integer_sequence<int, kLane...>) {
  return Mask{of(kLane)...};
}
/// Lane i holds of(i); `of` is a lambda that captures nothing.
template <class Of>
TFAOT_INLINE Mask perLane(Of of) {
  return perLane(of, std::make_integer_sequence<int, kLanes>{});
}
/// 0, 1, 2 and so on.
TFAOT_INLINE Mask laneNumbers() {
  return perLane([](int lane) { return lane; });
}

/// A mask that is set in the first `count` lanes.
TFAOT_INLINE Mask firstLanes(std::size_t count) {
  return laneNumbers() < static_cast<std::int32_t>(count);
}

#if defined(TFAOT_AVX512)
TFAOT_INLINE __mmask16 firstOf(std::size_t count) { return static_cast<__mmask16>((1u << count) - 1u); }
#endif

/// The first `count` floats, at most kLanes, and zeros.
TFAOT_INLINE Vector loadFirst(const float* from, std::size_t count) {
#if defined(TFAOT_AVX512)
  return _mm512_maskz_loadu_ps(firstOf(count), from);
#elif defined(TFAOT_AVX2)
  return _mm256_maskload_ps(from, reinterpret_cast<__m256i>(firstLanes(count)));
#else
  float padded[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) padded[i] = i < count ? from[i] : 0.0f;
  return load(padded);
#endif
}

TFAOT_INLINE void storeFirst(float* to, std::size_t count, Vector value) {
#if defined(TFAOT_AVX512)
  _mm512_mask_storeu_ps(to, firstOf(count), value);
#elif defined(TFAOT_AVX2)
  // AMD's masked stores are microcode, of 12 cycles each on Zen 3: benchmarks/kernels.py.
  if (count >= kLanes) return store(to, value);
  __m128 part = _mm256_castps256_ps128(value);
  if (count & 4) {
    _mm_storeu_ps(to, part);
    part = _mm256_extractf128_ps(value, 1);
    to += 4;
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    part = _mm_movehl_ps(part, part);
    to += 2;
  }
  if (count & 1) _mm_store_ss(to, part);
#else
  float padded[kLanes];
  store(padded, value);
  // Up to the constant kLanes, not to `count`, because GCC warns that `padded` might be too short.
  for (std::size_t i = 0; i < kLanes; ++i) {
    if (i < count) to[i] = padded[i];
  }
#endif
}

/// The same for a known number, without masks: in parts of 8, 4, 2 and 1 floats.
template <std::size_t kCount>
TFAOT_INLINE void storeFirst(float* to, Vector value) {
  if constexpr (kCount >= kLanes) return store(to, value);
#if defined(TFAOT_AVX512)
  constexpr auto kAll = static_cast<__mmask8>(kAllLanes);
  __m256 half = reinterpret_cast<__m256>(_mm512_maskz_extractf64x4_pd(kAll, reinterpret_cast<__m512d>(value), 0));
  if constexpr ((kCount & 8) != 0) {
    _mm256_storeu_ps(to, half);
    half = reinterpret_cast<__m256>(_mm512_maskz_extractf64x4_pd(kAll, reinterpret_cast<__m512d>(value), 1));
    to += 8;
  }
  [[maybe_unused]] __m128 part = _mm256_castps256_ps128(half);
  if constexpr ((kCount & 4) != 0) {
    _mm_storeu_ps(to, part);
    part = _mm256_extractf128_ps(half, 1);
    to += 4;
  }
  if constexpr ((kCount & 2) != 0) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    part = _mm_movehl_ps(part, part);
    to += 2;
  }
  if constexpr ((kCount & 1) != 0) _mm_store_ss(to, part);
#else
  storeFirst(to, kCount, value);
#endif
}

/// Half a vector, and zeros; without a mask (AVX-512), because what a mask stores is not forwarded to a load that follows,
/// which waits for 2 ns more (Zen 5). Not a case of `loadFirst` for a known count: GCC 12 left out code behind such a case.
TFAOT_INLINE Vector loadHalf(const float* from) {
#if defined(TFAOT_AVX512)
  const __m256d half = _mm256_loadu_pd(reinterpret_cast<const double*>(from));
  return reinterpret_cast<Vector>(_mm512_maskz_insertf64x4(static_cast<__mmask8>(kAllLanes), __m512d{}, half, 0));
#else
  return loadFirst(from, kLanes / 2);
#endif
}
TFAOT_INLINE void storeHalf(float* to, Vector value) {
#if defined(TFAOT_AVX512)
  std::memcpy(to, &value, kLanes / 2 * sizeof(float));
#else
  storeFirst(to, kLanes / 2, value);
#endif
}

/// Whether the first lanes of a vector are stored by one instruction that is no slower than a copy of them.
#if defined(TFAOT_AVX512)
inline constexpr bool kStoresParts = true;
#else
inline constexpr bool kStoresParts = false;
#endif

/// Prefetches the address `ahead` bytes after `from`, which need not exist, into the L1 or the L2 cache.
template <int kCache = 1>
TFAOT_INLINE void prefetch(const float* from, std::size_t ahead) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + ahead), 0, 4 - kCache);
}

TFAOT_INLINE Vector broadcast(float x) {
#if defined(TFAOT_AVX512) || defined(TFAOT_KERNELS_SIXTEEN)
  return Vector{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif defined(TFAOT_AVX2)
  return Vector{x, x, x, x, x, x, x, x};
#else
  return Vector{x, x, x, x};
#endif
}

// Each function below gives the same bits for every target, except those for which the target's arithmetic units have
// no fused multiply-add (x86-64 and x86-64-v2): there it is a multiplication and an addition, because the C library's
// function takes a hundred times as long. Compilers must not fuse by themselves (-ffp-contract=off): which operations
// they fuse depends on the target.
#if defined(__FMA__) || defined(__aarch64__)
#define TFAOT_FUSED
inline constexpr bool kFuses = true;
#else
inline constexpr bool kFuses = false;
#endif

/// a * b + c.
TFAOT_INLINE float multiplyAdd(float a, float b, float c) {
#if defined(TFAOT_FUSED)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

TFAOT_INLINE Vector multiplyAdd(Vector a, Vector b, Vector c) {
#if defined(TFAOT_AVX512)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(TFAOT_AVX2) && defined(TFAOT_FUSED)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(TFAOT_NEON)
  return vfmaq_f32(c, a, b);
#elif defined(TFAOT_FUSED)
  for (int i = 0; i < kLanes; ++i) c[i] = multiplyAdd(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}
TFAOT_INLINE Vector multiplyAdd(Vector a, Vector b, float c) { return multiplyAdd(a, b, broadcast(c)); }
TFAOT_INLINE Vector multiplyAdd(float a, Vector b, float c) { return multiplyAdd(broadcast(a), b, broadcast(c)); }

/// c - a * b.
TFAOT_INLINE Vector subtractProduct(Vector c, Vector a, Vector b) { return multiplyAdd(a, -b, c); }

/// `magnitude`, or what it is below 0 if `sign` is; of a `magnitude` of 0, which has no sign, 0.
TFAOT_INLINE Mask withSign(Mask magnitude, Mask sign) {
#if defined(TFAOT_AVX2)
  return reinterpret_cast<Mask>(_mm256_sign_epi32(reinterpret_cast<__m256i>(magnitude), reinterpret_cast<__m256i>(sign)));
#elif defined(TFAOT_SSE) && defined(__SSSE3__)
  return reinterpret_cast<Mask>(_mm_sign_epi32(reinterpret_cast<__m128i>(magnitude), reinterpret_cast<__m128i>(sign)));
#else
  const Mask below = sign >> 31;
  return (magnitude ^ below) - below;
#endif
}

/// a > b ? a : b and a < b ? a : b in each lane: `b` if one of them is NaN or both are zero. x86 has instructions that do
/// exactly this, but GCC does not use them for the expression.
TFAOT_INLINE Vector larger(Vector a, Vector b) {
#if defined(TFAOT_AVX512)
  return _mm512_maskz_max_ps(kAllLanes, a, b);
#elif defined(TFAOT_AVX2)
  return _mm256_max_ps(a, b);
#elif defined(TFAOT_SSE)
  return _mm_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

TFAOT_INLINE Vector smaller(Vector a, Vector b) {
#if defined(TFAOT_AVX512)
  return _mm512_maskz_min_ps(kAllLanes, a, b);
#elif defined(TFAOT_AVX2)
  return _mm256_min_ps(a, b);
#elif defined(TFAOT_SSE)
  return _mm_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}

TFAOT_INLINE float larger(float a, float b) { return a > b ? a : b; }

/// Zeros that Clang cannot recognize as such: for AArch64 it would turn a comparison with zero into an instruction for which
/// 0 is larger than -0.
TFAOT_INLINE Vector zeros() {
  Vector value{};
#if defined(__clang__) && defined(__aarch64__)
  asm("" : "+w"(value));
#endif
  return value;
}

template <class To, class From>
TFAOT_INLINE To bitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// The number between -limit and 0 that is nearest to -|x|, for a positive limit; for NaN, any number.
TFAOT_INLINE Vector negativeMagnitude(Vector x, float limit) {
#if defined(TFAOT_AVX512) && defined(__AVX512DQ__)
  constexpr int kSmallerMagnitude = 2, kMinus = 3;
  return _mm512_maskz_range_ps(kAllLanes, x, broadcast(limit), kMinus << 2 | kSmallerMagnitude);
#else
  return larger(broadcast(-limit), bitsAs<Vector>(bitsAs<Unsigned>(x) | 0x80000000u));
#endif
}

template <class Values, class From, int... kLane>
TFAOT_INLINE Values permuted(Values a, Values b, From from, std::integer_sequence<int, kLane...>) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, from(kLane)...);
#else
  return __builtin_shuffle(a, b, Mask{from(kLane)...});
#endif
}
/// Lane i gets the value of lane from(i) of `a`, or of lane from(i) - kLanes of `b`; `from` is a lambda that captures nothing.
template <class Values, class From>
TFAOT_INLINE Values permuted(Values a, Values b, From from) {
  return permuted(a, b, from, std::make_integer_sequence<int, kLanes>{});
}
template <class From>
TFAOT_INLINE Vector permuted(Vector x, From from) {
  return permuted(x, x, from);
}

/// Lane i gets the value of lane i ^ kStep; kStep is a power of two below kLanes.
template <int kStep>
TFAOT_INLINE Vector exchanged(Vector x) {
  return permuted(x, [](int lane) { return lane ^ kStep; });
}

template <int kStep>
TFAOT_INLINE Mask exchanged(Mask x) {
  return bitsAs<Mask>(exchanged<kStep>(bitsAs<Vector>(x)));
}

/// The two vectors of a pair exchange the halves on the other side of the diagonal.
template <int kStep, bool kUpper>
TFAOT_INLINE Vector mixedLanes(Vector a, Vector b) {
  return permuted(a, b, [](int lane) {
    const bool isSecond = (lane & kStep) != 0;
    return (isSecond ? kLanes : 0) + (isSecond == kUpper ? lane : lane ^ kStep);
  });
}

/// Swaps lane j of vector i and lane i of vector j, among the first kCount lanes.
template <int kCount, int kStep = kCount / 2>
TFAOT_INLINE void transpose(Vector (&rows)[kCount]) {
  if constexpr (kStep > 0) {
    TFAOT_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if ((i & kStep) != 0) continue;
      const Vector a = rows[i], b = rows[i + kStep];
      rows[i] = mixedLanes<kStep, false>(a, b);
      rows[i + kStep] = mixedLanes<kStep, true>(a, b);
    }
    transpose<kCount, kStep / 2>(rows);
  }
}

inline constexpr int kHalfLanes = kLanes / 2;

/// The lower half of `a` and the upper half of `b`.
TFAOT_INLINE Vector halvesOf(Vector a, Vector b) {
#if defined(TFAOT_AVX512)
  return _mm512_mask_mov_ps(a, 0xff00, b);  // GCC would load the upper half and insert it, by a unit that has more to do
#else
  for (int i = kHalfLanes; i < kLanes; ++i) a[i] = b[i];
  return a;
#endif
}
/// The upper half of `a` in both halves.
TFAOT_INLINE Vector upperHalf(Vector a) { return halvesOf(exchanged<kHalfLanes>(a), a); }
/// kHalfLanes floats in both halves.
TFAOT_INLINE Vector loadTwice(const float* from) {
#if defined(TFAOT_AVX512)
  return _mm512_maskz_broadcast_f32x8(kAllLanes, _mm256_loadu_ps(from));
#else
  const Vector once = loadFirst(from, kHalfLanes);
  return halvesOf(once, exchanged<kHalfLanes>(once));
#endif
}

/// Makes GCC load a value once that is used several times: it would make it a memory operand of each use, which costs more
/// than it saves. Generates no instruction, and may be empty.
TFAOT_INLINE void keepInRegister([[maybe_unused]] Vector& value) {
#if !defined(__clang__) && (defined(TFAOT_AVX512) || defined(TFAOT_AVX2) || defined(TFAOT_SSE))
  asm("" : "+v"(value));
#endif
}

/// The same for an address: GCC would keep each address that a loop computes from it in a register of its own.
template <class Float>
TFAOT_INLINE void keepInRegister([[maybe_unused]] Float*& address) {
#if defined(__GNUC__) && !defined(__clang__)
  asm("" : "+r"(address));
#endif
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_VECTORS_H_
