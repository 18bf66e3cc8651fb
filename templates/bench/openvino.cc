// Runs a model by OpenVINO for `tfaot-pkg bench`, through its C API: arguments as in sessions.h. `precision=f32` among them
// is the precision that it is asked to compute in; without it, it chooses, as it does for who installs it.

#include "sessions.h"

namespace {

using tfaot_bench::Bound;

struct Shape {
  std::int64_t rank;
  const std::int64_t* axes;
};

const char* precision = nullptr;

class OpenVino {
 public:
  struct Session {
    void* request;
  };

  const char* open(const char* path) {
    library_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return dlerror();
    infer_ = reinterpret_cast<int (*)(void*)>(dlsym(library_, "ov_infer_request_infer"));
    if (infer_ == nullptr) return dlerror();
    return call("ov_core_create", &core_) ? "" : message();
  }

  const char* bind(const char* file, const std::vector<Bound>& inputs, const std::vector<Bound>& outputs, Session* session) {
    void *model = nullptr, *compiled = nullptr;
    const char* const noWeights = nullptr;
    const bool made = call("ov_core_read_model", core_, file, noWeights, &model) && compile(model, &compiled) &&
                      call("ov_compiled_model_create_infer_request", compiled, &session->request) &&
                      tensors(inputs, session->request) && tensors(outputs, session->request);
    return made ? "" : message();
  }

  bool run(const Session& session) { return said(infer_(session.request)); }

  const char* message() const { return message_; }

 private:
  // Properties are variadic arguments: first their number, then, after the result, keys and values.
  bool compile(void* model, void** compiled) {
    void* function = dlsym(library_, "ov_core_compile_model");
    if (function == nullptr) return said(-1);
    const std::size_t words = precision == nullptr ? 6 : 8;
    return said(reinterpret_cast<int (*)(void*, void*, const char*, std::size_t, void**, ...)>(function)(
        core_, model, "CPU", words, compiled, "PERFORMANCE_HINT", "LATENCY", "NUM_STREAMS", "1", "INFERENCE_NUM_THREADS",
        "1", "INFERENCE_PRECISION_HINT", precision));
  }

  bool tensors(const std::vector<Bound>& bound, void* request) {
    for (const Bound& each : bound) {
      const Shape shape = {static_cast<std::int64_t>(each.shape.size()), each.shape.data()};
      void* tensor = nullptr;
      if (!call("ov_tensor_create_from_host_ptr", each.type->openvino, shape, each.data, &tensor) ||
          !call("ov_infer_request_set_tensor", request, each.name, tensor)) {
        return false;
      }
    }
    return true;
  }

  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) {
    void* function = dlsym(library_, name);
    return said(function == nullptr ? -1 : reinterpret_cast<int (*)(Arguments...)>(function)(arguments...));
  }

  bool said(int status) {
    if (status == 0) return true;
    auto* last = reinterpret_cast<const char* (*)()>(dlsym(library_, "ov_get_last_err_msg"));
    message_ = last != nullptr ? last() : nullptr;
    if (message_ == nullptr) message_ = "OpenVINO failed";
    return false;
  }

  void *library_ = nullptr, *core_ = nullptr;
  int (*infer_)(void*) = nullptr;
  const char* message_ = "";
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 5 && std::strncmp(argv[5], "precision=", 10) == 0) {
    precision = argv[5] + 10;
    std::copy(argv + 6, argv + argc, argv + 5);
    --argc;
  }
  return tfaot_bench::serveSessions<OpenVino>(argc, argv);
}
