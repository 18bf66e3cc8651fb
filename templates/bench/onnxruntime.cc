// Runs a model by ONNX Runtime for `tfaot-pkg bench`, through its C API: arguments as in sessions.h.

#include "sessions.h"

namespace {

using tfaot_bench::Bound;

// Places of functions in OrtApi (onnxruntime_c_api.h): a table to which versions only append.
constexpr std::uint32_t kApiVersion = 16;
enum Place {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kRun = 9,
  kCreateSessionOptions = 10,
  kSetIntraOpNumThreads = 24,
  kSetInterOpNumThreads = 25,
  kCreateTensorWithDataAsOrtValue = 49,
  kCreateCpuMemoryInfo = 69,
};
constexpr int kWarning = 2, kArenaAllocator = 1, kDefaultMemory = 0;

struct ApiBase {
  void* const* (*getApi)(std::uint32_t);
  const char* (*getVersion)();
};

class OnnxRuntime {
 public:
  struct Session {
    void* session;
    std::vector<const char*> inputNames, outputNames;
    std::vector<void*> inputs, outputs;
  };

  const char* open(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    void* base = dlsym(library, "OrtGetApiBase");
    if (base == nullptr) return dlerror();
    api_ = reinterpret_cast<const ApiBase* (*)()>(base)()->getApi(kApiVersion);
    if (api_ == nullptr) return "this version has another C API";
    const bool made = call(kCreateEnv, kWarning, static_cast<const char*>("bench"), &environment_) &&
                      call(kCreateSessionOptions, &options_) && call(kSetIntraOpNumThreads, options_, 1) &&
                      call(kSetInterOpNumThreads, options_, 1) &&
                      call(kCreateCpuMemoryInfo, kArenaAllocator, kDefaultMemory, &memory_);
    return made ? "" : message();
  }

  const char* bind(const char* file, const std::vector<Bound>& inputs, const std::vector<Bound>& outputs, Session* session) {
    const bool made = call(kCreateSession, environment_, file, options_, &session->session) &&
                      values(inputs, &session->inputNames, &session->inputs) &&
                      values(outputs, &session->outputNames, &session->outputs);
    return made ? "" : message();
  }

  bool run(const Session& session) {
    void* const noOptions = nullptr;
    return call(kRun, session.session, noOptions, session.inputNames.data(), session.inputs.data(), session.inputs.size(),
                session.outputNames.data(), session.outputs.size(), const_cast<void**>(session.outputs.data()));
  }

  const char* message() const { return message_; }

 private:
  bool values(const std::vector<Bound>& tensors, std::vector<const char*>* names, std::vector<void*>* values) {
    for (const Bound& each : tensors) {
      void* value = nullptr;
      if (!call(kCreateTensorWithDataAsOrtValue, memory_, each.data, each.size, each.shape.data(), each.shape.size(),
                each.type->onnx, &value)) {
        return false;
      }
      names->push_back(each.name);
      values->push_back(value);
    }
    return true;
  }

  template <class... Arguments>
  bool call(Place place, Arguments... arguments) {
    void* status = reinterpret_cast<void* (*)(Arguments...)>(api_[place])(arguments...);
    if (status != nullptr) message_ = reinterpret_cast<const char* (*)(void*)>(api_[kGetErrorMessage])(status);
    return status == nullptr;
  }

  void* const* api_ = nullptr;
  void *environment_ = nullptr, *options_ = nullptr, *memory_ = nullptr;
  const char* message_ = "";
};

}  // namespace

int main(int argc, char** argv) { return tfaot_bench::serveSessions<OnnxRuntime>(argc, argv); }
