// tfaot/aligned_bytes.h: memory that compiled code can use in place.
#ifndef TFAOT_ALIGNED_BYTES_H_
#define TFAOT_ALIGNED_BYTES_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <cstddef>
#include <new>
#include <utility>

#include <tfaot/macros_on.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {
namespace detail {

/// Bytes at an alignment; grows, never shrinks.
class AlignedBytes {
 public:
  AlignedBytes() noexcept = default;
  AlignedBytes(AlignedBytes&& other) noexcept { swap(other); }
  AlignedBytes& operator=(AlignedBytes&& other) noexcept {
    swap(other);
    return *this;
  }
  ~AlignedBytes() { release(); }

  /// At least `size` bytes; the former content is lost if they have to be reallocated.
  std::byte* reserve(std::size_t size, std::size_t alignment) {
    if (size > size_) {
      release();
      data_ = static_cast<std::byte*>(::operator new(size, std::align_val_t{alignment}));
      size_ = size;
      alignment_ = alignment;
    }
    return data_;
  }

  std::size_t size() const noexcept { return size_; }

 private:
  void swap(AlignedBytes& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(alignment_, other.alignment_);
  }
  void release() noexcept {
    if (data_ != nullptr) ::operator delete(data_, std::align_val_t{alignment_});
    data_ = nullptr;
    size_ = 0;
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t alignment_ = 1;
};

}  // namespace detail
}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_ALIGNED_BYTES_H_
