// rows.h: loops over rows that fill a part of a vector: several rows go into one.
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

/// As many whole rows of kSize elements as fit into a vector, the first of them row `start`: whole vectors of rows, or the
/// last `rows` ones.
template <int kSize, bool kIsWhole>
struct RowsOfVector {
  static constexpr int kMost = kLanes / kSize;
  std::size_t start, rows;

  template <class Element>
  TFAOT_INLINE auto fill(Element x) const {
    return filled(x);
  }
  template <int kRow, int kColumn>
  TFAOT_INLINE Vector load(const float* from, Apart<kRow, kColumn>) const {
    constexpr int kWidth = kColumn == 0 ? 1 : kSize;
    const std::size_t number = kIsWhole ? kMost : rows;
    if constexpr ((kMost - 1) * kRow + kWidth > kMost * kLanes) return rowByRow<kRow, kWidth>(from + start * kRow, Vector{});
    return gathered<kRow, kColumn, 0, kRow == 0 ? kWidth : (kMost - 1) * kRow + kWidth>(
        from + start * kRow, kRow == 0 ? kWidth : (number - 1) * kRow + kWidth, Vector{});
  }
  template <int kRow, int kColumn>
  TFAOT_INLINE Integers load(const std::int32_t* from, Apart<kRow, kColumn> apart) const {
    return bitsAs<Integers>(load(reinterpret_cast<const float*>(from), apart));
  }
  /// A number that is the same for all elements.
  TFAOT_INLINE Integers count(std::int32_t number, std::int32_t) const { return filled(number); }
  TFAOT_INLINE void store(float* to, Vector value) const {
    if constexpr (kIsWhole && kMost * kSize == kLanes) {
      tfaot_kernels::store(to + start * kSize, value);
    } else {
      storeFirst(to + start * kSize, (kIsWhole ? kMost : rows) * kSize, value);
    }
  }
  TFAOT_INLINE void store(std::int32_t* to, Integers value) const { store(reinterpret_cast<float*>(to), bitsAs<Vector>(value)); }

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
      found = mixed<kRow, kColumn, kVector>(found, next, std::make_integer_sequence<int, kLanes>{});
      return gathered<kRow, kColumn, kVector + 1, kSpan>(from + (left < kLanes ? 0 : kLanes), left < kLanes ? 0 : left - kLanes, found);
    }
    return found;
  }
  /// The same where rows lie so far apart that each has a load of its own.
  template <int kRow, int kWidth, int kNumber = 0>
  TFAOT_INLINE Vector rowByRow(const float* from, Vector found) const {
    if constexpr (kNumber < kMost) {
      if (!kIsWhole && kNumber >= rows) return found;
#if defined(TFAOT_AVX512)
      constexpr auto kLanesOfRow = static_cast<__mmask16>(((1u << kSize) - 1u) << (kNumber * kSize));
      if constexpr (kWidth == 1) {
        found = _mm512_mask_mov_ps(found, kLanesOfRow, broadcast(from[kNumber * kRow]));
      } else {
        found = _mm512_mask_loadu_ps(found, kLanesOfRow, from + kNumber * (kRow - kSize));
      }
#else
      const Vector row = kWidth == 1 ? broadcast(from[kNumber * kRow]) : loadFirst(from + kNumber * kRow, kWidth);
      found = withRow<kNumber>(found, row, std::make_integer_sequence<int, kLanes>{});
#endif
      return rowByRow<kRow, kWidth, kNumber + 1>(from, found);
    }
    return found;
  }
  template <int kNumber, int... kLane>
  static TFAOT_INLINE Vector withRow(Vector found, Vector row, std::integer_sequence<int, kLane...>) {
    constexpr auto from = [](int lane) { return lane / kSize == kNumber ? kLanes + lane % kSize : lane; };
#if defined(__clang__)
    return __builtin_shufflevector(found, row, from(kLane)...);
#else
    return __builtin_shuffle(found, row, Mask{from(kLane)...});
#endif
  }
  template <int kRow, int kColumn, int kVector, int... kLane>
  static TFAOT_INLINE Vector mixed(Vector found, Vector next, std::integer_sequence<int, kLane...>) {
    constexpr auto from = [](int lane) {
      const int element = lane < kMost * kSize ? lane / kSize * kRow + lane % kSize * kColumn : 0;
      return element / kLanes == kVector ? kLanes + element % kLanes : lane;
    };
#if defined(__clang__)
    return __builtin_shufflevector(found, next, from(kLane)...);
#else
    return __builtin_shuffle(found, next, Mask{from(kLane)...});
#endif
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
  TFAOT_INLINE Integers count(std::int32_t number, std::int32_t) const { return filled(number); }
  template <class Element, class Values>
  TFAOT_INLINE void store(Element* to, Values value) const {
    place.store(to + row * kSize, value);
  }
};

/// Calls `body` for all elements of `rows` rows of kSize elements.
template <int kSize, class Body>
TFAOT_INLINE void eachOfRows(std::size_t rows, Body body) {
  if constexpr (kLanes / kSize < 2) {
    for (std::size_t row = 0; row < rows; ++row) {
      each(kSize, [&](auto place) { body(InRow<kSize, decltype(place)>{place, row}); });
    }
  } else {
    constexpr std::size_t kMost = kLanes / kSize;
    std::size_t row = 0;
    for (; row + kMost <= rows; row += kMost) body(RowsOfVector<kSize, true>{row, kMost});
    if (row < rows) body(RowsOfVector<kSize, false>{row, rows - row});
  }
}

/// As `maxPool` (kernels.h), for kChannels channels and windows that begin kStep floats apart, without padding at the
/// left and the right.
template <int kChannels, int kStep>
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
            most = larger(at.load(seen, Apart<kStep, 1>{}), most);
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
