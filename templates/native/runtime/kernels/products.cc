// The kernel library (recipes/tfaot-kernels) for one target: dense layers of float32, which models call instead of XLA's code.

#include "products.cpp"
