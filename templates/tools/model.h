// Shared by the programs in a package's bin/: access to the model that they are linked with.

#ifndef TFAOT_TOOLS_MODEL_H_
#define TFAOT_TOOLS_MODEL_H_

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "tfaot/c_api.h"
#include "tfaot/permissions.h"

// TFAOT_MODEL_SYMBOL is the entry function of the library that the program is linked with.
extern "C" const tfaot_model_table* TFAOT_MODEL_SYMBOL(void);

namespace tools {

inline const tfaot_model_table& model() { return *TFAOT_MODEL_SYMBOL(); }

struct Destroy {
  void operator()(tfaot_instance* instance) const { model().destroy(instance); }
};
using Instance = std::unique_ptr<tfaot_instance, Destroy>;

// An instance for `target` (nullptr: the best one). Empty if that fails: `status` is the kind of failure, `message` the reason.
inline Instance create(const char* target, std::string* message, tfaot_status* status) {
  tfaot_instance* made = nullptr;
  char text[TFAOT_MESSAGE_SIZE] = "";
  tfaot::detail::permit(model(), target);
  *status = model().create(target, &made, text, sizeof text);
  *message = text;
  return Instance(made);
}

inline bool has_target(const std::string& name) {
  const tfaot_info& info = *model().info;
  for (std::size_t i = 0; i < info.num_targets; ++i) {
    if (name == info.targets[i]) return true;
  }
  return false;
}

inline std::string targets_text() {
  std::string text;
  const tfaot_info& info = *model().info;
  for (std::size_t i = 0; i < info.num_targets; ++i) text += (i != 0 ? ", " : "") + std::string(info.targets[i]);
  return text;
}

// "digits 1.0.0 (tensorflow 2.17.1)"
inline std::string title() {
  const tfaot_info& info = *model().info;
  return std::string(info.name) + " " + info.version + " (" + info.toolchain + ")";
}

// Ends the program NAME_`tool`, with the reason on standard error. Exceptions are not used, because they need a C++ runtime,
// which would need a C library as new as its own.
[[noreturn]] inline void end(const char* tool, const std::string& reason, int status) {
  std::fprintf(stderr, "%s_%s: %s\n", model().info->name, tool, reason.c_str());
  std::exit(status);
}

}  // namespace tools

#endif  // TFAOT_TOOLS_MODEL_H_
