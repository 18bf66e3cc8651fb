// Asks for tiles of the CPU as programs do that use a model, whose library has use for them: prints how often the library was
// asked and told, whether it may use them now, and what Linux says of the process.
//
//     permissions plain|refused|small OBJECT
//
// With `refused` a filter of system calls refuses arch_prctl; with `small` the process has a signal stack without room for tiles.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <tfaot/compiled_function.h>
#include <tfaot/instance.h>
#include <tfaot/shared.h>

namespace {

int calls = 0;
std::uint32_t told = 0;
int code, instance;

tfaot_status create(const char*, tfaot_instance** made, char*, std::size_t) {
  *made = reinterpret_cast<tfaot_instance*>(&instance);
  return TFAOT_OK;
}
void destroy(tfaot_instance*) {}
const char* target(const tfaot_instance*) { return "x86-64-v4"; }
tfaot_status select(const char*, const tfaot_code** found, char*, std::size_t) {
  *found = reinterpret_cast<const tfaot_code*>(&code);
  return TFAOT_OK;
}
const char* code_target(const tfaot_code*) { return "x86-64-v4"; }
std::size_t scratch_bytes(const tfaot_code*, std::int64_t) { return 64; }
std::uint32_t permit(const tfaot_code* asked, std::uint32_t features) {
  if (asked != reinterpret_cast<const tfaot_code*>(&code)) std::abort();
  ++calls;
  told = features;
  return TFAOT_TILES;
}

constexpr std::int64_t kSizes[] = {1};
constexpr const char* kTargets[] = {"x86-64-v4"};
constexpr double kCosts[] = {1};
constexpr tfaot_info kInfo = {
    sizeof(tfaot_info), 64, "tiled", "1.0", "0123456789ab", "none", 0, nullptr, 0, nullptr, 1, kSizes, 1, kTargets, kCosts, 1, 1,
    0, nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr,
};
constexpr tfaot::Table kTable = {
    TFAOT_ABI_VERSION, sizeof(tfaot::Table), &kInfo, create, destroy, nullptr, nullptr, target, nullptr, select, code_target,
    scratch_bytes, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
    nullptr, permit,
};

void refuse() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) std::exit(77);
}

void use_a_small_signal_stack() {
  static char stack[4096];
  stack_t given = {};
  given.ss_sp = stack;
  given.ss_size = sizeof stack;
  if (sigaltstack(&given, nullptr) != 0) std::exit(77);
}

}  // namespace

int main(int, char** argv) {
  const std::string mode = argv[1], object = argv[2];
  if (mode == "refused") refuse();
  if (mode == "small") use_a_small_signal_stack();
  if (object == "code") {
    const tfaot::Code made(kTable), again(kTable);
  } else if (object == "instance") {
    const tfaot::Instance made(kTable), again(kTable);
  } else if (object == "former") {
    tfaot::Table former = kTable;
    former.struct_size = offsetof(tfaot::Table, permit);
    const tfaot::Code made(former);
  }
  constexpr long kGetPermissions = 0x1022, kTiles = 1 << 18;
  unsigned long permitted = 0;
  if (syscall(SYS_arch_prctl, kGetPermissions, &permitted) != 0) permitted = 0;
  std::printf("%d %u %d\n", calls, told, (permitted & kTiles) != 0 ? 1 : 0);
  return 0;
}
