// Which microarchitecture levels this machine can run (x86-64 psABI, "Micro-Architecture Levels").

#include "model.h"

#if defined(__x86_64__)

#include <cpuid.h>

namespace tfaot_native {
namespace {

struct Registers {
  unsigned a, b, c, d;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r = {0, 0, 0, 0};
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return Registers{0, 0, 0, 0};
  return r;
}

bool has(unsigned value, unsigned bits) { return (value & bits) == bits; }

constexpr unsigned bit(unsigned n) { return 1u << n; }

// Register sets that the operating system saves at a context switch (XCR0); 0 if it has none to tell.
unsigned saved_registers() {
  if (!has(cpuid(1, 0).c, bit(27))) return 0;  // OSXSAVE
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

}  // namespace

bool runs_x86_64() { return true; }

bool runs_x86_64_v2() {
  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF-SAHF
  return has(cpuid(1, 0).c, bit(0) | bit(9) | bit(13) | bit(19) | bit(20) | bit(23)) &&
         has(cpuid(0x80000001u, 0).c, bit(0));
}

bool runs_x86_64_v3() {
  // FMA, MOVBE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT; XMM and YMM registers saved
  return runs_x86_64_v2() && has(cpuid(1, 0).c, bit(12) | bit(22) | bit(28) | bit(29)) &&
         has(cpuid(7, 0).b, bit(3) | bit(5) | bit(8)) && has(cpuid(0x80000001u, 0).c, bit(5)) &&
         has(saved_registers(), 0x6);
}

bool runs_x86_64_v4() {
  // AVX512F, DQ, CD, BW, VL; opmask and ZMM registers saved
  return runs_x86_64_v3() && has(cpuid(7, 0).b, bit(16) | bit(17) | bit(28) | bit(30) | bit(31)) &&
         has(saved_registers(), 0xe6);
}

}  // namespace tfaot_native

#elif defined(__aarch64__)

namespace tfaot_native {
// Armv8-A always has floating point and Advanced SIMD under Linux.
bool runs_aarch64() { return true; }
}  // namespace tfaot_native

#endif
