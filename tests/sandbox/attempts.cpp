// What a hostile native program tries: attempts MODEL SECRET OUTSIDE PROCESS PORT prints a line "NAME: RESULT" for each
// attempt, RESULT is "done" or the error.

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

namespace {

void attempt(const char* name, const std::function<bool()>& action) {
  errno = 0;
  const bool done = action();
  std::printf("%s: %s\n", name, done ? "done" : std::strerror(errno));
}

bool opened(const std::string& path, int flags) {
  const int file = open(path.c_str(), flags, 0600);
  if (file >= 0) close(file);
  return file >= 0;
}

bool forked() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  if (child > 0) waitpid(child, nullptr, 0);
  return child > 0;
}

bool connected(int port) {
  const int handle = socket(AF_INET, SOCK_STREAM, 0);
  if (handle < 0) return false;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(handle, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

bool ran(const char* program) {
  char* const words[] = {const_cast<char*>(program), nullptr};
  return execv(program, words) == 0;
}

void* nothing(void*) { return nullptr; }

}  // namespace

int main(int, char** argv) {
  const std::string model = argv[1], secret = argv[2], outside = argv[3];
  const pid_t process = std::atoi(argv[4]);
  const int port = std::atoi(argv[5]);
  attempt("read the model", [&] { return opened(model + "/file", O_RDONLY); });
  attempt("write scratch", [&] { return opened("file", O_WRONLY | O_CREAT); });
  attempt("start a thread", [&] {
    pthread_t thread;
    if ((errno = pthread_create(&thread, nullptr, nothing, nullptr)) != 0) return false;
    return pthread_join(thread, nullptr) == 0;
  });
  attempt("read a secret", [&] { return opened(secret, O_RDONLY); });
  attempt("read /etc/passwd", [&] { return opened("/etc/passwd", O_RDONLY); });
  attempt("read /etc/shadow", [&] { return opened("/etc/shadow", O_RDONLY); });
  attempt("write outside", [&] { return opened(outside + "/file", O_WRONLY | O_CREAT); });
  attempt("write the model", [&] { return opened(model + "/new", O_WRONLY | O_CREAT); });
  attempt("make a link", [&] { return symlink(secret.c_str(), "link") == 0; });
  attempt("fork", forked);
  attempt("connect", [&] { return connected(port); });
  attempt("signal a process", [&] { return kill(process, SIGKILL) == 0; });
  attempt("trace a process", [&] { return ptrace(PTRACE_ATTACH, process, nullptr, nullptr) == 0; });
  attempt("see a process", [&] { return opened("/proc/" + std::to_string(process) + "/status", O_RDONLY); });
  attempt("read the environment", [&] { return std::getenv("TFAOT_TEST_SECRET") != nullptr; });
  attempt("take all memory", [&] {
    return mmap(nullptr, std::size_t{64} << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
  });
  std::fflush(stdout);
  attempt("run a shell", [&] { return ran("/bin/sh"); });
  attempt("run a program", [&] { return ran("/usr/bin/env"); });
  return 0;
}
