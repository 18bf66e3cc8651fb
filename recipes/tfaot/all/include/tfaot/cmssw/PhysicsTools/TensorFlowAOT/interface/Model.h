// tfaot::Model under the name that it has in CMSSW.
#ifndef TFAOT_CMSSW_MODEL_H_
#define TFAOT_CMSSW_MODEL_H_

#include <tfaot/version.h>

#include <tfaot/model.h>

#include "PhysicsTools/TensorFlowAOT/interface/Batching.h"
#include "PhysicsTools/TensorFlowAOT/interface/Util.h"

#endif  // TFAOT_CMSSW_MODEL_H_
