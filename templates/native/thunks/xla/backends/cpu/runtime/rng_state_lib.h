// Stand-in for XLA's header of this name: the state of a random number sequence, a 128-bit counter.
#ifndef TFAOT_STAND_IN_RNG_STATE_LIB_H_
#define TFAOT_STAND_IN_RNG_STATE_LIB_H_

#include <cstdint>

namespace xla::cpu {

class RngState {
 public:
  explicit RngState(std::int64_t delta) : delta_(delta) {}

  // Writes the state as two words, low first, then moves it on by `delta`.
  void GetAndUpdateState(std::uint64_t* data) {
    data[0] = static_cast<std::uint64_t>(state_);
    data[1] = static_cast<std::uint64_t>(state_ >> 64);
    state_ += static_cast<Word>(delta_);
  }

 private:
  __extension__ typedef __int128 Word;
  std::int64_t delta_;
  Word state_ = 0;
};

}  // namespace xla::cpu

#endif  // TFAOT_STAND_IN_RNG_STATE_LIB_H_
