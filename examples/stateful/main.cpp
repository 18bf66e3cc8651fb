// Processes frames one by one as they arrive from a file or a pipe: a line of four numbers in, a line with the position out.
//
// usage: track [--state FILE] < frames.txt
//
// With --state the state is read from FILE, if it exists, and written to it at the end, so that the next run continues.

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <tfaot-model-tracker/model.h>
#include <tfaot/state.h>

using Tracker = tfaot_model::tracker;

namespace {

void restore(tfaot::State<Tracker>& state, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return;
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  state.restore({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

bool save(const tfaot::State<Tracker>& state, const std::string& path) {
  const std::vector<std::byte> bytes = state.save();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return static_cast<bool>(file.flush());
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string path = argc == 3 && std::strcmp(argv[1], "--state") == 0 ? argv[2] : "";
  if (argc != 1 && path.empty()) {
    std::cerr << "usage: track [--state FILE] < frames.txt\n";
    return 2;
  }
  const tfaot::Shared<Tracker> model;
  tfaot::State<Tracker> state(model);
  if (!path.empty()) restore(state, path);
  float frame[4];
  while (std::cin >> frame[0] >> frame[1] >> frame[2] >> frame[3]) {
    const auto out = state.step({frame});
    std::printf("%.9g %.9g\n", static_cast<double>(out.position[0]), static_cast<double>(out.position[1]));
    std::fflush(stdout);  // so that the reader of a pipe gets each answer immediately
  }
  if (!std::cin.eof()) {
    std::cerr << "a frame is four numbers\n";
    return 1;
  }
  if (!path.empty() && !save(state, path)) {
    std::cerr << path << ": cannot be written\n";
    return 1;
  }
  return 0;
} catch (const tfaot::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
