// What including the header that tfcompile generates takes.
#include "tfaot_b1.h"
