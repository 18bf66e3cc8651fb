// kernels.cpp: the whole library, compiled once per target with that target's flags. Its parts may be compiled apart, and that of
// other layers than of float32 be left out.
#include "floats.cpp"
#include "reduced.cpp"
