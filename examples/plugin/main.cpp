// Opens any number of classifiers with dlopen, all at once, and scores each on a table of its own.
//
// usage: score LIBRARY TABLE.csv [LIBRARY TABLE.csv]...
//
// Each line of a table is one row of all inputs (floats, in the model's order) and the correct class. The model's answer is
// the class with the largest element of its output `probability`.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <tfaot/c_api.h>

// A model in a shared library, which stays open as long as this object exists.
class Model {
 public:
  explicit Model(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), &dlclose) {
    if (!library_) throw std::runtime_error(dlerror());
    void* entry = dlsym(library_.get(), TFAOT_ENTRY_POINT);
    if (entry == nullptr) throw std::runtime_error(path + " is not a model library");
    table_ = reinterpret_cast<const tfaot_model_table* (*)()>(entry)();
    char message[TFAOT_MESSAGE_SIZE];
    tfaot_instance* instance = nullptr;
    if (table_->create(nullptr, &instance, message, sizeof message) != TFAOT_OK) throw std::runtime_error(message);
    instance_ = {instance, table_->destroy};
  }

  const tfaot_info& info() const { return *table_->info; }
  std::string target() const { return table_->target(instance_.get()); }

  // One batch of a compiled size; buffers in the order of info().
  void run(std::int64_t batch_size, const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
    if (table_->run(instance_.get(), batch_size, inputs.data(), outputs.data()) != TFAOT_OK) {
      throw std::runtime_error(table_->message(instance_.get()));
    }
  }

 private:
  std::unique_ptr<void, int (*)(void*)> library_;  // first, so that it is closed last
  const tfaot_model_table* table_ = nullptr;
  std::unique_ptr<tfaot_instance, void (*)(tfaot_instance*)> instance_{nullptr, nullptr};
};

using Row = std::vector<float>;

std::vector<Row> read_csv(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(std::stof(cell));
  }
  return rows;
}

// A buffer per tensor for one row.
std::vector<std::vector<unsigned char>> buffers(const tfaot_tensor* tensors, std::size_t count) {
  std::vector<std::vector<unsigned char>> made;
  for (std::size_t i = 0; i < count; ++i) {
    made.emplace_back(static_cast<std::size_t>(tensors[i].row_elements * tensors[i].element_size));
  }
  return made;
}

std::size_t probability_of(const tfaot_info& info) {
  for (std::size_t i = 0; i < info.num_outputs; ++i) {
    if (info.outputs[i].name == std::string("probability") && info.outputs[i].dtype == TFAOT_FLOAT32) return i;
  }
  throw std::runtime_error(std::string(info.name) + " has no output `probability` of float32");
}

void check_row(const tfaot_info& info, const Row& row) {
  std::int64_t columns = 1;
  for (std::size_t i = 0; i < info.num_inputs; ++i) {
    if (info.inputs[i].dtype != TFAOT_FLOAT32) throw std::runtime_error(std::string(info.name) + " takes not only floats");
    columns += info.inputs[i].row_elements;
  }
  if (static_cast<std::int64_t>(row.size()) != columns) {
    throw std::runtime_error("a row for " + std::string(info.name) + " has " + std::to_string(columns) + " columns");
  }
}

// The model's class for `row`, whose last column is ignored.
std::size_t classify(Model& model, const Row& row) {
  const tfaot_info& info = model.info();
  check_row(info, row);
  std::vector<const void*> inputs;
  const float* column = row.data();
  for (std::size_t i = 0; i < info.num_inputs; ++i) {
    inputs.push_back(column);
    column += info.inputs[i].row_elements;
  }
  auto results = buffers(info.outputs, info.num_outputs);
  std::vector<void*> outputs;
  for (auto& result : results) outputs.push_back(result.data());
  model.run(1, inputs, outputs);
  const std::size_t index = probability_of(info);
  const float* first = static_cast<const float*>(outputs[index]);
  return static_cast<std::size_t>(std::max_element(first, first + info.outputs[index].row_elements) - first);
}

int main(int argc, char** argv) try {
  if (argc < 3 || argc % 2 == 0) throw std::runtime_error("usage: score LIBRARY TABLE.csv [LIBRARY TABLE.csv]...");
  std::vector<Model> models;
  for (int i = 1; i < argc; i += 2) models.emplace_back(argv[i]);
  for (std::size_t i = 0; i < models.size(); ++i) {
    const std::vector<Row> rows = read_csv(argv[2 * i + 2]);
    const auto right = std::count_if(rows.begin(), rows.end(), [&](const Row& row) {
      return static_cast<float>(classify(models[i], row)) == row.back();
    });
    const tfaot_info& info = models[i].info();
    std::printf("%s %s (%s): %td of %zu right\n", info.name, info.version, models[i].target().c_str(), right, rows.size());
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
