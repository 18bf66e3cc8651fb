// A stand-in for CMSSW's header of this name: its names in namespace tfaot, and all that it asks of a model's class.
#ifndef TESTS_TENSORFLOWAOT_MODEL_H
#define TESTS_TENSORFLOWAOT_MODEL_H

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tfaot {

typedef std::vector<std::vector<float>> FloatArrays;

class BatchRule {};
class BatchStrategy {};

/// Runs row by row on the smallest compiled size; the other rows of it are padding.
template <class W>
class Model {
 public:
  Model() : compiled_(std::make_unique<W>()) {}

  const std::string& name() const { return compiled_->name(); }

  template <class... Outputs, class... Inputs>
  std::tuple<Outputs...> run(std::size_t batchSize, Inputs&&... inputs) {
    if (sizeof...(Inputs) != compiled_->nArgs() || sizeof...(Outputs) != compiled_->nResults()) std::terminate();
    const std::size_t size = compiled_->batchSizes().front();
    std::tuple<Outputs...> outputs;
    for (std::size_t row = 0; row < batchSize; ++row) {
      std::size_t i = 0;
      (put(size, i++, inputs[row]), ...);
      compiled_->run(size);
      take(size, outputs, std::index_sequence_for<Outputs...>());
    }
    return outputs;
  }

 private:
  template <class T>
  void put(std::size_t size, std::size_t index, const std::vector<T>& row) {
    if (row.size() != static_cast<std::size_t>(compiled_->argCountNoBatch(index))) std::terminate();
    std::copy(row.begin(), row.end(), compiled_->template argData<T>(size, index));
  }

  template <class... Outputs, std::size_t... I>
  void take(std::size_t size, std::tuple<Outputs...>& outputs, std::index_sequence<I...>) const {
    (take_one(size, I, std::get<I>(outputs)), ...);
  }

  template <class T>
  void take_one(std::size_t size, std::size_t index, std::vector<std::vector<T>>& rows) const {
    const W& compiled = *compiled_;
    const T* const from = compiled.template resultData<T>(size, index);
    rows.emplace_back(from, from + compiled.resultCountNoBatch(index));
  }

  std::unique_ptr<W> compiled_;
  BatchStrategy strategy_;
};

}  // namespace tfaot

#endif
