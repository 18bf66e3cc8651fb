// compiler.h: what GCC and Clang are told differently.
#ifndef TFAOT_KERNELS_COMPILER_H_
#define TFAOT_KERNELS_COMPILER_H_

#define TFAOT_INLINE inline __attribute__((always_inline))
// For loops that fill the registers.
#define TFAOT_ALONE __attribute__((noinline))

//   TFAOT_UNROLL           the loop that follows is unrolled at every level of optimisation: loops over registers must be
//   TFAOT_UNROLL_LONG      the same for more than the 16 iterations that GCC unrolls by TFAOT_UNROLL
//   TFAOT_INDEPENDENT      no iteration of the loop that follows reads what another one writes
//   TFAOT_SHUFFLE          the lanes of two vectors with these numbers; `Indices` is a vector type for them
//   TFAOT_OPAQUE_TO_GCC,   the compiler computes a value here, in a register of the class `constraint`, and knows nothing of
//   TFAOT_OPAQUE_TO_CLANG  it afterwards; generates no instruction
//   TFAOT_KNOWS_AVX_VNNI,  whether assemblers that came with the compiler know these instructions
//   TFAOT_KNOWS_AMX
#if defined(__clang__)
#define TFAOT_UNROLL _Pragma("clang loop unroll(full)")
#define TFAOT_UNROLL_LONG TFAOT_UNROLL
#define TFAOT_INDEPENDENT
#define TFAOT_SHUFFLE(Indices, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define TFAOT_OPAQUE_TO_GCC(constraint, value) static_cast<void>(value)
#define TFAOT_OPAQUE_TO_CLANG(constraint, value) asm("" : constraint(value))
#define TFAOT_KNOWS_AVX_VNNI (__clang_major__ >= 12)
#define TFAOT_KNOWS_AMX (__clang_major__ >= 12)
#else
#define TFAOT_UNROLL _Pragma("GCC unroll 16")
#define TFAOT_UNROLL_LONG _Pragma("GCC unroll 32")
#define TFAOT_INDEPENDENT _Pragma("GCC ivdep")
#define TFAOT_SHUFFLE(Indices, a, b, ...) __builtin_shuffle(a, b, Indices{__VA_ARGS__})
#define TFAOT_OPAQUE_TO_GCC(constraint, value) asm("" : constraint(value))
#define TFAOT_OPAQUE_TO_CLANG(constraint, value) static_cast<void>(value)
#define TFAOT_KNOWS_AVX_VNNI (__GNUC__ >= 12)
#define TFAOT_KNOWS_AMX (__GNUC__ >= 12)
#endif

#endif  // TFAOT_KERNELS_COMPILER_H_
