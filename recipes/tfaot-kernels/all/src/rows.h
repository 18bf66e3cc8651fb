// rows.h: loops over rows that fill a part of a vector, or whole vectors and a part: the parts of several rows go into one.
#ifndef TFAOT_KERNELS_ROWS_H_
#define TFAOT_KERNELS_ROWS_H_

#include <algorithm>
#include <limits>

#include "elementwise.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Where element (row, column) is: kRow elements further for each row, and kColumn, 0 or 1, for each column.
template <int kRow, int kColumn>
struct Apart {};

/// A row of kSize elements that is the same for all rows of a loop: it is loaded once, before the loop.
template <int kSize, class Element>
struct SameRow {
  const Element* from;
  Vector loaded = {};

  TFAOT_INLINE explicit SameRow(const Element* row) : from(row) {
    if constexpr (kLanes / kSize >= 2) {
      const Vector one = loadFirst(reinterpret_cast<const float*>(row), kSize);
      loaded = permuted(one, [](int lane) { return lane % kSize; });
    }
  }
};

/// As many whole rows of kSize elements as fit into a vector, the first of them row `start`: whole vectors of rows, or the
/// last `rows` ones.
template <int kSize, bool kIsWhole>
struct RowsOfVector {
  static constexpr int kMost = kLanes / kSize;
  /// With more elements from first to last, each row is loaded.
  static constexpr int kMostTogether = (kHasMasks<float> ? kMost - 1 : kMost) * kLanes;
  std::size_t start, rows;

  template <class Element>
  TFAOT_INLINE auto fill(Element x) const {
    return filled(x);
  }
  template <int kRow, int kColumn>
  TFAOT_INLINE Vector load(const float* from, Apart<kRow, kColumn>) const {
    constexpr int kWidth = kColumn == 0 ? 1 : kSize;
    const std::size_t number = kIsWhole ? kMost : rows;
    constexpr int kSpan = (kMost - 1) * kRow + kWidth;
    // "else", because `gathered` is a function for each vector of the span.
    if constexpr (kSpan > kMostTogether) {
      return rowByRow<kRow, kWidth>(from + start * kRow, Vector{});
    } else {
      return gathered<kRow, kColumn, 0, kSpan>(from + start * kRow, (number - 1) * kRow + kWidth, Vector{});
    }
  }
  template <class Element>
  TFAOT_INLINE auto load(const SameRow<kSize, Element>& row) const {
    return bitsAs<decltype(filled(Element{}))>(row.loaded);
  }
  template <int kRow, int kColumn>
  TFAOT_INLINE Integers load(const std::int32_t* from, Apart<kRow, kColumn> apart) const {
    return bitsAs<Integers>(load(reinterpret_cast<const float*>(from), apart));
  }
  /// A number that is the same for all elements.
  TFAOT_INLINE Integers count(std::int32_t number, std::int32_t) const { return filled(number); }
  /// first + row * r + column * c for element (r, c).
  TFAOT_INLINE Integers count(std::int32_t first, std::int32_t row, std::int32_t column) const {
    const Integers lanes = laneNumbers();
    return filled(first) + (filled(static_cast<std::int32_t>(start)) + lanes / kSize) * row + lanes % kSize * column;
  }
  TFAOT_INLINE void store(float* to, Vector value) const {
    if constexpr (kIsWhole && kMost * kSize == kLanes) {
      tfaot_kernels::store(to + start * kSize, value);
    } else {
      storeFirst(to + start * kSize, (kIsWhole ? kMost : rows) * kSize, value);
    }
  }
  TFAOT_INLINE void store(std::int32_t* to, Integers value) const { store(reinterpret_cast<float*>(to), bitsAs<Vector>(value)); }

  /// The elements of each row combined, in its first lane; the tree begins with pairs that lie kStep apart.
  template <class Combine, int kStep = 4>
  TFAOT_INLINE Vector combined(Vector x) const {
    if constexpr (kStep == 0) {
      return x;
    } else if constexpr (kStep >= kSize) {
      return combined<Combine, kStep / 2>(x);
    } else {
      const Vector later = permuted(x, filled(Combine::kStart), [](int lane) {
        return lane % kSize + kStep < kSize && lane + kStep < kLanes ? lane + kStep : kLanes + lane;
      });
      return combined<Combine, kStep / 2>(Combine{}(x, later));
    }
  }
  /// Stores the first element of each row; the results lie side by side.
  TFAOT_INLINE void storeFirsts(float* to, Vector value) const {
    const Vector firsts = permuted(value, [](int lane) { return lane < kMost ? lane * kSize : 0; });
    storeFirst(to + start, kIsWhole ? kMost : rows, firsts);
  }

 private:
  /// The lanes of `found`, and those of vector kVector, of the kSpan elements that all lanes see. `left` of them exist.
  template <int kRow, int kColumn, int kVector, int kSpan>
  static TFAOT_INLINE Vector gathered(const float* from, std::size_t left, Vector found) {
    if constexpr (kVector * kLanes < kSpan) {
      constexpr std::size_t kHere = kSpan - kVector * kLanes < kLanes ? kSpan - kVector * kLanes : kLanes;
      Vector next;
      if constexpr (kIsWhole && kHere == kLanes) {
        next = tfaot_kernels::load(from);
      } else {
        next = loadFirst(from, kIsWhole ? kHere : std::min<std::size_t>(left, kLanes));
      }
      // In the first vector both are the same, and lanes of later ones may hold anything.
      found = permuted(kVector == 0 ? next : found, next, [](int lane) {
        const int element = lane / kSize * kRow + lane % kSize * kColumn;
        return element / kLanes == kVector ? (kVector == 0 ? 0 : kLanes) + element % kLanes : lane;
      });
      return gathered<kRow, kColumn, kVector + 1, kSpan>(from + (left < kLanes ? 0 : kLanes), left < kLanes ? 0 : left - kLanes, found);
    }
    return found;
  }
  /// The same where rows lie so far apart that each has a load of its own.
  template <int kRow, int kWidth, int kNumber = 0>
  TFAOT_INLINE Vector rowByRow(const float* from, Vector found) const {
    if constexpr (kNumber < kMost) {
      if (!kIsWhole && kNumber >= rows) return found;
      if constexpr (kWidth == 1) {
        const Mask here = laneNumbers() >= kNumber * kSize;
        found = here ? broadcast(from[kNumber * kRow]) : found;
      } else {
        const Vector row = loadAtLeast<kWidth>(from + kNumber * kRow);
        found = kNumber == 0 ? row : permuted(found, row, [](int lane) { return lane / kSize == kNumber ? kLanes + lane % kSize : lane; });
      }
      return rowByRow<kRow, kWidth, kNumber + 1>(from, found);
    }
    return found;
  }
};

/// A part of row `row`, where vectors are too short for two of them.
template <int kSize, class Place>
struct InRow {
  Place place;
  std::size_t row;

  template <class Element>
  TFAOT_INLINE auto fill(Element x) const {
    return filled(x);
  }
  template <class Element, int kRow, int kColumn>
  TFAOT_INLINE auto load(const Element* from, Apart<kRow, kColumn>) const {
    if constexpr (kColumn == 0) {
      return filled(from[row * kRow]);
    } else {
      return place.load(from + row * kRow);
    }
  }
  template <class Element>
  TFAOT_INLINE auto load(const SameRow<kSize, Element>& same) const {
    return place.load(same.from);
  }
  TFAOT_INLINE Integers count(std::int32_t number, std::int32_t) const { return filled(number); }
  TFAOT_INLINE Integers count(std::int32_t first, std::int32_t step, std::int32_t column) const {
    return place.count(first + static_cast<std::int32_t>(row) * step, column);
  }
  template <class Element, class Values>
  TFAOT_INLINE void store(Element* to, Values value) const {
    place.store(to + row * kSize, value);
  }
  template <class Element, class Values, int kRow>
  TFAOT_INLINE void store(Element* to, Values value, Apart<kRow, 1>) const {
    place.store(to + row * kRow, value);
  }
};

/// Calls `body` for the elements of one row.
template <int kSize, class Body>
TFAOT_INLINE void eachOfRow(std::size_t row, Body body) {
  each<kSize>(kSize, [&](auto place) __attribute__((always_inline)) { body(InRow<kSize, decltype(place)>{place, row}); });
}

/// Calls `body` for all elements of `rows` rows of kSize elements.
template <int kSize, class Body>
TFAOT_INLINE void eachOfRows(std::size_t rows, Body body) {
  constexpr std::size_t kMost = kLanes / kSize;
  std::size_t row = 0;
  if constexpr (kMost >= 2) {
    for (; row + kMost <= rows; row += kMost) body(RowsOfVector<kSize, true>{row, kMost});
    // One row, as a batch often is, has a mask that is known.
    if constexpr (kMost > 2) {
      if (row + 1 < rows) return body(RowsOfVector<kSize, false>{row, rows - row});
    }
  }
  for (; row < rows; ++row) eachOfRow<kSize>(row, body);
}

/// The last kSize % kLanes elements, at most half a vector, of each of some rows of kSize elements.
template <int kSize>
struct TailsOfRows {
  static constexpr int kRest = kSize % kLanes, kBefore = kSize - kRest, kMost = kLanes / kRest;
  RowsOfVector<kRest, false> tails;

  template <class Element>
  TFAOT_INLINE auto fill(Element x) const {
    return filled(x);
  }
  template <class Element, int kRow, int kColumn>
  TFAOT_INLINE auto load(const Element* from, Apart<kRow, kColumn> apart) const {
    if constexpr (kHasMasks<float> && kRow > 0 && kColumn > 0) {
      const auto* const first = reinterpret_cast<const float*>(from + kBefore) + tails.start * kRow;
      return bitsAs<decltype(filled(Element{}))>(loadRows<kRow>(first, Vector{}));
    } else {
      return tails.load(from + kColumn * kBefore, apart);
    }
  }
  template <class Element>
  TFAOT_INLINE auto load(const SameRow<kSize, Element>& row) const {
    return tails.load(row.from + kBefore, Apart<0, 1>{});
  }
  template <class Element, class Values, int kRow = kSize>
  TFAOT_INLINE void store(Element* to, Values value, Apart<kRow, 1> = {}) const {
    storeRows<kRow>(reinterpret_cast<float*>(to + kBefore) + tails.start * kRow, bitsAs<Vector>(value));
  }

 private:
  /// The lanes of row kNumber, one bit each; none if it does not exist.
  template <int kNumber>
  TFAOT_INLINE std::uint32_t lanesOf() const {
    constexpr std::uint32_t kLanesOfRow = ((1u << kRest) - 1u) << (kNumber * kRest);
    return kNumber == 0 ? kLanesOfRow : kLanesOfRow & ((1u << tails.rows * kRest) - 1u);
  }
  template <int kRow, int kNumber = 0>
  TFAOT_INLINE Vector loadRows(const float* from, Vector found) const {
    if constexpr (kNumber < kMost) {
      if (endsAt<kNumber>()) return found;
      found = loadLanes(found, lanesOf<kNumber>(), from + kNumber * (kRow - kRest));
      return loadRows<kRow, kNumber + 1>(from, found);
    }
    return found;
  }
  template <int kRow, int kNumber = 0>
  TFAOT_INLINE void storeRows(float* to, [[maybe_unused]] Vector value) const {
    if constexpr (kNumber < kMost) {
      if (endsAt<kNumber>()) return;
      if constexpr (kHasMasks<float>) {
        storeLanes(to + kNumber * (kRow - kRest), lanesOf<kNumber>(), value);
      } else {
        const Vector first = permuted(value, [](int lane) { return (lane + kNumber * kRest) % kLanes; });
        storeFirst(to + kNumber * kRow, kRest, first);
      }
      storeRows<kRow, kNumber + 1>(to, value);
    }
  }
  /// Whether row kNumber and those after it do not exist. Masks leave them out, too, so only some numbers are compared: each
  /// comparison is as large as a load.
  template <int kNumber>
  TFAOT_INLINE bool endsAt() const {
    if (kHasMasks<float> && kNumber != 1 && kNumber % 4 != 0) return false;
    return kNumber > 0 && kNumber >= tails.rows;
  }
};

/// Calls `body` for all elements of `rows` rows of kSize elements: for whole vectors of each row, and for the last elements of
/// as many rows as fit into a vector. For bodies that take longer than to put such a vector together.
template <int kSize, class Body>
TFAOT_INLINE void eachWithTails(std::size_t rows, Body body) {
  constexpr std::size_t kRest = kSize % kLanes, kTogether = kRest == 0 ? 1 : kLanes / kRest;
  for (std::size_t row = 0; row < rows; row += kTogether) {
    const std::size_t number = std::min(kTogether, rows - row);
    for (std::size_t each = row; each < row + number; ++each) {
      for (std::size_t i = 0; i + kLanes <= kSize; i += kLanes) body(InRow<kSize, WholeVector>{WholeVector{i}, each});
    }
    if constexpr (kTogether > 1) {
      body(TailsOfRows<kSize>{{row, number}});
    } else if constexpr (kRest > 0) {
      body(InRow<kSize, PartOfVector>{PartOfVector{kSize - kRest, kRest}, row});
    }
  }
}

/// Combines the elements of each of `rows` rows of kSize floats, which `body` gives by place, in the tree of `reduced`,
/// after `start`. The results are written side by side.
template <class Combine, int kSize, class Body>
TFAOT_INLINE void reduceRows(std::size_t rows, float start, float* to, Body body) {
  constexpr std::size_t kMost = kLanes / kSize;
  std::size_t row = 0;
  if constexpr (kMost >= 2) {
    const auto together = [&](auto at) { at.storeFirsts(to, Combine{}(filled(start), at.template combined<Combine>(body(at)))); };
    for (; row + kMost <= rows; row += kMost) together(RowsOfVector<kSize, true>{row, kMost});
    if constexpr (kMost > 2) {
      if (row + 1 < rows) return together(RowsOfVector<kSize, false>{row, rows - row});
    }
  }
  for (; row < rows; ++row) {
    to[row] = Combine{}(start, reduced<Combine>(kSize, [&](auto place) { return body(InRow<kSize, decltype(place)>{place, row}); }));
  }
}

/// As `maxPool` (kernels.h), for kChannels channels and windows that begin kStep floats apart, without padding at the
/// left and the right.
template <int kChannels, int kStep, bool kKeepsNan = false>
inline void maxPoolOfFew(const Window& window, std::size_t batch, const float* in, float* out) {
  const std::size_t line = window.inWidth * kChannels;
  for (std::size_t image = 0; image < batch; ++image, in += window.inHeight * line) {
    for (std::size_t row = 0; row < window.outHeight; ++row, out += window.outWidth * kChannels) {
      eachOfRows<kChannels>(window.outWidth, [&](auto at) {
        Vector most = at.fill(-std::numeric_limits<float>::infinity());
        for (std::size_t y = 0; y < window.height; ++y) {
          const std::size_t place = row * window.strideHeight + y * window.dilationHeight - window.padTop;
          if (place >= window.inHeight) continue;  // unsigned: padding above, too
          for (std::size_t x = 0; x < window.width; ++x) {
            const float* const seen = in + place * line + x * window.dilationWidth * kChannels;
            most = kLargest<kKeepsNan>.combine(most, at.load(seen, Apart<kStep, 1>{}));
          }
        }
        at.store(out, most);
      });
    }
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_ROWS_H_
