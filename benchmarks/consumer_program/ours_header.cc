// What including the headers of a package takes.
#include <tfaot/model.h>
#include <tfaot-model-dense/model.h>
