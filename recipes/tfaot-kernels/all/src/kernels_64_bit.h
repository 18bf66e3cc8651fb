// kernels_64_bit.h: vectors of doubles and of integers of 64 bits: products of matrices, and reductions.
//
// Loops over such elements become vectors by the compiler. What it cannot turn into vectors is here: sums that must stay
// in registers, and those whose order is fixed.
#ifndef TFAOT_KERNELS_KERNELS_64_BIT_H_
#define TFAOT_KERNELS_KERNELS_64_BIT_H_

#include "arithmetic.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

// Products

/// Rows of doubles, `step` apart, times a row-major matrix whose rows lie `down` apart.
struct WideProduct {
  const double* in;
  std::size_t step, inner;
  const double* matrix;
  std::size_t down;
  double* out;
  std::size_t outStep;
};

inline constexpr int kWideSums = kRegisters * 3 / 4;  ///< vectors of sums that registers hold beside weights and inputs
inline constexpr int kWideRows = kRegisters / 4;      ///< most rows of a block, a power of two

/// The sums of kRows rows and kWidth vectors of columns, the last one of kLast columns; of `last` ones if that is 0.
/// Each adds up in the order of the matrix's rows, rounded once a step, whatever the block.
template <int kRows, int kWidth, int kLast>
TFAOT_INLINE void sumWide(const WideProduct& product, std::size_t column, std::size_t last = kLast) {
  Doubles sums[kRows][kWidth] = {};
  const double *in = product.in, *matrix = product.matrix + column;
  for (std::size_t k = 0; k < product.inner; ++k, matrix += product.down) {
    Doubles weights[kWidth];
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      const bool isWhole = v + 1 < kWidth || kLast == kWideLanes;
      weights[v] = isWhole ? load(matrix + v * kWideLanes) : loadFirst(matrix + v * kWideLanes, last);
      keepInRegister(weights[v]);
    }
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      Doubles input = doubles(in[static_cast<std::size_t>(r) * product.step + k]);
      keepInRegister(input);
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) sums[r][v] = multiplyAdd(input, weights[v], sums[r][v]);
    }
  }
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    double* const out = product.out + static_cast<std::size_t>(r) * product.outStep + column;
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      const bool isWhole = v + 1 < kWidth || kLast == kWideLanes;
      if (isWhole) {
        store(out + v * kWideLanes, sums[r][v]);
      } else {
        storeFirst(out + v * kWideLanes, last, sums[r][v]);
      }
    }
  }
}

/// The same where sums fill the registers.
template <int kRows, int kWidth, int kLast>
TFAOT_ALONE void sumWideAlone(const WideProduct& product, std::size_t column) {
  sumWide<kRows, kWidth, kLast>(product, column);
}

/// kRows rows times kColumns columns: in strips of which none is wider than another by more than one vector.
template <int kRows, int kColumns, int kColumn = 0>
TFAOT_INLINE void multiplyWideRows(const WideProduct& product) {
  constexpr int kMost = kWideSums / kRows < 8 ? kWideSums / kRows : 8;
  constexpr int kLeft = (kColumns - kColumn + kWideLanes - 1) / kWideLanes, kStrips = (kLeft + kMost - 1) / kMost;
  if constexpr (kStrips > 4) {
    // Many strips: all but the last ones by one loop.
    constexpr int kMany = (kStrips - 4) * kMost * kWideLanes;
    for (int j = 0; j < kMany; j += kMost * kWideLanes) {
      sumWideAlone<kRows, kMost, kWideLanes>(product, static_cast<std::size_t>(kColumn + j));
    }
    multiplyWideRows<kRows, kColumns, kColumn + kMany>(product);
  } else if constexpr (kStrips > 0) {
    constexpr int kWidth = (kLeft + kStrips - 1) / kStrips, kEnd = kColumn + kWidth * kWideLanes;
    constexpr int kLast = kEnd <= kColumns ? kWideLanes : kColumns - (kEnd - kWideLanes);
    if constexpr (kRows * kWidth < kWideSums / 2) {
      sumWide<kRows, kWidth, kLast>(product, kColumn);
    } else {
      sumWideAlone<kRows, kWidth, kLast>(product, kColumn);
    }
    multiplyWideRows<kRows, kColumns, kEnd>(product);
  }
}

/// `rows` rows times kColumns columns.
template <int kColumns, int kRows = kWideRows>
inline void multiplyWide(WideProduct product, std::size_t rows) {
  for (; rows >= kRows; rows -= kRows) {
    multiplyWideRows<kRows, kColumns>(product);
    product.in += kRows * product.step, product.out += kRows * product.outStep;
  }
  if constexpr (kRows > 1) multiplyWide<kColumns, kRows / 2>(product, rows);
}
/// Columns from `j` to the end, in strips of at most kWidth vectors, each half as wide as the one before.
template <int kRows, int kWidth>
TFAOT_INLINE void multiplyWideTo(const WideProduct& product, std::size_t j, std::size_t columns) {
  if constexpr (kWidth > 1) {
    if (j + kWidth * kWideLanes <= columns) {
      sumWideAlone<kRows, kWidth, kWideLanes>(product, j);
      j += kWidth * kWideLanes;
    }
    multiplyWideTo<kRows, kWidth / 2>(product, j, columns);
  } else {
    for (; j < columns; j += kWideLanes) sumWide<kRows, 1, 0>(product, j, std::min<std::size_t>(columns - j, kWideLanes));
  }
}
/// The same for a number of columns that is known only when it runs.
template <int kRows = kWideRows>
TFAOT_INLINE void multiplyWide(WideProduct product, std::size_t rows, std::size_t columns) {
  constexpr int kMost = kWideSums / kRows < 8 ? kWideSums / kRows : 8;
  for (; rows >= kRows; rows -= kRows, product.in += kRows * product.step, product.out += kRows * product.outStep) {
    std::size_t j = 0;
    for (; j + kMost * kWideLanes <= columns; j += kMost * kWideLanes) sumWideAlone<kRows, kMost, kWideLanes>(product, j);
    multiplyWideTo<kRows, kMost / 2>(product, j, columns);
  }
  if constexpr (kRows > 1) multiplyWide<kRows / 2>(product, rows, columns);
}

// Places of loops

/// kWideLanes elements of 64 bits, the first of them at `start`.
struct WholeWide {
  std::size_t start;
  template <class Element>
  TFAOT_INLINE auto fill(Element x) const {
    return broadcast(x);
  }
  TFAOT_INLINE Longs fill(bool x) const { return broadcast(-std::int64_t{x}); }
  template <class Element>
  TFAOT_INLINE auto load(const Element* row) const {
    return tfaot_kernels::load(row + start);
  }
  template <class Element>
  TFAOT_INLINE auto load(const Element* row, std::ptrdiff_t stride) const {
    Element values[kWideLanes];
    TFAOT_UNROLL
    for (int i = 0; i < kWideLanes; ++i) values[i] = row[(static_cast<std::ptrdiff_t>(start) + i) * stride];
    return tfaot_kernels::load(values);
  }
  template <class Element, class Values>
  TFAOT_INLINE void store(Element* row, Values value) const {
    tfaot_kernels::store(row + start, value);
  }
  template <class Element, class Values>
  TFAOT_INLINE void store(Element* row, Values value, std::ptrdiff_t stride) const {
    TFAOT_UNROLL
    for (int i = 0; i < kWideLanes; ++i) row[(static_cast<std::ptrdiff_t>(start) + i) * stride] = value[i];
  }
};

template <class Body>
TFAOT_INLINE void eachWide(std::size_t size, Body body) {
  std::size_t i = 0;
  for (; i + kWideLanes <= size; i += kWideLanes) body(WholeWide{i});
  for (; i < size; ++i) body(OneElement{i});
}

TFAOT_INLINE Longs chosen(Longs which, Longs yes, Longs no) { return which ? yes : no; }
TFAOT_INLINE Doubles maximum(Doubles a, Doubles b) { return chosen(a != a, a, larger(a, b)); }
TFAOT_INLINE Doubles minimum(Doubles a, Doubles b) { return chosen(a != a, a, smaller(a, b)); }
TFAOT_INLINE Longs maximum(Longs a, Longs b) { return chosen(a > b, a, b); }
TFAOT_INLINE Longs minimum(Longs a, Longs b) { return chosen(a < b, a, b); }
TFAOT_INLINE Longs negated(Longs x) { return ~x; }

using PlainLongs = VectorOf<std::uint64_t>;
TFAOT_INLINE Longs sumOf(Longs a, Longs b) { return bitsAs<Longs>(bitsAs<PlainLongs>(a) + bitsAs<PlainLongs>(b)); }
TFAOT_INLINE Longs differenceOf(Longs a, Longs b) { return bitsAs<Longs>(bitsAs<PlainLongs>(a) - bitsAs<PlainLongs>(b)); }
TFAOT_INLINE Longs productOf(Longs a, Longs b) { return bitsAs<Longs>(bitsAs<PlainLongs>(a) * bitsAs<PlainLongs>(b)); }
TFAOT_INLINE Longs oppositeOf(Longs a) { return differenceOf(Longs{}, a); }
TFAOT_INLINE Longs magnitudeOf(Longs a) { return chosen(a < 0, oppositeOf(a), a); }

// Reductions of rows, in the tree of those of floats

/// A function of two values (elementwise.h), of doubles.
template <class Combine>
struct OfWide {
  template <class Values>
  TFAOT_INLINE Values operator()(Values a, Values b) const {
    if constexpr (std::is_same_v<Combine, Adding>) return a + b;
    if constexpr (std::is_same_v<Combine, Multiplying>) return a * b;
    if constexpr (std::is_same_v<Combine, TakingLargest>) return maximum(a, b);
    if constexpr (std::is_same_v<Combine, TakingSmallest>) return minimum(a, b);
  }
};

/// Those of kSize doubles, at most kPartial, which `body` gives by place, combined: all steps are written out.
template <class Combine, int kSize, class Body>
TFAOT_INLINE double reducedWideFew(Body body) {
  return reducedOfFew<OfWide<Combine>, kSize>([&](auto k) { return body(OneElement{static_cast<std::size_t>(k)}); });
}

/// All of `size` doubles, which `body` gives by place, combined.
template <class Combine, class Body>
TFAOT_INLINE double reducedWide(std::size_t size, Body body) {
  constexpr OfWide<Combine> combine;
  constexpr int kWideVectors = kPartial / kWideLanes;
  Doubles partial[kWideVectors];
  for (Doubles& each : partial) each = doubles(Combine::kStart);
  std::size_t i = 0;
  for (; i + kPartial <= size; i += kPartial) {
    TFAOT_UNROLL
    for (int v = 0; v < kWideVectors; ++v) {
      partial[v] = combine(partial[v], body(WholeWide{i + static_cast<std::size_t>(v) * kWideLanes}));
    }
  }
  double all[kPartial];
  std::memcpy(all, partial, sizeof all);
  for (std::size_t j = 0; i < size; ++i, ++j) all[j] = combine(all[j], body(OneElement{i}));
  TFAOT_UNROLL
  for (int count = kPartial / 2; count > 0; count /= 2) {
    TFAOT_UNROLL
    for (int j = 0; j < count; ++j) all[j] = combine(all[j], all[j + count]);
  }
  return all[0];
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_KERNELS_64_BIT_H_
