// The functions of bridge.cpp for another process, the test: this one may run under an emulator. Commands are lines on
// standard input; answers are words of 64 bits, but for `read`:
//
//     new SIZE AT_END        SIZE bytes follow the line; answer: where they lie now, beside a page not to be touched
//     read ADDRESS SIZE      answer: the bytes
//     free ADDRESS           no answer
//     call NAME COUNT WORD...  answer: what the function returns, or 0
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bridge.cpp"

namespace {

using Word = std::uint64_t;

template <class To>
To as(Word word) {
  if constexpr (std::is_pointer_v<To>) {
    return reinterpret_cast<To>(word);
  } else {
    return static_cast<To>(word);
  }
}

template <class Result, class... Parameters, std::size_t... kIndex>
Word called(Result (*function)(Parameters...), const std::vector<Word>& words, std::index_sequence<kIndex...>) {
  if constexpr (std::is_void_v<Result>) {
    function(as<Parameters>(words.at(kIndex))...);
    return 0;
  } else {
    return function(as<Parameters>(words.at(kIndex))...);
  }
}

template <class Result, class... Parameters>
Word called(Result (*function)(Parameters...), const std::vector<Word>& words) {
  return called(function, words, std::index_sequence_for<Parameters...>{});
}

#define FUNCTION(name) {#name, [](const std::vector<Word>& words) { return called(&name, words); }}
const std::map<std::string, Word (*)(const std::vector<Word>&)> kFunctions = {
    FUNCTION(activate),
    FUNCTION(add),
    FUNCTION(softmax),
    FUNCTION(scale_rows),
    FUNCTION(packed_size),
    FUNCTION(pack),
    FUNCTION(dense),
    FUNCTION(sparse_dense_scratch),
    FUNCTION(sparse_dense),
    FUNCTION(narrow_dense),
    FUNCTION(bfloat16_dense_scratch),
    FUNCTION(bfloat16_dense),
    FUNCTION(bfloat16_dense_as_floats),
    FUNCTION(bfloat16_dense_by_team),
    FUNCTION(bfloat16_conv2d_scratch),
    FUNCTION(bfloat16_conv2d),
    FUNCTION(bfloat16_conv2d_as_floats),
    FUNCTION(bfloat16_conv2d_by_team),
    FUNCTION(may_use_tiles),
    FUNCTION(quantized_dense_scratch),
    FUNCTION(quantized_dense),
    FUNCTION(quantized_dense_in_pairs),
    FUNCTION(quantized_dense_by_steps),
    FUNCTION(quantized_dense_by_tiles),
    FUNCTION(quantized_dense_by_team),
    FUNCTION(quantized_dense_tiles_by_team),
    FUNCTION(quantized_conv2d_scratch),
    FUNCTION(quantized_conv2d),
    FUNCTION(quantized_conv2d_in_pairs),
    FUNCTION(quantized_conv2d_by_steps),
    FUNCTION(quantized_conv2d_by_tiles),
    FUNCTION(quantized_conv2d_by_team),
    FUNCTION(quantized_conv2d_tiles_by_team),
    FUNCTION(quantized_depthwise_scratch),
    FUNCTION(quantized_depthwise),
    FUNCTION(quantized_depthwise_in_pairs),
    FUNCTION(quantized_groups_scratch),
    FUNCTION(quantized_groups),
    FUNCTION(quantized_groups_in_pairs),
    FUNCTION(packed_conv2d_size),
    FUNCTION(pack_conv2d),
    FUNCTION(conv2d_scratch),
    FUNCTION(conv2d),
    FUNCTION(transposed_conv2d_scratch),
    FUNCTION(transposed_conv2d),
    FUNCTION(conv2d_max_pool_scratch),
    FUNCTION(conv2d_max_pool),
    FUNCTION(conv2d_max_pool_nan),
    FUNCTION(look_up),
    FUNCTION(packed_bfloat16_size),
    FUNCTION(pack_bfloat16),
    FUNCTION(bfloat16_product),
    FUNCTION(max_pool),
    FUNCTION(max_pool_nan),
    FUNCTION(max_pool_u8),
    FUNCTION(max_pool_s8),
    FUNCTION(average_pool),
};

struct Mapping {
  void* start;
  std::size_t size;
};

class Memory {
 public:
  char* allocate(std::size_t size, bool atEnd) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inner = (size / page + 1) * page;
    // At the same addresses in each process, so that recorded commands can be given to another one.
    void* const start = mmap(reinterpret_cast<void*>(next_), inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    next_ += inner + 2 * page;
    char* const first = static_cast<char*>(start) + page;
    if (start == MAP_FAILED || mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) std::abort();
    char* const data = atEnd ? first + inner - size : first;
    mappings_[data] = {start, inner + 2 * page};
    return data;
  }

  void free(const char* data) {
    const Mapping& mapping = mappings_.at(data);
    munmap(mapping.start, mapping.size);
    mappings_.erase(data);
  }

 private:
  std::map<const char*, Mapping> mappings_;
  std::uintptr_t next_ = std::uintptr_t{1} << 44;
};

void answer(Word word) { std::cout.write(reinterpret_cast<const char*>(&word), sizeof word).flush(); }

Word next() {
  Word word = 0;
  std::cin >> word;
  return word;
}

}  // namespace

int main() {
  Memory memory;
  std::ios::sync_with_stdio(false);
  for (std::string command; std::cin >> command;) {
    if (command == "new") {
      const std::size_t size = next();
      char* const data = memory.allocate(size, next() != 0);
      std::cin.ignore(1);
      std::cin.read(data, static_cast<std::streamsize>(size));
      answer(reinterpret_cast<Word>(data));
    } else if (command == "read") {
      const char* const data = as<const char*>(next());
      std::cout.write(data, static_cast<std::streamsize>(next())).flush();
    } else if (command == "free") {
      memory.free(as<const char*>(next()));
    } else {
      std::string name;
      std::cin >> name;
      std::vector<Word> words(next());
      for (Word& word : words) word = next();
      answer(kFunctions.at(name)(words));
    }
  }
  return 0;
}
