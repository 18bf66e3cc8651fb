// tfaot_kernels/team.h: threads that compute parts of a layer together. The same type for all targets.
#ifndef TFAOT_KERNELS_TEAM_H_
#define TFAOT_KERNELS_TEAM_H_

#include <cstddef>

namespace tfaot_kernels {

/// The threads of one call of a model. Whoever calls the model provides them.
struct Team {
  /// Computes part `number`. `scratch` is memory that no other part uses at the same time.
  using Part = void(void* argument, std::size_t number, unsigned char* scratch);

  std::size_t size;  ///< parts that are computed at the same time, at least 2

  /// Calls part(argument, i, ...) once for each i below `parts`, in any order and on any threads, and returns when all have
  /// ended.
  void (*run)(const Team& team, std::size_t parts, Part* part, void* argument);
};

/// Calls part(number, scratch) for each number below `parts`.
template <class Function>
void divide(const Team& team, std::size_t parts, Function part) {
  team.run(
      team, parts,
      [](void* argument, std::size_t number, unsigned char* scratch) { (*static_cast<Function*>(argument))(number, scratch); },
      &part);
}

/// Parts for each thread: several, so that a thread which is held up computes fewer of them.
inline constexpr std::size_t kPartsPerThread = 4;

/// Calls part(first, last, scratch) for ranges of the numbers below `count`, which are computed in any order; without a team
/// once, with null as scratch memory.
template <class Function>
void byTeam(const Team* team, std::size_t count, Function part) {
  if (team == nullptr || count < 2) {
    part(std::size_t{0}, count, nullptr);
    return;
  }
  const std::size_t wanted = kPartsPerThread * team->size, parts = count < wanted ? count : wanted;
  divide(*team, parts, [&](std::size_t number, unsigned char* scratch) {
    part(count * number / parts, count * (number + 1) / parts, scratch);
  });
}

}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TEAM_H_
