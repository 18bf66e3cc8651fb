// Names of nested vectors, and loops over indices, under the names that they have in CMSSW. `AllocMode` is missing: it
// belongs to tfcompile's class, which packages do not contain.
#ifndef TFAOT_CMSSW_UTIL_H_
#define TFAOT_CMSSW_UTIL_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <cstddef>
#include <utility>

#include <tfaot/macros_on.h>

#include <tfaot/arrays.h>
#include <tfaot/model.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// `createIndexLooper<N>()(f)` calls `f(std::integral_constant<std::size_t, I>())` for all I from 0 to N - 1.
template <std::size_t... Index>
auto createIndexLooper(std::index_sequence<Index...>) {
  return [](auto&& f) { detail::ForEach<std::index_sequence<Index...>>::call(f); };
}
template <std::size_t Count>
auto createIndexLooper() {
  return createIndexLooper(std::make_index_sequence<Count>());
}

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_CMSSW_UTIL_H_
