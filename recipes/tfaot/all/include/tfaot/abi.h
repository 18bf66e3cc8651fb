// tfaot/abi.h: the C ABI as C++ sees it.
#ifndef TFAOT_ABI_H_
#define TFAOT_ABI_H_

#include <tfaot/version.h>

#include <tfaot/c_api.h>

/// Compiled models: `Model` and `Pool` for models that are known when a program is compiled, `DynamicModel` for others.
namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// The table that a model library's entry function returns.
using Table = ::tfaot_model_table;

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_ABI_H_
