// The kernel library for one target (recipes/tfaot-kernels): layers of float32 that models call instead of XLA's code.

#include "floats.cpp"
