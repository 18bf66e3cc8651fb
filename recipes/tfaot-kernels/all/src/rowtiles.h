// rowtiles.h: several steps over the same short rows, with as many rows as a vector has lanes in registers.
#ifndef TFAOT_KERNELS_ROWTILES_H_
#define TFAOT_KERNELS_ROWTILES_H_

#include "rows.h"
#include "tiles.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The lanes of a row of `size` elements: the next power of two, of which a vector has a whole number or the reverse.
constexpr int widthOf(int size) {
  int width = 1;
  while (width < size) width *= 2;
  return width;
}

/// The vectors of kLanes rows: one for each column of few columns, else rows that begin widthOf(kSize) lanes apart.
constexpr bool isByColumns(int size) { return size <= 4; }
constexpr int vectorsOfTile(int size) { return isByColumns(size) ? size : widthOf(size); }
template <int kSize>
struct TileRows {
  Vector values[vectorsOfTile(kSize)];
};

/// Column kColumn of the kLanes rows from `start` on, the first `rows` of which exist.
template <int kSize, bool kIsWhole, int kColumn>
struct ColumnOfTile {
  std::size_t start, rows;

  template <class Element>
  TFAOT_INLINE auto fill(Element x) const {
    return filled(x);
  }
  TFAOT_INLINE Vector load(const TileRows<kSize>& made) const { return made.values[kColumn]; }
  template <class Values>
  TFAOT_INLINE Values load(Values numbers) const {
    return numbers;
  }
  TFAOT_INLINE Vector load(const float* from, Apart<1, 0>) const { return every(from, 1); }
  TFAOT_INLINE Vector load(const float* from, Apart<kSize, 1>) const { return every(from + kColumn, kSize); }
  TFAOT_INLINE Vector load(const float* from, Apart<0, 1>) const { return filled(from[kColumn]); }

 private:
  TFAOT_INLINE Vector every(const float* from, std::ptrdiff_t step) const {
    if constexpr (kIsWhole) {
      return WholeVector{start}.load(from, step);
    } else {
      return PartOfVector{start, rows}.load(from, step);
    }
  }
};

/// Vector kVector of the kLanes rows from `start` on, the first `rows` of which exist; other lanes hold anything.
template <int kSize, bool kIsWhole, int kVector>
struct VectorOfTile {
  static constexpr int kWidth = widthOf(kSize);
  static constexpr int kMost = kWidth < kLanes ? kLanes / kWidth : 1;  ///< whole rows in a vector
  static constexpr int kFirst = kVector * kLanes / kWidth;             ///< the row of the first lane
  static constexpr int kColumn = kVector * kLanes % kWidth;            ///< its column
  /// Elements of a row that are here.
  static constexpr int kHere = kSize - kColumn < kLanes ? kSize - kColumn : kLanes;
  /// Elements from the first to the last one in memory.
  static constexpr int kSpan = (kMost - 1) * kSize + kHere;
  /// Whether a whole vector can be loaded and stored: behind it are elements of the next one, which is stored later.
  static constexpr bool kFills = kIsWhole && (kSpan == kLanes || kVector + 1 < kWidth);
  std::size_t start, rows;

  template <class Element>
  TFAOT_INLINE auto fill(Element x) const {
    return filled(x);
  }
  TFAOT_INLINE Vector load(const TileRows<kSize>& made) const { return made.values[kVector]; }
  /// A number for each row.
  template <class Values>
  TFAOT_INLINE Values load(Values numbers) const {
    return permuted(numbers, numbers, [](int lane) { return kFirst + lane / kWidth; });
  }
  TFAOT_INLINE Vector load(const float* from, Apart<1, 0>) const {
    return load(kIsWhole ? tfaot_kernels::load(from + start) : loadFirst(from + start, rows));
  }
  /// The rows side by side, or one that is the same for all.
  template <int kRow>
  TFAOT_INLINE Vector load(const float* from, Apart<kRow, 1>) const {
    static_assert(kRow == kSize || kRow == 0);
    const float* const first = from + (start + kFirst) * kRow + kColumn;
    Vector found;
    if constexpr (kRow == 0) {
      found = loadFirst(first, kHere);
    } else if constexpr (kFills) {
      found = tfaot_kernels::load(first);
    } else {
      found = loadFirst(first, present());
    }
    if constexpr (kMost == 1) return found;
    return permuted(found, [](int lane) { return lane / kWidth * kRow + (lane % kWidth < kSize ? lane % kWidth : 0); });
  }
  TFAOT_INLINE void store(float* to, Vector value) const {
    float* const first = to + (start + kFirst) * kSize + kColumn;
    if constexpr (kMost > 1 && kSize < kWidth) {
      value = permuted(value, [](int lane) { return lane / kSize < kMost ? lane / kSize * kWidth + lane % kSize : 0; });
    }
    if constexpr (kFills) return tfaot_kernels::store(first, value);
    if (kIsWhole || present() > 0) storeFirst(first, present(), value);
  }
  /// The value with `behind` in lanes that belong to no element.
  TFAOT_INLINE Vector padded(Vector value, float behind) const {
    if constexpr (kSize == kWidth || kHere == kLanes) return value;
    const Mask isElement = perLane([](int lane) { return -static_cast<std::int32_t>(kColumn + lane % kWidth < kSize); });
    return chosen(isElement, value, filled(behind));
  }

 private:
  /// The elements in memory that exist.
  TFAOT_INLINE std::size_t present() const {
    if (kIsWhole || rows >= kFirst + kMost) return kSpan;
    return rows <= kFirst ? 0 : (rows - kFirst - 1) * kSize + kHere;
  }
};

/// Half kHalf of each group of kWidth lanes of `a` and `b`, side by side, those of `a` first.
template <int kWidth, int kHalf>
TFAOT_INLINE Vector halvesOfGroups(Vector a, Vector b) {
  return permuted(a, b, [](int lane) {
    const int group = lane / (kWidth / 2), groups = kLanes / kWidth;
    return (group < groups ? 0 : kLanes) + group % groups * kWidth + kHalf * (kWidth / 2) + lane % (kWidth / 2);
  });
}

struct TakingLargestNumber : Largest {
  static constexpr float kStart = kLowest;
};

/// The softmax of each row of a tile, of what `body` gives, with the bits of softmax.h.
template <class Tile, class Body>
TFAOT_INLINE auto softmaxOf(const Tile& tile, Body body) {
  const auto x = tile.each(body);
  const auto most = tile.template reduced<TakingLargestNumber>(kLowest, [&](auto at) { return at.load(x); });
  const auto e = tile.each([&](auto at) { return exponentialOfNegative(at.load(x) - at.load(most)); });
  const auto sum = tile.template reduced<Adding>(Adding::kStart, [&](auto at) { return at.load(e); });
  const Vector inverse = 1.0f / sum;
  return tile.each([&](auto at) { return at.load(e) * at.load(inverse); });
}

/// kLanes rows from `start` on, the first `rows` of which exist.
template <int kSize, bool kIsWhole>
struct Tile {
  static constexpr int kWidth = widthOf(kSize);
  static constexpr int kVectors = vectorsOfTile(kSize);
  template <int kVector>
  using Place = std::conditional_t<isByColumns(kSize), ColumnOfTile<kSize, kIsWhole, kVector>, VectorOfTile<kSize, kIsWhole, kVector>>;
  std::size_t start, rows;

  /// What `body` gives for each vector.
  template <class Body>
  TFAOT_INLINE TileRows<kSize> each(Body body) const {
    return each(body, std::make_integer_sequence<int, kVectors>{});
  }
  /// The elements of each row combined after `first`, in the tree of `reduced`: a number for each row.
  template <class Combine, class Body>
  TFAOT_INLINE Vector reduced(float first, Body body) const {
    if constexpr (isByColumns(kSize)) {
      const TileRows<kSize> made = each(body);
      return Combine{}(filled(first), reducedOfFew<Combine, kSize>([&](auto column) { return made.values[column]; }));
    } else {
      return Combine{}(filled(first), reduced<Combine>(body, std::make_integer_sequence<int, kVectors>{}));
    }
  }
  template <class Body>
  TFAOT_INLINE TileRows<kSize> softmax(Body body) const {
    return softmaxOf(*this, body);
  }
  /// What `body` gives for a number of each row.
  template <class Body>
  TFAOT_INLINE auto numbers(Body body) const {
    if constexpr (kIsWhole) {
      return body(WholeVector{start});
    } else {
      return body(PartOfVector{start, rows});
    }
  }
  TFAOT_INLINE void store(float* to, Vector value) const {
    if constexpr (kIsWhole) {
      tfaot_kernels::store(to + start, value);
    } else {
      storeFirst(to + start, rows, value);
    }
  }
  TFAOT_INLINE void store(bool* to, Mask numbers) const {
    if constexpr (kIsWhole) {
      WholeVector{start}.store(to, numbers);
    } else {
      PartOfVector{start, rows}.store(to, numbers);
    }
  }
  TFAOT_INLINE void store(float* to, const TileRows<kSize>& made) const {
    if constexpr (isByColumns(kSize)) {
      storeInterleaved<kSize>(made.values, kSize * (kIsWhole ? kLanes : rows), to + start * kSize);
    } else {
      store(to, made, std::make_integer_sequence<int, kVectors>{});
    }
  }

 private:
  template <class Body, int... kVector>
  TFAOT_INLINE TileRows<kSize> each(Body body, std::integer_sequence<int, kVector...>) const {
    return {{body(Place<kVector>{start, rows})...}};
  }
  template <class Combine, class Body, int... kVector>
  TFAOT_INLINE Vector reduced(Body body, std::integer_sequence<int, kVector...>) const {
    Vector values[] = {padded<Combine>(Place<kVector>{start, rows}, body)...};
    return combined<Combine, kWidth, kWidth>(values);
  }
  template <class Combine, class Place, class Body>
  static TFAOT_INLINE Vector padded(Place at, Body body) {
    return at.padded(body(at), Combine::kStart);
  }
  /// Of kCount vectors, whose rows have kHere lanes.
  template <class Combine, int kHere, int kCount>
  static TFAOT_INLINE Vector combined(Vector (&values)[kWidth]) {
    if constexpr (kCount > 1) {
      TFAOT_UNROLL
      for (int v = 0; v < kCount / 2; ++v) {
        const Vector a = values[2 * v], b = values[2 * v + 1];
        if constexpr (kHere > kLanes) {
          values[v] = Combine{}(a, b);
        } else {
          values[v] = Combine{}(halvesOfGroups<kHere, 0>(a, b), halvesOfGroups<kHere, 1>(a, b));
        }
      }
      return combined<Combine, kHere / 2, kCount / 2>(values);
    }
    return values[0];
  }
  template <int... kVector>
  TFAOT_INLINE void store(float* to, const TileRows<kSize>& made, std::integer_sequence<int, kVector...>) const {
    (VectorOfTile<kSize, kIsWhole, kVector>{start, rows}.store(to, made.values[kVector]), ...);
  }
};

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_ROWTILES_H_
