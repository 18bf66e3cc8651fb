// tfaot/tfaot.h: all of the C++ interface.
#ifndef TFAOT_TFAOT_H_
#define TFAOT_TFAOT_H_

#include <tfaot/abi.h>
#include <tfaot/arrays.h>
#include <tfaot/batching.h>
#include <tfaot/columns.h>
#include <tfaot/complex.h>
#include <tfaot/dynamic.h>
#include <tfaot/error.h>
#include <tfaot/half.h>
#include <tfaot/instance.h>
#include <tfaot/model.h>
#include <tfaot/parts.h>
#include <tfaot/permissions.h>
#include <tfaot/pool.h>
#include <tfaot/shared.h>
#include <tfaot/sizes.h>
#include <tfaot/span.h>
#include <tfaot/state.h>
#include <tfaot/team.h>
#include <tfaot/tensor.h>
#include <tfaot/threads.h>
#include <tfaot/version.h>

#endif  // TFAOT_TFAOT_H_
