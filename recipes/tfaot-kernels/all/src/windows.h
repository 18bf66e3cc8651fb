// windows.h: a window's way over NHWC arrays, and pooling.
#ifndef TFAOT_KERNELS_WINDOWS_H_
#define TFAOT_KERNELS_WINDOWS_H_

#include "vectors.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The window at one output position. Coordinates of the input wrap around below zero, which is outside as well.
class Place {
 public:
  Place(const Window& window, const float* image)
      : image_(image), top_(std::size_t{0} - window.padTop), left_(std::size_t{0} - window.padLeft) {}

  /// To the next output position: along the row, then down, then into the next image.
  void advance(const Window& window) {
    left_ += window.strideWidth;
    if (++column_ < window.outWidth) return;
    column_ = 0;
    left_ = std::size_t{0} - window.padLeft;
    top_ += window.strideHeight;
    if (++row_ < window.outHeight) return;
    row_ = 0;
    top_ = std::size_t{0} - window.padTop;
    image_ += window.inHeight * window.inWidth * window.channels;
  }

  /// Whether no part of the window is padding.
  bool isInside(const Window& window) const {
    const std::size_t bottom = top_ + (window.height - 1) * window.dilationHeight;
    const std::size_t right = left_ + (window.width - 1) * window.dilationWidth;
    return top_ < window.inHeight && bottom < window.inHeight && left_ < window.inWidth && right < window.inWidth;
  }

  /// The first input of a window that is inside.
  const float* corner(const Window& window) const {
    return image_ + (top_ * window.inWidth + left_) * window.channels;
  }

  /// The channels below the kernel's element (y, x), or null for padding.
  const float* tap(const Window& window, std::size_t y, std::size_t x) const {
    const std::size_t row = top_ + y * window.dilationHeight;
    const std::size_t column = left_ + x * window.dilationWidth;
    if (row >= window.inHeight || column >= window.inWidth) return nullptr;
    return image_ + (row * window.inWidth + column) * window.channels;
  }

 private:
  const float* image_;
  std::size_t top_, left_;
  std::size_t row_ = 0, column_ = 0;
};

/// Calls visit(tap) for the input below each element of the kernel, in order, with null for padding.
template <class Visit>
TFAOT_INLINE void visitTaps(const Window& window, const Place& place, Visit visit) {
  if (!place.isInside(window)) {
    for (std::size_t y = 0; y < window.height; ++y) {
      for (std::size_t x = 0; x < window.width; ++x) visit(place.tap(window, y, x));
    }
    return;
  }
  const float* row = place.corner(window);
  for (std::size_t y = 0; y < window.height; ++y, row += window.dilationHeight * window.inWidth * window.channels) {
    const float* tap = row;
    for (std::size_t x = 0; x < window.width; ++x, tap += window.dilationWidth * window.channels) visit(tap);
  }
}

/// Channels that are held in registers while a window's elements pass, and vectors of these.
inline constexpr std::size_t kChannelsAtATime = 2 * kPanel;
inline constexpr int kChannelVectors = 2 * kVectors;

/// Combines each window's values, padding left out, by `combine`, beginning with `first`; last(out, count) makes the
/// result of that and of the number of values.
template <class Combine, class Last>
TFAOT_INLINE void pool(const Window& window, std::size_t batch, const float* in, float* out, float first,
                       Combine combine, Last last) {
  Place place(window, in);
  const std::size_t places = batch * window.outHeight * window.outWidth;
  for (std::size_t i = 0; i < places; ++i, out += window.channels, place.advance(window)) {
    std::size_t channel = 0;
    for (; channel + kChannelsAtATime <= window.channels; channel += kChannelsAtATime) {
      Vector values[kChannelVectors];
      TFAOT_UNROLL
      for (int v = 0; v < kChannelVectors; ++v) values[v] = broadcast(first);
      visitTaps(window, place, [&](const float* tap) {
        if (tap == nullptr) return;
        TFAOT_UNROLL
        for (int v = 0; v < kChannelVectors; ++v) values[v] = combine(values[v], load(tap + channel + v * kLanes));
      });
      TFAOT_UNROLL
      for (int v = 0; v < kChannelVectors; ++v) store(out + channel + v * kLanes, values[v]);
    }
    std::size_t count = 0;
    for (std::size_t c = channel; c < window.channels; ++c) out[c] = first;
    visitTaps(window, place, [&](const float* tap) {
      if (tap == nullptr) return;
      ++count;
      for (std::size_t c = channel; c < window.channels; ++c) out[c] = combine(out[c], tap[c]);
    });
    last(out, count);
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_WINDOWS_H_
