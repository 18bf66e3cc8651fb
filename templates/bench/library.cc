// Runs a model library for `tfaot-pkg bench`: library ANSWERS LIBRARY COPIES TARGET INPUTS ROWS [turning]
//
// COPIES with a number from 1 on are files with the same content: the system shares the memory of one file.
// INPUTS holds the values of all inputs, each from the next multiple of 64 bytes on, ROWS rows of each that has a batch
// axis. They are read first, so that the memory of the process before it loads the library includes them. With `turning`
// each measured run gets the next rows (chunks.h). Requests and answers are those of serving.h.

#include <dlfcn.h>

#include "../tools/sealed.h"
#include "serving.h"
#include "tfaot/c_api.h"
#include "tfaot/permissions.h"

namespace {

using tfaot_bench::aligned;
using tfaot_bench::Turning;

std::size_t bytesOf(const tfaot_tensor& tensor, std::int64_t rows) {
  const std::int64_t count = (tensor.has_batch_axis != 0 ? rows : 1) * tensor.row_elements;
  return static_cast<std::size_t>(count * tensor.element_size);
}

// A model library, with buffers for `rows` rows.
class Library {
 public:
  Library(const char* path, const char* copies, const char* target, const char* inputs, std::int64_t rows, bool isTurning)
      : path_(path), copies_(copies), target_(target), values_(inputs), rows_(rows), isTurning_(isTurning) {}

  const char* load(std::int64_t batchSize, int copy) {
    if (batchSize == tfaot_bench::kIdentity) return "no such request";
    const auto number = static_cast<std::size_t>(copy);
    if (number < instances_.size()) return "";
    char path[4096];
    if (copy == 0) {
      std::snprintf(path, sizeof path, "%s", path_);
    } else {
      std::snprintf(path, sizeof path, "%s%d", copies_, copy);
    }
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    void* entry = dlsym(library, TFAOT_ENTRY_POINT);
    if (entry == nullptr) return dlerror();
    model_ = reinterpret_cast<const tfaot_model_table* (*)()>(entry)();
    static char message[TFAOT_MESSAGE_SIZE];
    tfaot_instance* instance = nullptr;
    tfaot::detail::permit(*model_, target_);
    if (model_->create(target_, &instance, message, sizeof message) != TFAOT_OK) return message;
    instances_.push_back({model_, instance});
    if (copy != 0) return "";
    std::size_t offset = 0;
    for (std::size_t i = 0; i < model_->info->num_inputs; ++i) {
      inputs_.push_back(values_ + offset);
      offset += tfaot_bench::roundedUp(bytesOf(model_->info->inputs[i], rows_));
    }
    for (std::size_t i = 0; i < model_->info->num_outputs; ++i) {
      outputs_.push_back(aligned(bytesOf(model_->info->outputs[i], rows_)));
      if (outputs_.back() == nullptr) return "out of memory";
    }
    return "";
  }

  auto run(std::int64_t batchSize, int copy) {
    return [this, batchSize, &instance = instances_[static_cast<std::size_t>(copy)]] {
      return runWith(instance, inputs_, batchSize);
    };
  }

  auto runNext(std::int64_t batchSize) {
    return [this, batchSize, rows = isTurning_ ? turning(batchSize) : std::vector<Turning>()]() mutable {
      for (Turning& each : rows) each.next();
      return runWith(instances_[0], rows.empty() ? inputs_ : turned_, batchSize);
    };
  }

  const char* message() const { return model_->message(instances_[0].instance); }

  std::vector<tfaot_bench::Part> parts(std::int64_t rows) const {
    std::vector<tfaot_bench::Part> found;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      found.push_back({outputs_[i], bytesOf(model_->info->outputs[i], rows)});
    }
    return found;
  }

 private:
  struct Instance {
    const tfaot_model_table* model;
    tfaot_instance* instance;
  };

  bool runWith(const Instance& one, const std::vector<const void*>& inputs, std::int64_t batchSize) {
    return one.model->run(one.instance, batchSize, inputs.data(), outputs_.data()) == TFAOT_OK;
  }

  // The buffers of the first rows, and the sources of the next ones.
  std::vector<Turning> turning(std::int64_t batchSize) {
    std::vector<Turning> found;
    turned_ = inputs_;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const tfaot_tensor& tensor = model_->info->inputs[i];
      const std::size_t size = bytesOf(tensor, batchSize);
      if (tensor.has_batch_axis == 0) continue;
      if (buffers_.size() <= i) buffers_.resize(i + 1, nullptr);
      if (buffers_[i] == nullptr) buffers_[i] = aligned(bytesOf(tensor, rows_));
      if (buffers_[i] == nullptr) continue;
      turned_[i] = buffers_[i];
      found.push_back({buffers_[i], static_cast<const char*>(inputs_[i]), size, bytesOf(tensor, rows_)});
    }
    return found;
  }

  const char *path_, *copies_, *target_, *values_;
  std::int64_t rows_;
  bool isTurning_;
  const tfaot_model_table* model_ = nullptr;
  std::vector<Instance> instances_;
  std::vector<const void*> inputs_, turned_;
  std::vector<char*> buffers_;
  std::vector<void*> outputs_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7 && argc != 8) return 2;
  tools::start_no_programs();
  const char* inputs = tfaot_bench::contentOf(argv[5]);
  if (inputs == nullptr) return 3;
  Library library(argv[2], argv[3], argv[4], inputs, std::atoll(argv[6]), argc == 8);
  return tfaot_bench::serve(std::atoi(argv[1]), library);
}
