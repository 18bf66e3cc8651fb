// Measures the limits of one core for `tfaot-pkg bench`, compiled for the level that is measured: limits ANSWERS
//
// Requests come on standard input, one per line; answers go to the file descriptor ANSWERS, one line of JSON each:
//
//     peak TYPE D      multiply-adds per second, the best of chunks for D nanoseconds: {"rate": ...}. TYPE is that of the
//                      factors: float32, float64, bfloat16 (sums of float32) or int8 (uint8 by int8, sums of int32), of
//                      which the last two take the CPU's best instructions that code for this level may choose
//     read N D         bytes per second when N bytes are read repeatedly, the best of chunks for D nanoseconds

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "chunks.h"

namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif
constexpr int kLanes = kBytes / 4;
constexpr int kSums = 12;  // two units with a latency of 4 to 5 cycles have up to 10 operations in flight
constexpr int kSteps = 1000;
constexpr int kStreams = 8;
constexpr std::int64_t kShortest = 100'000;  // nanoseconds

typedef float Vector __attribute__((vector_size(kBytes)));
typedef double Doubles __attribute__((vector_size(kBytes)));

volatile float seed = 0.5f;
volatile float sink;

template <class Run>
double best(Run run, std::int64_t duration) {
  std::int64_t runs = 1;
  std::vector<double> times;
  tfaot_bench::chunks([&] { run(); return true; }, kShortest, duration, &runs, &times);
  return *std::min_element(times.begin(), times.end());
}

template <class Lanes>
void multiplyAdds() {
  Lanes sums[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = Lanes{} + seed;
  const Lanes factor = Lanes{} + seed, term = Lanes{} + seed;
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = sums[i] * factor + term;
  }
  Lanes total = {};
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) total += sums[i];
  sink = static_cast<float>(total[0]);
}

// A loop, and how many multiply-adds it does.
struct Loop {
  void (*run)();
  double count;
};

constexpr Loop kFloats = {multiplyAdds<Vector>, static_cast<double>(kSteps) * kSums * kLanes};

#if defined(__AVX512F__) && (__GNUC__ >= 11 || __clang_major__ >= 12)
// Static where it is loaded, as compilers that see one word read remove stores to the others.
// Four tiles of sums, of two by two tiles of 16 rows with 64 bytes: 1,024 sums of four bytes or two bfloat16.
struct alignas(64) Tiles {
  unsigned char palette = 1, start = 0, reserved[14] = {};
  unsigned short bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  unsigned char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

#define TFAOT_TILES(NAME, TARGET, MULTIPLY)             \
  __attribute__((target(TARGET))) void NAME() {         \
    static const Tiles tiles;                           \
    _tile_loadconfig(&tiles);                           \
    _tile_zero(0);                                      \
    _tile_zero(1);                                      \
    _tile_zero(2);                                      \
    _tile_zero(3);                                      \
    _tile_zero(4);                                      \
    _tile_zero(5);                                      \
    _tile_zero(6);                                      \
    _tile_zero(7);                                      \
    for (int step = 0; step < kSteps; ++step) {         \
      MULTIPLY(0, 4, 6);                                \
      MULTIPLY(1, 4, 7);                                \
      MULTIPLY(2, 5, 6);                                \
      MULTIPLY(3, 5, 7);                                \
    }                                                   \
    _tile_release();                                    \
  }
TFAOT_TILES(bytesByTiles, "amx-tile,amx-int8", _tile_dpbusd)
TFAOT_TILES(halvesByTiles, "amx-tile,amx-bf16", _tile_dpbf16ps)
#undef TFAOT_TILES

// Whether the CPU has the feature of this bit (CPUID 7, EDX) and Linux lets this process use tiles (arch_prctl(2)).
bool hasTiles(unsigned bit) {
  unsigned a, b, c, d;
  constexpr long kRequest = 0x1023, kTileData = 18;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> bit & 1) != 0 &&
         syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

__attribute__((target("avx512f,avx512vnni"))) void bytesByVectors() {
  __m512i sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_set1_epi32(static_cast<int>(seed));
  const __m512i factor = _mm512_set1_epi8(1);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], factor, sums[i]);
  }
  __m512i total = sums[0];
  for (int i = 1; i < kSums; ++i) total = _mm512_xor_si512(total, sums[i]);
  sink = static_cast<float>(_mm512_cvtsi512_si32(total));
}

Loop bytes() {
  if (hasTiles(25)) return {bytesByTiles, kSteps * 4 * 16.0 * 16 * 64};
  return __builtin_cpu_supports("avx512vnni") ? Loop{bytesByVectors, kSteps * kSums * 64.0} : kFloats;
}

Loop halves() { return hasTiles(22) ? Loop{halvesByTiles, kSteps * 4 * 16.0 * 16 * 32} : kFloats; }
#elif defined(__AVX2__) && (__GNUC__ >= 11 || __clang_major__ >= 12)
__attribute__((target("avx2,avxvnni"))) void bytesByVectors() {
  __m256i sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = _mm256_set1_epi32(static_cast<int>(seed));
  const __m256i factor = _mm256_set1_epi8(1);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = _mm256_dpbusd_avx_epi32(sums[i], factor, sums[i]);
  }
  __m256i total = sums[0];
  for (int i = 1; i < kSums; ++i) total = _mm256_xor_si256(total, sums[i]);
  sink = static_cast<float>(_mm256_extract_epi32(total, 0));
}

Loop bytes() {
  unsigned a, b, c, d;
  const bool has = __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
  return has ? Loop{bytesByVectors, kSteps * kSums * 32.0} : kFloats;
}

Loop halves() { return kFloats; }
#else
Loop bytes() { return kFloats; }

Loop halves() { return kFloats; }
#endif

Loop loopOf(const char* type) {
  if (std::strcmp(type, "float64") == 0) return {multiplyAdds<Doubles>, kFloats.count / 2};
  if (std::strcmp(type, "bfloat16") == 0) return halves();
  return std::strcmp(type, "int8") == 0 ? bytes() : kFloats;
}

void readAll(const float* data, std::size_t count) {
  Vector sums[kStreams] = {};
  for (std::size_t i = 0; i + kStreams * kLanes <= count; i += kStreams * kLanes) {
#pragma GCC unroll 8
    for (int v = 0; v < kStreams; ++v) {
      sums[v] += *reinterpret_cast<const Vector*>(data + i + static_cast<std::size_t>(v * kLanes));
    }
  }
  Vector total = {};
#pragma GCC unroll 8
  for (int v = 0; v < kStreams; ++v) total += sums[v];
  sink = total[0];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const int answers = std::atoi(argv[1]);
  void* memory = nullptr;
  std::size_t room = 0;
  for (char line[256]; std::fgets(line, sizeof line, stdin) != nullptr;) {
    long long size = 0, duration = 0;
    char type[16];
    if (std::sscanf(line, "peak %15s %lld", type, &duration) == 2) {
      const Loop loop = loopOf(type);
      const double rate = loop.count * 1e9 / best(loop.run, duration);
      dprintf(answers, "{\"rate\": %.0f}\n", rate);
    } else if (std::sscanf(line, "read %lld %lld", &size, &duration) == 2) {
      constexpr std::size_t kStep = kStreams * kBytes;
      const std::size_t bytes = std::max(kStep, static_cast<std::size_t>(size) / kStep * kStep);
      if (bytes > room) {
        std::free(memory);
        if (posix_memalign(&memory, 64, bytes) != 0) return 1;
        std::memset(memory, 0, bytes);
        room = bytes;
      }
      const float* data = static_cast<const float*>(memory);
      const double time = best([&] { readAll(data, bytes / sizeof(float)); }, duration);
      dprintf(answers, "{\"rate\": %.0f}\n", static_cast<double>(bytes) * 1e9 / time);
    } else {
      dprintf(answers, "{\"error\": \"no such request\"}\n");
    }
  }
  return 0;
}
