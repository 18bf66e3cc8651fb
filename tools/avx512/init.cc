// init.cc: the only process of the emulated machine (run.py). It runs programs and hands back what they wrote.
//
// /job holds the folder whose files are handed back, and a line for each run: input, output, and the program with its
// arguments, with tabs between. What goes back is written to Bochs's debugging port, whose bytes appear on Bochs's
// standard output:
//
//     NUL avx512 NUL, then for each file  PATH NUL SIZE NUL BYTES, then  NUL STATUS NUL
//
// The status is that of the first run that failed, or 0.
#include <fcntl.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr unsigned short kDebuggingPort = 0xe9, kPowerPort = 0x8900;

using Times = std::map<std::string, std::filesystem::file_time_type>;

void send(const void* data, std::size_t size) { outsb(kDebuggingPort, data, size); }
void send(const std::string& text) { send(text.c_str(), text.size() + 1); }

void sendFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  send(path);
  send(std::to_string(bytes.size()));
  send(bytes.data(), bytes.size());
}

Times timesBelow(const std::string& folder) {
  Times found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) found[entry.path()] = entry.last_write_time();
  }
  return found;
}

int runProgram(const std::vector<std::string>& words) {
  const pid_t child = fork();
  if (child == 0) {
    const int in = open(words[0].c_str(), O_RDONLY);
    const int out = open(words[1].c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<char*> arguments;
    for (std::size_t i = 2; i < words.size(); ++i) arguments.push_back(const_cast<char*>(words[i].c_str()));
    arguments.push_back(nullptr);
    if (dup2(in, 0) == 0 && dup2(out, 1) == 1) execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<std::string> wordsOf(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream rest(line);
  for (std::string word; std::getline(rest, word, '\t');) words.push_back(word);
  return words;
}

}  // namespace

int main() {
  mkdir("/dev", 0755);
  mkdir("/proc", 0755);
  mount("dev", "/dev", "devtmpfs", 0, nullptr);
  mount("proc", "/proc", "proc", 0, nullptr);
  iopl(3);
  std::ifstream job("/job");
  std::string folder;
  std::getline(job, folder);
  const Times before = timesBelow(folder);
  int status = 0;
  for (std::string line; std::getline(job, line);) {
    const int found = runProgram(wordsOf(line));
    if (status == 0) status = found;
  }
  send("", 1);
  send(std::string("avx512"));
  for (const auto& [path, time] : timesBelow(folder)) {
    const auto known = before.find(path);
    if (known == before.end() || known->second != time) sendFile(path);
  }
  send("", 1);
  send(std::to_string(status));
  for (const char letter : {'S', 'h', 'u', 't', 'd', 'o', 'w', 'n'}) outb(static_cast<unsigned char>(letter), kPowerPort);
  for (;;) pause();
}
