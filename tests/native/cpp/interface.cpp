// tfaot::Model over the sample models: TensorFlow's answers through every kind of call, at many batch sizes.
//
// usage: interface FOLDER
//
// FOLDER/MODEL.TENSOR.bin holds 1000 rows of each input and output. Prints what is wrong. With COUNT_ALLOCATIONS it also
// counts what is allocated once all sizes ran.
#ifdef COUNT_ALLOCATIONS
#include "count_allocations.h"
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <tfaot-model-digits/model.h>
#include <tfaot-model-wine/model.h>
#include <tfaot/pool.h>
#include <tfaot/shared.h>
#include <tfaot/threads.h>

namespace {

constexpr std::size_t kRows = 1000;
constexpr std::size_t kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 100, 1000};

template <class T>
bool agree(const T& ours, const T& theirs) {
  if constexpr (std::is_integral<T>::value) {
    return ours == theirs;
  } else {
    return std::fabs(ours - theirs) <= T(1e-5) + T(1e-4) * std::fabs(theirs);
  }
}

template <class T>
void read(const std::string& path, std::vector<T>& values) {
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  if (!file) throw std::runtime_error(path + " is too short or not there");
}

/// The rows of a model's tensors, one vector each, `offset` elements behind an aligned address.
template <class Types, class Indices>
class Rows;
template <class... T, std::size_t... I>
class Rows<std::tuple<T...>, std::index_sequence<I...>> {
 public:
  template <class Tensors>
  explicit Rows(const Tensors& tensors, std::size_t offset = 0)
      : row_sizes_{tensors[I].row_size...},
        offset_(offset),
        values_(std::vector<T>(kRows * tensors[I].row_size + offset)...) {}

  template <class Tensors>
  void read_from(const std::string& folder, const std::string& model, const Tensors& tensors) {
    (read(folder + "/" + model + "." + tensors[I].name + ".bin", std::get<I>(values_)), ...);
  }

  template <class Spans>
  Spans spans(std::size_t count) {
    return {{std::get<I>(values_).data() + offset_, count * row_sizes_[I]}...};
  }

  std::tuple<tfaot::Arrays<T>...> nested(std::size_t count) const { return {nested_one<I, T>(count)...}; }

  template <class Spans>
  bool agree_with(const Spans& ours, std::size_t count) const {
    return (agrees<I>(ours.template get<I>(), count) && ...);
  }
  bool agree_with(const std::tuple<tfaot::Arrays<T>...>& ours, std::size_t count) const {
    return (nested_agrees<I>(std::get<I>(ours), count) && ...);
  }

  void copy_from(const Rows& other) {
    (std::copy(std::get<I>(other.values_).begin(), std::get<I>(other.values_).end(),
               std::get<I>(values_).begin() + static_cast<std::ptrdiff_t>(offset_)),
     ...);
  }

 private:
  template <std::size_t K, class Span>
  bool agrees(const Span& ours, std::size_t count) const {
    bool good = ours.size() == count * row_sizes_[K];
    for (std::size_t i = 0; good && i < ours.size(); ++i) good = agree(ours[i], std::get<K>(values_)[i]);
    return good;
  }
  template <std::size_t K, class U>
  bool nested_agrees(const tfaot::Arrays<U>& ours, std::size_t count) const {
    bool good = ours.size() == count;
    for (std::size_t i = 0; good && i < count; ++i) {
      good = ours[i].size() == row_sizes_[K];
      for (std::size_t j = 0; good && j < row_sizes_[K]; ++j) {
        good = agree(ours[i][j], std::get<K>(values_)[i * row_sizes_[K] + j]);
      }
    }
    return good;
  }
  template <std::size_t K, class U>
  tfaot::Arrays<U> nested_one(std::size_t count) const {
    tfaot::Arrays<U> rows;
    for (std::size_t i = 0; i < count; ++i) {
      const U* const row = std::get<K>(values_).data() + i * row_sizes_[K];
      rows.emplace_back(row, row + row_sizes_[K]);
    }
    return rows;
  }

  std::size_t row_sizes_[sizeof...(T)];
  std::size_t offset_;
  std::tuple<std::vector<T>...> values_;
};

template <class W>
class Test {
  using InRows = Rows<typename W::InputTypes, std::make_index_sequence<std::tuple_size<typename W::InputTypes>::value>>;
  using OutRows =
      Rows<typename W::OutputTypes, std::make_index_sequence<std::tuple_size<typename W::OutputTypes>::value>>;
  using Inputs = typename W::Inputs;
  using Outputs = typename W::Outputs;

 public:
  explicit Test(const std::string& folder) : in_(W::inputs), answers_(W::outputs) {
    in_.read_from(folder, W::name, W::inputs);
    answers_.read_from(folder, W::name, W::outputs);
  }

  int failures() {
    for (const std::size_t offset : {0u, 1u}) contiguous(offset);
    for (const std::size_t size : kSizes) nested(size, typename W::OutputTypes());
    pool();
    return failures_;
  }

 private:
  void expect(bool good, const char* what, std::size_t number) {
    if (good) return;
    std::printf("%s: wrong: %s: %zu\n", W::name, what, number);
    ++failures_;
  }

  void contiguous(std::size_t offset) {
    tfaot::Model<W> model;
    const tfaot::Shared<W> shared;
    tfaot::Threads threads(2);
    InRows in(W::inputs, offset);
    in.copy_from(in_);
    OutRows out(W::outputs, offset);
    const auto all_sizes = [&](bool check) {
      for (const std::size_t size : kSizes) {
        const Inputs inputs = in.template spans<Inputs>(size);
        const Outputs outputs = out.template spans<Outputs>(size);
        model.run(size, inputs, outputs);
        if (check) expect(answers_.agree_with(outputs, size), "the caller's buffers", size);
        const Outputs own = model.run(size, inputs);
        if (check) expect(answers_.agree_with(own, size), "the model's buffers", size);
        shared.run(size, inputs, outputs, tfaot::team_of(threads));
        if (check) expect(answers_.agree_with(outputs, size), "two threads", size);
      }
    };
    all_sizes(true);
    model.calibrate(std::chrono::milliseconds(2));
    all_sizes(true);
#ifdef COUNT_ALLOCATIONS
    const std::size_t count = allocations_of([&] { all_sizes(false); });
    expect(count == 0, "allocations", count);
#endif
  }

  template <class... Types>
  void nested(std::size_t size, const std::tuple<Types...>&) {
    tfaot::Model<W> model;
    const auto results = std::apply(
        [&](const auto&... rows) { return model.template run<tfaot::Arrays<Types>...>(size, rows...); },
        in_.nested(size));
    expect(answers_.agree_with(results, size), "nested vectors", size);
    expect(model.getBatchStrategy().hasRule(size) || size > 20, "a rule", size);
  }

  void pool() {
    tfaot::Pool<W> pool;
    bool good[4] = {};
    std::vector<std::thread> threads;
    for (bool& mine : good) {
      threads.emplace_back([&] {
        OutRows out(W::outputs);
        mine = true;
        for (const std::size_t size : kSizes) {
          const Outputs outputs = out.template spans<Outputs>(size);
          pool.borrow()->run(size, in_.template spans<Inputs>(size), outputs);
          mine = mine && answers_.agree_with(outputs, size);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const bool one : good) expect(one, "a pool", pool.size());
  }

  InRows in_;
  OutRows answers_;
  int failures_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: interface FOLDER");
  const int failures =
      Test<tfaot_model::digits>(argv[1]).failures() + Test<tfaot_model::wine>(argv[1]).failures();
  return failures == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
