// Wine's columns, as ROOT's RDataFrame calls a function of them: it takes the types of the arguments from operator(),
// copies the function, and calls it from several threads.
#include <cstddef>
#include <cstdio>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <tfaot-model-digits/model.h>
#include <tfaot-model-wine/model.h>
#include <tfaot/columns.h>

template <class Type>
class RVec : public std::vector<Type> {  // one parameter, as ROOT's
 public:
  using std::vector<Type>::vector;
};

using Wine = tfaot_model::wine;
using Digits = tfaot_model::digits;
constexpr std::size_t kColumns = 13;

template <class Function, class Result, class... Arguments>
std::tuple<Result, Arguments...> signature(Result (Function::*)(Arguments...) const);
template <class Function>
using Signature = decltype(signature(&Function::operator()));

template <std::size_t... Column, class Function, class Row>
auto called(std::index_sequence<Column...>, const Function& function, const Row& row) {
  return function(row[Column]...);
}

void print(const char* what, double value) { std::printf("%s %.9g\n", what, value); }

int main(int count, char** arguments) {
  static_assert(std::tuple_size<Signature<decltype(tfaot::column<Wine>(0))>>::value == 1 + kColumns);
  static_assert(std::tuple_size<Signature<decltype(tfaot::column<Digits>())>>::value == 1 + 64);
  static_assert(std::is_same<std::tuple_element_t<0, Signature<decltype(tfaot::column<Digits>())>>, std::int64_t>::value);
  static_assert(std::is_same<std::tuple_element_t<1, Signature<decltype(tfaot::column_of_rows<Wine, RVec>())>>,
                             const RVec<float>&>::value);
  const auto columns = std::make_index_sequence<kColumns>();
  if (count == 1) {
    try {
      tfaot::column<Wine>(3);
    } catch (const tfaot::Error& error) {
      std::printf("%s\n", error.what());
    }
    std::vector<RVec<float>> uneven(kColumns, RVec<float>(2));
    uneven[7].pop_back();
    try {
      called(columns, tfaot::column_of_rows<Wine, RVec>(), uneven);
    } catch (const tfaot::Error& error) {
      std::printf("%s\n", error.what());
    }
    std::printf("%zu\n", called(columns, tfaot::column_of_rows<Wine, RVec>(), std::vector<RVec<float>>(kColumns)).size());
    return 0;
  }
  std::vector<std::vector<float>> rows;
  std::FILE* file = std::fopen(arguments[1], "rb");
  for (std::vector<float> row(kColumns); std::fread(row.data(), sizeof(float), kColumns, file) == kColumns;) {
    rows.push_back(row);
  }
  std::fclose(file);
  const auto second = tfaot::column<Wine>(1);
  const auto whole = tfaot::column<Wine>();
  std::vector<float> numbers(rows.size());
  const auto half = [&, copy = second](std::size_t first) {
    for (std::size_t row = first; row < rows.size(); row += 2) numbers[row] = called(columns, copy, rows[row]);
  };
  std::thread other(half, 1);
  half(0);
  other.join();
  std::vector<RVec<float>> apart(kColumns);
  for (const auto& row : rows) {
    for (std::size_t column = 0; column < kColumns; ++column) apart[column].push_back(row[column]);
  }
  const RVec<float> together = called(columns, tfaot::column_of_rows<Wine, RVec>(1), apart);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (together[row] != numbers[row] || called(columns, whole, rows[row])[1] != numbers[row]) return 1;
    print("row", static_cast<double>(numbers[row]));
  }
}
