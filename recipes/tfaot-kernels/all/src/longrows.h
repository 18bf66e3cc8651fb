// longrows.h: several steps over the same rows of 9 to a few dozen elements, with a tile of rows in registers.
#ifndef TFAOT_KERNELS_LONGROWS_H_
#define TFAOT_KERNELS_LONGROWS_H_

#include "rowtiles.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The vectors of kRows rows of kSize elements; lanes behind a row hold anything.
template <int kSize, int kRows>
struct LongRows {
  static constexpr int kOfRow = vectorsOf(kSize);
  Vector values[kRows * kOfRow];
};

/// Vector kVector of the rows from `start` on.
template <int kSize, int kRows, int kVector>
struct VectorOfLongRows {
  static constexpr int kOfRow = LongRows<kSize, kRows>::kOfRow;
  static constexpr int kRow = kVector / kOfRow, kColumn = kVector % kOfRow * kLanes;
  static constexpr int kHere = kSize - kColumn < kLanes ? kSize - kColumn : kLanes;  ///< elements of the row
  std::size_t start;

  template <class Element>
  TFAOT_INLINE auto fill(Element x) const {
    return filled(x);
  }
  TFAOT_INLINE Vector load(const LongRows<kSize, kRows>& made) const { return made.values[kVector]; }
  /// A number for each row.
  template <class Values>
  TFAOT_INLINE Values load(Values numbers) const {
    return permuted(numbers, numbers, [](int) { return kRow; });
  }
  template <int kApart, int kStep>
  TFAOT_INLINE Vector load(const float* from, Apart<kApart, kStep>) const {
    const float* const first = from + (start + kRow) * kApart + kColumn * kStep;
    if constexpr (kStep == 0) return filled(*first);
    if constexpr (kHere == kLanes) return tfaot_kernels::load(first);
    if constexpr (kHere == kHalfLanes) return loadHalf(first);
    return loadFirst(first, kHere);
  }
  TFAOT_INLINE void store(float* to, Vector value) const {
    float* const first = to + (start + kRow) * kSize + kColumn;
    if constexpr (kHere == kLanes) return tfaot_kernels::store(first, value);
    if constexpr (kHere == kHalfLanes) return storeHalf(first, value);
    storeFirst(first, kHere, value);
  }
  /// The value with `behind` in lanes that belong to no element.
  TFAOT_INLINE Vector padded(Vector value, float behind) const {
    if constexpr (kHere == kLanes) return value;
    return chosen(firstLanes(kHere), value, filled(behind));
  }
};

/// kRows rows from `start` on, with the members of Tile (rowtiles.h). Numbers of rows are in the first lanes of a vector.
template <int kSize, int kRows>
struct TileOfLongRows {
  using Made = LongRows<kSize, kRows>;
  using Vectors = std::make_integer_sequence<int, kRows * Made::kOfRow>;
  std::size_t start;

  template <class Body>
  TFAOT_INLINE Made each(Body body) const {
    return each(body, Vectors{});
  }
  template <class Combine, class Body>
  TFAOT_INLINE Vector reduced(float first, Body body) const {
    return Combine{}(filled(first), reduced<Combine>(body, Vectors{}));
  }
  template <class Body>
  TFAOT_INLINE Made softmax(Body body) const {
    return softmaxOf(*this, body);
  }
  template <class Body>
  TFAOT_INLINE auto numbers(Body body) const {
    return body(PartOfVector{start, kRows});
  }
  TFAOT_INLINE void store(float* to, Vector numbers) const { storeFirst(to + start, kRows, numbers); }
  TFAOT_INLINE void store(bool* to, Mask numbers) const { PartOfVector{start, kRows}.store(to, numbers); }
  TFAOT_INLINE void store(float* to, const Made& made) const { store(to, made, Vectors{}); }

 private:
  template <class Body, int... kVector>
  TFAOT_INLINE Made each(Body body, std::integer_sequence<int, kVector...>) const {
    return {{body(VectorOfLongRows<kSize, kRows, kVector>{start})...}};
  }
  template <class Combine, class Body, int... kVector>
  TFAOT_INLINE Vector reduced(Body body, std::integer_sequence<int, kVector...>) const {
    const Vector values[] = {padded<Combine>(VectorOfLongRows<kSize, kRows, kVector>{start}, body)...};
    Vector rows[kRows];
    TFAOT_UNROLL
    for (int row = 0; row < kRows; ++row) rows[row] = ofRow<Combine, 0, 1>(values + row * Made::kOfRow);
    return together<Combine, kRows, kLanes>(rows);
  }
  template <class Combine, class Place, class Body>
  static TFAOT_INLINE Vector padded(Place at, Body body) {
    return at.padded(body(at), Combine::kStart);
  }
  /// Vectors kFirst, kFirst + kStep, ... of a row combined in the tree of `reduced`. Where the row has none, the tree has the
  /// start value, which changes nothing.
  template <class Combine, int kFirst, int kStep>
  static TFAOT_INLINE Vector ofRow(const Vector* values) {
    Vector found = values[kFirst];
    if constexpr (kStep == kPartialVectors) {
      TFAOT_UNROLL
      for (int v = kFirst + kStep; v < Made::kOfRow; v += kStep) found = Combine{}(found, values[v]);
    } else {
      found = ofRow<Combine, kFirst, 2 * kStep>(values);
      if constexpr (kFirst + kStep < Made::kOfRow) found = Combine{}(found, ofRow<Combine, kFirst + kStep, 2 * kStep>(values));
    }
    return found;
  }
  /// The lanes of each row combined, of which kCount vectors have kGroup for each row.
  template <class Combine, int kCount, int kGroup>
  static TFAOT_INLINE Vector together(Vector (&rows)[kRows]) {
    if constexpr (kRows == 1) {
      return reduceGroups<kLanes>(rows[0], Combine{});
    } else if constexpr (kGroup == 1) {
      return rows[0];
    } else {
      TFAOT_UNROLL
      for (int v = 0; v < kCount; v += 2) {
        const Vector a = rows[v], b = rows[kCount == 1 ? v : v + 1];
        rows[v / 2] = Combine{}(halvesOfGroups<kGroup, 0>(a, b), halvesOfGroups<kGroup, 1>(a, b));
      }
      return together<Combine, (kCount + 1) / 2, kGroup / 2>(rows);
    }
  }
  template <int... kVector>
  TFAOT_INLINE void store(float* to, const Made& made, std::integer_sequence<int, kVector...>) const {
    (VectorOfLongRows<kSize, kRows, kVector>{start}.store(to, made.values[kVector]), ...);
  }
};

inline constexpr std::size_t kAlone = 2;  ///< rows that take longer in a tile that they do not fill than one by one

/// Calls `body` for tiles of `rows` rows of kSize elements, at most 8.
template <int kSize, class Body>
TFAOT_INLINE void eachTile(std::size_t rows, Body body) {
  std::size_t row = 0;
  for (; row + kLanes <= rows; row += kLanes) body(Tile<kSize, true>{row, kLanes});
  if constexpr (!isByColumns(kSize)) {
    if (rows - row <= kAlone) {
      for (; row < rows; ++row) body(TileOfLongRows<kSize, 1>{row});
      return;
    }
  }
  if (row < rows) body(Tile<kSize, false>{row, rows - row});
}

/// Rows of a tile: their steps overlap, and they share what is computed of numbers. With more rows code grows.
template <int kSize>
inline constexpr int kRowsOfTile = kLanes < 8 || kSize > 32 ? 4 : 8;

/// Calls `body` for tiles of `rows` rows of kSize elements. Too few rows for a tile are computed one by one, and the last tile
/// overlaps the one before: bodies do not read what they write.
template <int kSize, class Body>
TFAOT_INLINE void eachLongTile(std::size_t rows, Body body) {
  constexpr std::size_t kRows = kRowsOfTile<kSize>;
  if (rows < kRows) {
    for (std::size_t row = 0; row < rows; ++row) body(TileOfLongRows<kSize, 1>{row});
  } else {
    for (std::size_t row = 0; row < rows; row += kRows) {
      body(TileOfLongRows<kSize, kRowsOfTile<kSize>>{row + kRows <= rows ? row : rows - kRows});
    }
  }
}

inline constexpr std::size_t kMostInRegisters = 8 * kLanes;  ///< floats of a row

/// Whether rows of kSize floats, no power of two that fits a vector, are faster in tiles than one by one: if they fill less
/// than a vector, or end with a part of one that no mask stores. `softmax` of 12 rows in benchmarks/loops.py takes 0.08 of its
/// time for 3 floats, 0.22 for 7 and 0.42 for 10 (AVX-512), 0.5 for 10 and 20 (AVX2), both at batch 16.
template <int kSize>
inline constexpr bool kIsForTiles = kSize < kLanes || (!kHasMasks<float> && kSize % kLanes != 0);

template <int kSize>
TFAOT_ALONE void softmaxInTiles(std::size_t rows, const float* in, float* out) {
  const auto ofTile = [&](const auto tile) __attribute__((always_inline)) {
    tile.store(out, tile.softmax([&](auto at) { return at.load(in, Apart<kSize, 1>{}); }));
  };
  if constexpr (kSize <= 8) {
    eachTile<kSize>(rows, ofTile);
  } else {
    eachLongTile<kSize>(rows, ofTile);
  }
}

/// The softmax of rows of kSize floats. If there are many (`kMany`), as in attention, by code for this size (3 to 7 KB). The
/// bits are the same.
template <std::size_t kSize, bool kMany = true>
TFAOT_INLINE void softmax(std::size_t rows, const float* in, float* out) {
  constexpr int kOfRow = static_cast<int>(kSize);
  if constexpr (kSize <= kLanes && (kSize & (kSize - 1)) == 0) {
    softmaxShort<kOfRow>(rows, in, out);
  } else if constexpr (kMany && kSize <= kMostInRegisters) {
    if constexpr (kIsForTiles<kOfRow>) {
      softmaxInTiles<kOfRow>(rows, in, out);
    } else {
      softmaxInRegisters<kOfRow>(rows, in, out);
    }
  } else {
    softmaxLong(rows, kSize, in, out);
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_LONGROWS_H_
