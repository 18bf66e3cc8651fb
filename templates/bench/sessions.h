// What programs for engines that read a file for each batch size share: PROGRAM ANSWERS ENGINE INPUTS ROWS WORD...
//
// ENGINE is the engine's library in C, INPUTS and ROWS are those of library.cc. The words are, in any order, `SIZE=FILE` for
// the models (size 0: the model that gives its input back), `input:TYPE:AXES` and `output:TYPE:AXES` for the tensors in the
// order of the signature (TYPE is NumPy's name, AXES are numbers with commas between them, -1 for the batch), and `turning`.
#ifndef TFAOT_BENCH_SESSIONS_H_
#define TFAOT_BENCH_SESSIONS_H_

#include <dlfcn.h>

#include "serving.h"

namespace tfaot_bench {

struct Type {
  const char* name;
  std::size_t size;
  int onnx;      // ONNXTensorElementDataType
  int openvino;  // ov_element_type_e
};

constexpr Type kTypes[] = {
    {"bool", 1, 9, 1},   {"float32", 4, 1, 4}, {"float64", 8, 11, 5},  {"int8", 1, 3, 7},     {"int16", 2, 5, 8},     {"int32", 4, 6, 9},
    {"int64", 8, 7, 10}, {"uint8", 1, 2, 16},  {"uint16", 2, 4, 17},   {"uint32", 4, 12, 18}, {"uint64", 8, 13, 19},
};

struct Tensor {
  const Type* type;
  std::vector<std::int64_t> axes;

  std::vector<std::int64_t> shape(std::int64_t rows) const {
    std::vector<std::int64_t> found = axes;
    for (std::int64_t& each : found) each = each < 0 ? rows : each;
    return found;
  }

  std::size_t bytes(std::int64_t rows) const {
    std::size_t found = type->size;
    for (const std::int64_t each : shape(rows)) found *= static_cast<std::size_t>(each);
    return found;
  }
};

struct Model {
  std::int64_t batchSize;
  const char* file;
};

struct Arguments {
  const char *engine, *values;
  std::int64_t rows;
  bool isTurning;
  std::vector<Model> models;
  std::vector<Tensor> inputs, outputs;
};

inline bool readTensor(const char* text, std::vector<Tensor>* tensors) {
  const std::size_t length = std::strcspn(text, ":");
  for (const Type& type : kTypes) {
    if (std::strlen(type.name) != length || std::strncmp(type.name, text, length) != 0) continue;
    tensors->push_back({&type, {}});
    char* at = const_cast<char*>(text + length);
    while (at[0] != 0 && at[1] != 0) tensors->back().axes.push_back(std::strtoll(at + 1, &at, 10));
    return true;
  }
  return false;
}

inline bool readArguments(int argc, char** argv, Arguments* read) {
  if (argc < 5) return false;
  *read = {argv[2], contentOf(argv[3]), std::atoll(argv[4]), false, {}, {}, {}};
  if (read->values == nullptr) return false;
  for (int i = 5; i < argc; ++i) {
    const char* file = std::strchr(argv[i], '=');
    if (std::strncmp(argv[i], "input:", 6) == 0) {
      if (!readTensor(argv[i] + 6, &read->inputs)) return false;
    } else if (std::strncmp(argv[i], "output:", 7) == 0) {
      if (!readTensor(argv[i] + 7, &read->outputs)) return false;
    } else if (std::strcmp(argv[i], "turning") == 0) {
      read->isTurning = true;
    } else if (file != nullptr) {
      read->models.push_back({std::atoll(argv[i]), file + 1});
    } else {
      return false;
    }
  }
  return true;
}

// A tensor that a session is bound to; names are those of the files that bench makes.
struct Bound {
  const Type* type;
  std::vector<std::int64_t> shape;
  void* data;
  std::size_t size;
  char name[32];
};

// The sessions of an engine by batch size, and copies of them. `Api` has
//     using Session = ...
//     const char* open(const char* engine)
//     const char* bind(const char* file, const std::vector<Bound>& inputs, const std::vector<Bound>& outputs, Session*)
//     bool run(const Session&)
//     const char* message()
// where `bind` may keep the addresses of what the vectors hold.
template <class Api>
class Sessions {
 public:
  explicit Sessions(const Arguments& arguments) : given_(arguments) {}

  const char* load(std::int64_t batchSize, int copy) {
    if (find(batchSize, copy) != nullptr) return "";
    if (!isOpen_) {
      if (const char* wrong = api_.open(given_.engine); *wrong != 0) return wrong;
      isOpen_ = true;
    }
    for (const Model& model : given_.models) {
      if (model.batchSize != batchSize) continue;
      Loaded* loaded = new Loaded{batchSize, copy, {}, {}, {}, {}};
      if (!bindTensors(loaded)) return "out of memory";
      const char* wrong = api_.bind(model.file, loaded->inputs, loaded->outputs, &loaded->session);
      if (*wrong == 0) loaded_.push_back(loaded);
      return wrong;
    }
    return "no model of this batch size";
  }

  auto run(std::int64_t batchSize, int copy) {
    return [this, &session = find(batchSize, copy)->session] { return api_.run(session); };
  }

  auto runNext(std::int64_t batchSize) {
    return [this, loaded = find(batchSize, 0)] {
      for (Turning& each : loaded->turning) each.next();
      return api_.run(loaded->session);
    };
  }

  const char* message() { return api_.message(); }

  std::vector<Part> parts(std::int64_t batchSize) const {
    std::vector<Part> found;
    for (const Bound& each : find(batchSize, 0)->outputs) found.push_back({each.data, each.size});
    return found;
  }

 private:
  struct Loaded {
    std::int64_t batchSize;
    int copy;
    std::vector<Bound> inputs, outputs;
    std::vector<Turning> turning;
    typename Api::Session session;
  };

  Loaded* find(std::int64_t batchSize, int copy) const {
    for (Loaded* each : loaded_) {
      if (each->batchSize == batchSize && each->copy == copy) return each;
    }
    return nullptr;
  }

  // Inputs are the first rows of the file, or copies if they change from run to run; outputs are memory of their own.
  bool bindTensors(Loaded* loaded) {
    const std::int64_t rows = loaded->batchSize;
    if (rows == kIdentity) {
      const Tensor one = {&kTypes[1], {1}};
      return add(one, copyOf(&kZero, sizeof kZero), "input", rows, &loaded->inputs) &&
             add(one, copyOf(&kZero, sizeof kZero), "output", rows, &loaded->outputs);
    }
    const char* values = given_.values;
    for (const Tensor& tensor : given_.inputs) {
      const std::size_t size = tensor.bytes(rows), total = tensor.bytes(given_.rows);
      char* data = given_.isTurning ? copyOf(values, size) : const_cast<char*>(values);
      if (!add(tensor, data, "input", rows, &loaded->inputs)) return false;
      if (given_.isTurning && size != total) loaded->turning.push_back({data, values, size, total});
      values += roundedUp(total);
    }
    for (const Tensor& tensor : given_.outputs) {
      if (!add(tensor, aligned(tensor.bytes(rows)), "output", rows, &loaded->outputs)) return false;
    }
    return true;
  }

  static char* copyOf(const void* data, std::size_t size) {
    char* copy = aligned(size);
    return copy == nullptr ? nullptr : static_cast<char*>(std::memcpy(copy, data, size));
  }

  static bool add(const Tensor& tensor, void* data, const char* kind, std::int64_t rows, std::vector<Bound>* bound) {
    bound->push_back({tensor.type, tensor.shape(rows), data, tensor.bytes(rows), {}});
    std::snprintf(bound->back().name, sizeof bound->back().name, "%s_%zu:0", kind, bound->size() - 1);
    return data != nullptr;
  }

  static constexpr float kZero = 0;

  Arguments given_;
  Api api_;
  bool isOpen_ = false;
  std::vector<Loaded*> loaded_;
};

template <class Api>
int serveSessions(int argc, char** argv) {
  Arguments arguments;
  if (!readArguments(argc, argv, &arguments)) return 2;
  Sessions<Api> sessions(arguments);
  return serve(std::atoi(argv[1]), sessions);
}

}  // namespace tfaot_bench

#endif
