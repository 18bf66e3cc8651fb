// The kernel library (recipes/tfaot-kernels) for one target: activations and softmax.

#include "activations.cpp"
