// The kernel library (recipes/tfaot-kernels) for one target: layers of bytes and bfloat16, and of weights in fewer bits.

#include "reduced.cpp"
