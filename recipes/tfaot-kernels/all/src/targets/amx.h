// amx.h: AMX, which CPUs of x86-64-v4 may have: registers of 16 rows of 64 bytes ("tiles"), and products of them.
//
// A process may use them after Linux has permitted it (arch_prctl), which libraries do not ask for: whoever calls them does,
// and tells them (`permit` in permissions.h). By assembler, as all instructions beyond a level: GCC's intrinsics are
// assembler as well, and those of Clang would need functions for a CPU of their own. Compilers use no tiles by themselves.
#ifndef TFAOT_KERNELS_TARGETS_AMX_H_
#define TFAOT_KERNELS_TARGETS_AMX_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "features.h"

#include "../permissions.h"
#include "../vector_types.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The operand of LDTILECFG.
struct alignas(64) TileShapes {
  static constexpr int kMost = 8;

  std::uint8_t palette = 1;
  std::uint8_t startRow = 0;
  std::uint8_t unused[14] = {};
  std::uint16_t bytes[16] = {};  ///< of a row of each tile
  std::uint8_t rows[16] = {};

  void set(int tile, std::size_t itsRows, std::size_t bytesOfRow) {
    rows[tile] = static_cast<std::uint8_t>(itsRows);
    bytes[tile] = static_cast<std::uint16_t>(bytesOfRow);
  }
};

template <>
struct TilesOf<Integers> {
  static constexpr bool kMayExist = TFAOT_KNOWS_AMX;
  using Shapes = TileShapes;

  /// Which of `Permission` this CPU can use, if the operating system saves tiles at all (XCR0).
  static std::uint32_t known() {
    std::uint32_t low, high;
    asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    constexpr std::uint32_t kSaved = 3u << 17;
    if ((low & kSaved) != kSaved || !hasFeature<0, Register::kEdx, 24>()) return 0;
    std::uint32_t found = 0;
    if (hasFeature<0, Register::kEdx, 25>()) found |= kTilesOfBytes;
    // AVX512-BF16, which all such CPUs have, rounds the inputs.
    if (hasFeature<0, Register::kEdx, 22>() && hasFeature<1, Register::kEax, 5>()) found |= kTilesOfBfloat16;
    return found;
  }

  /// Zeros in all tiles, which have these shapes until `release`.
  static TFAOT_INLINE void configure(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
  /// Threads that have released their tiles are switched as fast as others.
  static TFAOT_INLINE void release() { asm volatile("tilerelease"); }

  /// Rows lie `stride` bytes apart.
  template <int kTile>
  static TFAOT_INLINE void load(const void* from, std::size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  static TFAOT_INLINE void store(void* to, std::size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  static TFAOT_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  /// Numbers as bfloat16: to nearest, half to even, and zero below 2^-56; of parts before the last one, if they would be infinite or
  /// NaN as well. AVX512-BF16 rounds as bfloat16.h says, NaN and infinities too.
  template <bool kIsLastPart>
  static TFAOT_INLINE __m256i rounded(Vector numbers) {
    constexpr __mmask16 kAll = 0xffff;
    // The bits of 2^-56 and of the least number that would become infinite, without their signs.
    constexpr unsigned kLeast = 0x47000000, kInfinite = 0xfeff0000;
    const __m512i bits = reinterpret_cast<__m512i>(numbers), sizes = _mm512_maskz_add_epi32(kAll, bits, bits);
    const __m512i above = _mm512_maskz_sub_epi32(kAll, sizes, byCode(kLeast));
    const __mmask16 isKept = kIsLastPart ? _mm512_cmp_epu32_mask(sizes, byCode(kLeast), _MM_CMPINT_NLT)
                                         : _mm512_cmp_epu32_mask(above, byCode(kInfinite - kLeast), _MM_CMPINT_LT);
    __m256i made;
    asm("vcvtneps2bf16 %1, %0%{%2%}%{z%}" : "=v"(made) : "v"(numbers), "Yk"(isKept));
    return made;
  }
  static TFAOT_INLINE Vector asFloats(__m256i rounded) {
    constexpr __mmask16 kAll = 0xffff;
    return reinterpret_cast<Vector>(_mm512_maskz_slli_epi32(kAll, _mm512_maskz_cvtepu16_epi32(kAll, rounded), 16));
  }
  static TFAOT_INLINE void put(__m256i rounded, std::uint16_t* to) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), rounded); }
  static TFAOT_INLINE void put(__m256i rounded, std::size_t count, std::uint16_t* to) {
    _mm256_mask_storeu_epi16(to, static_cast<__mmask16>((1u << count) - 1u), rounded);
  }
  /// To each sum of a tile of float32 the products of a row with a column of bfloat16, two of which are side by side.
  template <int kSums, int kRows, int kColumns>
  static TFAOT_INLINE void addPairs() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kColumns));
  }
  /// To each sum of a tile of int32 the products of a row of uint8 with a column of int8, four of which are side by side, modulo
  /// 2^32.
  template <int kSums, int kRows, int kColumns>
  static TFAOT_INLINE void addDots() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kColumns));
  }

 private:
  /// As broadcastByCode.
  static TFAOT_INLINE __m512i byCode(unsigned number) {
    TFAOT_OPAQUE_TO_GCC("+r", number);
    TFAOT_OPAQUE_TO_CLANG("+r", number);
    return _mm512_set1_epi32(static_cast<int>(number));
  }
};

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TARGETS_AMX_H_
