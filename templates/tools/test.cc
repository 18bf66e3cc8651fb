// Compares a model's answers with those of its framework, which were stored when the model was built.
//
// They are in share/tfaot-model-NAME/reference.bin, beside the folder of this program: little-endian numbers without
// gaps, written by tfaot_pkg/verify/oracle.py:
//
//     "TFAOTREF", u32 version (1), u32 inputs, u32 outputs, u32 batch sizes, f64 rtol, f64 atol, 16 bytes uid,
//     i64 per batch size, then tensors, each u64 bytes and content: the inputs with as many rows as the largest batch
//     size, then per batch size the outputs for that many of the first rows.

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <type_traits>

#include <tfaot/half.h>

#include "model.h"
#include "runs.h"

namespace {

constexpr int kAgrees = 0, kDiffers = 1, kCannot = 2;
constexpr int kShown = 5;

const char* const kHelp =
    "usage: %s [--target TARGET]... [--reference FILE]\n"
    "\n"
    "Run the model %s on stored inputs, at every compiled batch size and for every target that this CPU can run, and\n"
    "compare with the framework's answers: |ours - theirs| <= atol + rtol * |theirs|; integers and truth values are equal.\n"
    "\n"
    "  --target TARGET     only this one: %s. Repeatable.\n"
    "  --reference FILE    stored inputs and answers. [default: ../share/" TFAOT_PACKAGE "/reference.bin from here]\n"
    "\n"
    "Exit codes: 0 all answers agree; 1 some differ; 2 nothing could be compared.\n";

// Ends the program: nothing can be compared.
[[noreturn]] void fail(const std::string& reason) { tools::end("test", reason, kCannot); }

// The stored inputs and answers.
struct Reference {
  double rtol = 0, atol = 0;
  std::vector<tools::Buffer> inputs;
  std::vector<std::vector<tools::Buffer>> outputs;  // by batch size
};

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
    if (file_ == nullptr) fail(path + ": cannot read the stored answers; --reference FILE names them");
  }

  template <typename T>
  T number() {
    T value{};
    read(&value, sizeof value);
    return value;
  }

  void read(void* into, std::size_t size) {
    if (std::fread(into, 1, size, file_.get()) != size) refuse();
  }

  tools::Buffer tensor(std::size_t size) {
    if (number<std::uint64_t>() != size) refuse();
    tools::Buffer made = tools::allocate(*tools::model().info, size);
    read(made.get(), size);
    return made;
  }

  void expect(bool as_it_should_be) const {
    if (!as_it_should_be) refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    fail(path_ + ": is damaged, or belongs to another model than " + tools::title());
  }

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

Reference read_reference(const std::string& path) {
  const tfaot_info& info = *tools::model().info;
  Reader reader(path);
  char magic[8], uid[17] = "";
  reader.read(magic, sizeof magic);
  reader.expect(std::memcmp(magic, "TFAOTREF", sizeof magic) == 0 && reader.number<std::uint32_t>() == 1);
  reader.expect(reader.number<std::uint32_t>() == info.num_inputs);
  reader.expect(reader.number<std::uint32_t>() == info.num_outputs);
  reader.expect(reader.number<std::uint32_t>() == info.num_batch_sizes);
  Reference made;
  made.rtol = reader.number<double>();
  made.atol = reader.number<double>();
  reader.read(uid, 16);
  reader.expect(std::strcmp(uid, info.uid) == 0);
  for (std::size_t i = 0; i < info.num_batch_sizes; ++i) {
    reader.expect(reader.number<std::int64_t>() == info.batch_sizes[i]);
  }
  const std::int64_t largest = info.batch_sizes[info.num_batch_sizes - 1];
  for (std::size_t i = 0; i < info.num_inputs; ++i) {
    made.inputs.push_back(reader.tensor(tools::bytes_of(info.inputs[i], largest)));
  }
  for (std::size_t j = 0; j < info.num_batch_sizes; ++j) {
    made.outputs.emplace_back();
    for (std::size_t i = 0; i < info.num_outputs; ++i) {
      made.outputs.back().push_back(reader.tensor(tools::bytes_of(info.outputs[i], info.batch_sizes[j])));
    }
  }
  return made;
}

template <typename T>
std::string text_of(T value) {
  if constexpr (!std::is_integral_v<T>) {
    char text[40];
    std::snprintf(text, sizeof text, "%.*g", sizeof(T) == 8 ? 17 : 9, static_cast<double>(value));
    return text;
  } else {
    return std::to_string(value);
  }
}

// "[3, 0]", the place of an element in a tensor.
std::string place_of(std::int64_t index, const tfaot_tensor& tensor) {
  std::string text;
  for (std::int32_t axis = tensor.rank; axis-- > 0;) {
    const std::int64_t size = tensor.shape[axis];
    text = std::to_string(size > 0 ? index % size : index) + (text.empty() ? "" : ", " + text);
    if (size > 0) index /= size;
  }
  return "[" + text + "]";
}

// The comparison of one output at one batch size.
struct Comparison {
  std::int64_t elements = 0, failures = 0;
  double largest = 0;  // largest difference
  std::string first;   // first element beyond the tolerance
};

// Values of float16 and bfloat16 may always differ by this many roundings, as in validation (judgement.py).
constexpr double kRoundings = 4;

// `rounding` is the distance from 1 to the next number for types that are compared by their roundings, otherwise 0.
template <typename T>
Comparison compare(const void* ours, const void* theirs, std::size_t bytes, const tfaot_tensor& tensor,
                   const Reference& reference, double rounding = 0) {
  const double rtol = reference.rtol == 0 ? 0 : std::max(reference.rtol, kRoundings * rounding);
  Comparison made;
  made.elements = static_cast<std::int64_t>(bytes / sizeof(T));
  const bool has_parts = static_cast<std::size_t>(tensor.element_size) == 2 * sizeof(T);  // complex numbers
  for (std::int64_t i = 0; i < made.elements; ++i) {
    T mine, wanted;
    std::memcpy(&mine, static_cast<const char*>(ours) + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    std::memcpy(&wanted, static_cast<const char*>(theirs) + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    bool agree = mine == wanted;
    if constexpr (std::is_convertible_v<T, float> && !std::is_integral_v<T>) {
      const double difference = std::fabs(static_cast<double>(mine) - static_cast<double>(wanted));
      if (mine != mine && wanted != wanted) agree = true;
      if (!agree && std::isfinite(difference)) {
        made.largest = std::max(made.largest, difference);
        agree = difference <= reference.atol + rtol * std::fabs(static_cast<double>(wanted));
      }
    }
    if (agree) continue;
    if (made.failures++ == 0) {
      made.first = "element " + place_of(has_parts ? i / 2 : i, tensor) + " is " + text_of(mine) + ", and the framework's " + text_of(wanted);
    }
  }
  return made;
}

Comparison compare(const void* ours, const void* theirs, std::size_t bytes, const tfaot_tensor& tensor,
                   const Reference& reference) {
  switch (tensor.dtype) {
    case TFAOT_FLOAT32: return compare<float>(ours, theirs, bytes, tensor, reference);
    case TFAOT_FLOAT64: return compare<double>(ours, theirs, bytes, tensor, reference);
    case TFAOT_COMPLEX64: return compare<float>(ours, theirs, bytes, tensor, reference);
    case TFAOT_COMPLEX128: return compare<double>(ours, theirs, bytes, tensor, reference);
    case TFAOT_FLOAT16: return compare<tfaot::float16>(ours, theirs, bytes, tensor, reference, 0x1p-10);
    case TFAOT_BFLOAT16: return compare<tfaot::bfloat16>(ours, theirs, bytes, tensor, reference, 0x1p-7);
    case TFAOT_INT8: return compare<std::int8_t>(ours, theirs, bytes, tensor, reference);
    case TFAOT_INT16: return compare<std::int16_t>(ours, theirs, bytes, tensor, reference);
    case TFAOT_INT32: return compare<std::int32_t>(ours, theirs, bytes, tensor, reference);
    case TFAOT_INT64: return compare<std::int64_t>(ours, theirs, bytes, tensor, reference);
    case TFAOT_BOOL:
    case TFAOT_UINT8: return compare<std::uint8_t>(ours, theirs, bytes, tensor, reference);
    case TFAOT_UINT16: return compare<std::uint16_t>(ours, theirs, bytes, tensor, reference);
    case TFAOT_UINT32: return compare<std::uint32_t>(ours, theirs, bytes, tensor, reference);
    case TFAOT_UINT64: return compare<std::uint64_t>(ours, theirs, bytes, tensor, reference);
    default: fail(std::string("output ") + tensor.name + " has an unknown element type");
  }
}

// The summary of all comparisons.
struct Summary {
  int comparisons = 0, failed = 0;
  double largest = 0;
  std::string targets;
};

void run_target(tfaot_instance* instance, const Reference& reference, Summary* summary) {
  const tfaot_model_table& model = tools::model();
  const tfaot_info& info = *model.info;
  const std::vector<const void*> inputs = tools::pointers<const void*>(reference.inputs);
  for (std::size_t j = 0; j < info.num_batch_sizes; ++j) {
    const std::int64_t size = info.batch_sizes[j];
    const std::vector<tools::Buffer> outputs = tools::allocate(info, info.outputs, info.num_outputs, size);
    const std::vector<void*> places = tools::pointers<void*>(outputs);
    if (model.run(instance, size, inputs.data(), places.data()) != TFAOT_OK) fail(model.message(instance));
    for (std::size_t i = 0; i < info.num_outputs; ++i) {
      const tfaot_tensor& tensor = info.outputs[i];
      const Comparison found = compare(outputs[i].get(), reference.outputs[j][i].get(), tools::bytes_of(tensor, size),
                                       tensor, reference);
      ++summary->comparisons;
      summary->largest = std::max(summary->largest, found.largest);
      if (found.failures != 0 && summary->failed++ < kShown) {
        std::printf("output '%s', batch size %lld, %s: %lld of %lld elements differ: %s\n", tensor.name,
                    static_cast<long long>(size), model.target(instance), static_cast<long long>(found.failures),
                    static_cast<long long>(found.elements), found.first.c_str());
      }
    }
  }
}

std::string default_reference() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) fail("the place of this program is unknown: name the stored answers with --reference FILE");
  const std::string program(path, static_cast<std::size_t>(length));
  return program.substr(0, program.rfind('/')) + "/../share/" TFAOT_PACKAGE "/reference.bin";
}

int test(const std::vector<std::string>& asked, const std::string& file) {
  const tfaot_info& info = *tools::model().info;
  const Reference reference = read_reference(file.empty() ? default_reference() : file);
  Summary summary;
  for (std::size_t i = 0; i < info.num_targets; ++i) {
    const std::string target = info.targets[i];
    const bool wanted = std::find(asked.begin(), asked.end(), target) != asked.end();
    if (!asked.empty() && !wanted) continue;
    std::string message;
    tfaot_status status = TFAOT_OK;
    const tools::Instance instance = tools::create(target.c_str(), &message, &status);
    if (status == TFAOT_UNSUPPORTED_CPU && !wanted) {
      std::printf("%s: not compared, this CPU cannot run it\n", target.c_str());
      continue;
    }
    if (instance == nullptr) fail(target + ": " + message);
    run_target(instance.get(), reference, &summary);
    summary.targets += (summary.targets.empty() ? "" : ", ") + target;
  }
  if (summary.comparisons == 0) fail("this CPU can run none of the targets " + tools::targets_text());
  if (summary.failed != 0) {
    std::printf("%s: %d of %d comparisons with the framework fail (rtol %g, atol %g)\n", tools::title().c_str(),
                summary.failed, summary.comparisons, reference.rtol, reference.atol);
    return kDiffers;
  }
  std::printf("%s: all %d comparisons with the framework agree (%s; largest difference %.2g)\n", tools::title().c_str(),
              summary.comparisons, summary.targets.c_str(), summary.largest);
  return kAgrees;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const name = tools::model().info->name;
  std::vector<std::string> targets;
  std::string reference;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help" || option == "-h") {
      std::printf(kHelp, argv[0], name, tools::targets_text().c_str());
      return kAgrees;
    }
    if (option != "--target" && option != "--reference") fail("unknown argument " + option + "; see --help");
    if (++i == argc) fail(option + " needs a value; see --help");
    if (option == "--reference") {
      reference = argv[i];
    } else if (tools::has_target(argv[i])) {
      targets.emplace_back(argv[i]);
    } else {
      fail(std::string("there is no target ") + argv[i] + " in this model: there are " + tools::targets_text());
    }
  }
  return test(targets, reference);
}
