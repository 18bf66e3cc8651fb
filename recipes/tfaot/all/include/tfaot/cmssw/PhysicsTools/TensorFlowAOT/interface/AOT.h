// The same declarations as in CMSSW's header of this name.
#ifndef TFAOT_CMSSW_AOT_H_
#define TFAOT_CMSSW_AOT_H_

#include <tfaot/version.h>

#include "PhysicsTools/TensorFlowAOT/interface/Batching.h"
#include "PhysicsTools/TensorFlowAOT/interface/Model.h"

#endif  // TFAOT_CMSSW_AOT_H_
