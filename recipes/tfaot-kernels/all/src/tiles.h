// tiles.h: loops that write elements in another order than they read them.
#ifndef TFAOT_KERNELS_TILES_H_
#define TFAOT_KERNELS_TILES_H_

#include "elementwise.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Part kPart of kRows interleaved rows, if `found` has the lanes of the rows before kRow, or is the first row.
template <int kRows, int kPart, int kRow = 1>
TFAOT_INLINE Vector interleaved(const Vector* rows, Vector found) {
  if constexpr (kRow < kRows) {
    // Lane `lane` of part kPart is element kPart * kLanes + lane: number element / kRows of row element % kRows.
    found = permuted(found, rows[kRow], [](int lane) {
      const int element = kPart * kLanes + lane;
      if (element % kRows == kRow) return kLanes + element / kRows;
      return kRow == 1 && element % kRows == 0 ? element / kRows : lane;
    });
    return interleaved<kRows, kPart, kRow + 1>(rows, found);
  }
  return found;
}
/// Writes the first `left` of kRows * kLanes elements: lane 0 of all rows, then lane 1 and so on.
template <int kRows, int kPart = 0, class Element>
TFAOT_INLINE void storeInterleaved(const Vector* rows, std::size_t left, Element* to) {
  if constexpr (kPart < kRows) {
    const Vector value = interleaved<kRows, kPart>(rows, rows[0]);
    if constexpr (sizeof(Element) < sizeof(float)) {
      if (left < kLanes) return storeNarrowed(to, left, bitsAs<Integers>(value));
      storeNarrowed(to, bitsAs<Integers>(value));
    } else {
      if (left < kLanes) return storeFirst(reinterpret_cast<float*>(to), left, value);
      store(reinterpret_cast<float*>(to), value);
    }
    if (left > kLanes) storeInterleaved<kRows, kPart + 1>(rows, left - kLanes, to + kLanes);
  }
}

/// Writes lane j of vector i to to[j * step + i], for the first `lanes` and the first `vectors`, at most kCount each.
template <int kCount>
TFAOT_INLINE void storeTransposed(Vector (&rows)[kCount], std::size_t lanes, std::size_t vectors, float* to, std::size_t step) {
  transpose(rows);
  TFAOT_UNROLL
  for (std::size_t j = 0; j < kCount; ++j) {
    if (j < lanes) storePart(to + j * step, vectors, rows[j]);
  }
}
/// The same for vectors in memory.
template <int kCount>
TFAOT_ALONE void storeTransposed(const float (&values)[kLanes][kLanes], std::size_t lanes, std::size_t vectors, float* to,
                                 std::size_t step) {
  Vector rows[kCount];
  TFAOT_UNROLL
  for (int i = 0; i < kCount; ++i) rows[i] = load(values[i]);
  storeTransposed(rows, lanes, vectors, to, step);
}

/// Calls `body(at, i)` for `rows` rows i and all places of `columns` elements; element j of row i goes to to[j * step + i].
template <class Element, class Body>
TFAOT_INLINE void eachTransposed(std::size_t rows, std::size_t columns, Element* to, std::size_t step, Body body) {
  static_assert(sizeof(Element) == sizeof(float));
  constexpr std::size_t kHalf = kLanes / 2;
  each(columns, [&](auto at) {
    float values[kLanes][kLanes] = {};
    for (std::size_t first = 0; first < rows; first += kLanes) {
      const std::size_t count = rows - first < kLanes ? rows - first : kLanes;
      for (std::size_t i = 0; i < count; ++i) store(values[i], bitsAs<Vector>(body(at, first + i)));
      float* const part = reinterpret_cast<float*>(to + at.start * step + first);
      if (count <= kHalf && at.count() <= kHalf) {
        storeTransposed<kHalf>(values, at.count(), count, part, step);
      } else {
        storeTransposed<kLanes>(values, at.count(), count, part, step);
      }
    }
  });
}
/// The same for numbers of rows and columns that are known.
template <std::size_t kRows, std::size_t kColumns, class Element, class Body>
TFAOT_INLINE void eachTransposed(Element* to, std::size_t step, Body body) {
  constexpr std::size_t kFew = kLanes < 8 ? kLanes : 8;  // registers hold all of so few rows
  if constexpr (kRows <= kFew && kColumns <= kFew) {
    static_assert(sizeof(Element) == sizeof(float));
    each(kColumns, [&](auto at) __attribute__((always_inline)) {
      Vector few[kFew] = {};
      TFAOT_UNROLL
      for (std::size_t i = 0; i < kRows; ++i) few[i] = bitsAs<Vector>(body(at, i));
      storeTransposed(few, at.count(), kRows, reinterpret_cast<float*>(to + at.start * step), step);
    });
  } else {
    eachTransposed(kRows, kColumns, to, step, body);
  }
}
/// The same for kRows rows whose elements become adjacent: `step` is kRows.
template <int kRows, class Element, class Body>
TFAOT_INLINE void eachInterleaved(std::size_t columns, Element* to, Body body) {
  each(columns, [&](auto at) {
    Vector rows[kRows];
    TFAOT_UNROLL
    for (int i = 0; i < kRows; ++i) rows[i] = bitsAs<Vector>(body(at, static_cast<std::size_t>(i)));
    storeInterleaved<kRows>(rows, kRows * at.count(), to + at.start * kRows);
  });
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TILES_H_
