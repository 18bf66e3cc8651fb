// The kernel library for one target (recipes/tfaot-kernels): layers that models call instead of XLA's code.

#include "kernels.cpp"
