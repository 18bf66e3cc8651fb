// The layers of bytes and bfloat16 of the kernel library (recipes/tfaot-kernels) for one target.

#include "reduced.cpp"
