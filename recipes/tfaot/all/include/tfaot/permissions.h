// tfaot/permissions.h: what Linux must permit a process before code may use it. Models' libraries make no system calls, so that
// the program asks, by these functions, the first time that it selects code which has use for it.
//
// AMX has registers of 8 KiB ("tiles"), which make the frames of signal handlers larger: Linux refuses a process with alternate
// signal stacks that are too small for them, and code then does without. Define TFAOT_NO_AMX for all of a program, and it never asks.
#ifndef TFAOT_PERMISSIONS_H_
#define TFAOT_PERMISSIONS_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <cstdint>
#if defined(__linux__) && defined(__x86_64__) && !defined(TFAOT_NO_AMX)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <tfaot/macros_on.h>

#include <tfaot/abi.h>
#include <tfaot/c_api.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {
namespace detail {

/// Whether this process may use tiles: Linux is asked once.
inline bool may_use_tiles() noexcept {
#if defined(__linux__) && defined(__x86_64__) && defined(SYS_arch_prctl) && !defined(TFAOT_NO_AMX)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h, a state of XCR0
  static const bool granted = ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
#else
  return false;
#endif
}

/// Lets code use what it has use for, if Linux permits it.
inline void permit(const tfaot_model_table& table, const tfaot_code* code) noexcept {
  if (!TFAOT_HAS(&table, permit) || (table.permit(code, 0) & TFAOT_TILES) == 0) return;
  if (may_use_tiles()) table.permit(code, TFAOT_TILES);
}

/// The same for the code of `target`, or of the best one, before an instance of it is made.
inline void permit(const tfaot_model_table& table, const char* target) noexcept {
  const tfaot_code* code = nullptr;
  if (TFAOT_HAS(&table, permit) && table.select(target, &code, nullptr, 0) == TFAOT_OK) permit(table, code);
}

}  // namespace detail
}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_PERMISSIONS_H_
