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

  /// The same in a window that is inside.
  const float* tapInside(const Window& window, std::size_t y, std::size_t x) const {
    return corner(window) + (y * window.dilationHeight * window.inWidth + x * window.dilationWidth) * window.channels;
  }

 private:
  const float* image_;
  std::size_t top_, left_;
  std::size_t row_ = 0, column_ = 0;
};

/// Combines each window's values by `combine`, beginning with `first`; `last` makes the result of that and the count.
template <class Combine, class Last>
TFAOT_INLINE void pool(const Window& window, std::size_t batch, const float* in, float* out, float first,
                       Combine combine, Last last) {
  Place place(window, in);
  const std::size_t places = batch * window.outHeight * window.outWidth;
  for (std::size_t i = 0; i < places; ++i, out += window.channels, place.advance(window)) {
    for (std::size_t c = 0; c < window.channels; ++c) out[c] = first;
    std::size_t count = 0;
    for (std::size_t y = 0; y < window.height; ++y) {
      for (std::size_t x = 0; x < window.width; ++x) {
        const float* tap = place.tap(window, y, x);
        if (tap == nullptr) continue;
        ++count;
        std::size_t c = 0;
        for (; c + kLanes <= window.channels; c += kLanes) store(out + c, combine(load(out + c), load(tap + c)));
        for (; c < window.channels; ++c) out[c] = combine(out[c], tap[c]);
      }
    }
    last(out, count);
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_WINDOWS_H_
