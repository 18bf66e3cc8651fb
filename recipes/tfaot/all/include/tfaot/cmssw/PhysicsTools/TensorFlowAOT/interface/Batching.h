// Batch rules and strategies under the name that they have in CMSSW.
#ifndef TFAOT_CMSSW_BATCHING_H_
#define TFAOT_CMSSW_BATCHING_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <ostream>

#include <tfaot/macros_on.h>

#include <tfaot/batching.h>

#endif  // TFAOT_CMSSW_BATCHING_H_
