// The kernel library (recipes/tfaot-kernels) for one target: convolutions and pooling of float32.

#include "images.cpp"
