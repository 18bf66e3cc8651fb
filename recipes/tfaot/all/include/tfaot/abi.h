// tfaot/abi.h: the C ABI as C++ sees it.
#ifndef TFAOT_ABI_H_
#define TFAOT_ABI_H_

#include <tfaot/c_api.h>

/// Compiled models: `Model` and `Pool` for models that are known when a program is compiled, `DynamicModel` for others.
namespace tfaot {
inline namespace v2 {

/// The table that a model library's entry function returns.
using Table = ::tfaot_model_table;

}  // namespace v2
}  // namespace tfaot

#endif  // TFAOT_ABI_H_
