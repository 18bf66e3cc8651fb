// rows.cpp: runs programs on files, for targets that only an emulator runs.
//
// Each line of standard input is a call: NUMBER ROWS SCRATCH WEIGHTS INPUTS PATH... OUTPUTS PATH SIZE..., with the number
// of the program, bytes of scratch, a file of weights, and the numbers and files of inputs and outputs.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "tfaot_kernels/team.h"

using Function = void (*)(std::size_t, const void* const*, void* const*, const unsigned char*, unsigned char*,
                          const tfaot_kernels::Team*);
extern const Function kPrograms[];

namespace {

/// Bytes that begin at a cache line.
class Memory {
 public:
  explicit Memory(std::size_t size, int filling) : size_(size), data_(std::aligned_alloc(64, (size + 127) / 64 * 64)) {
    std::memset(data_, filling, size_);
  }
  explicit Memory(const std::string& path) : Memory(contents(path)) {}
  Memory(const Memory&) = delete;
  ~Memory() { std::free(data_); }
  char* data() const { return static_cast<char*>(data_); }
  std::size_t size() const { return size_; }

 private:
  explicit Memory(const std::vector<char>& bytes) : Memory(bytes.size(), 0) {
    if (!bytes.empty()) std::memcpy(data_, bytes.data(), bytes.size());
  }
  static std::vector<char> contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) std::exit(2);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::size_t size_;
  void* data_;
};

template <class Value>
Value next() {
  Value value;
  if (!(std::cin >> value)) std::exit(0);
  return value;
}

unsigned char* bytes(const Memory& memory) { return reinterpret_cast<unsigned char*>(memory.data()); }

}  // namespace

int main() {
  for (;;) {
    const Function program = kPrograms[next<std::size_t>()];
    const auto rows = next<std::size_t>();
    const Memory scratch(next<std::size_t>(), 0xff);
    const Memory weights(next<std::string>());
    std::vector<Memory*> held;
    std::vector<const void*> inputs;
    for (auto count = next<std::size_t>(); count > 0; --count) {
      held.push_back(new Memory(next<std::string>()));
      inputs.push_back(held.back()->data());
    }
    std::vector<std::string> paths;
    std::vector<void*> outputs;
    const std::size_t first = held.size();
    for (auto count = next<std::size_t>(); count > 0; --count) {
      paths.push_back(next<std::string>());
      held.push_back(new Memory(next<std::size_t>(), 0xff));
      outputs.push_back(held.back()->data());
    }
    program(rows, inputs.data(), outputs.data(), bytes(weights), bytes(scratch), nullptr);
    for (std::size_t i = 0; i < paths.size(); ++i) {
      std::ofstream file(paths[i], std::ios::binary);
      file.write(held[first + i]->data(), static_cast<std::streamsize>(held[first + i]->size()));
      if (!file) std::exit(3);
    }
    for (Memory* each : held) delete each;
  }
}
