// Stand-in for Abseil's header of this name: generated headers fill a map of symbols that nothing here reads.
#ifndef TFAOT_STAND_IN_FLAT_HASH_MAP_H_
#define TFAOT_STAND_IN_FLAT_HASH_MAP_H_

#include <initializer_list>
#include <utility>

namespace absl {
template <class Key, class Value>
struct flat_hash_map {
  flat_hash_map() = default;
  flat_hash_map(std::initializer_list<std::pair<Key, Value>>) {}
};
}  // namespace absl

#endif  // TFAOT_STAND_IN_FLAT_HASH_MAP_H_
