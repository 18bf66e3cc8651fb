// kernels.cpp: the whole library, compiled once per target with that target's flags. Its parts may be compiled apart, and be left
// out where nothing calls them: everything.cpp needs all others, images.cpp and reduced.cpp those before them.
#include "activations.cpp"
#include "products.cpp"
#include "images.cpp"
#include "reduced.cpp"
#include "everything.cpp"
