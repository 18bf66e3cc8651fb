// Spans of a library that was built with `package: {profile: true}`, in Chrome's trace event format.
//
// If the environment variable TFAOT_PROFILE names a file, each call appends a span for each step. The file is whole
// JSON after every call; several threads, libraries and processes may share it. Without the variable a step costs a
// comparison. A file that holds something else is left alone.
#ifndef TFAOT_NATIVE_PROFILE_H_
#define TFAOT_NATIVE_PROFILE_H_

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace tfaot_native {
namespace {

// A step, and the node of the model's graph that it comes from. Both are plain ASCII, without quotes.
struct ProfiledStep {
  const char* name;
  const char* node;
};

// The file that TFAOT_PROFILE names.
class ProfileFile {
 public:
  // Negative if there is none. Opened once: later changes of the variable have no effect.
  static int descriptor() {
    int known = opened_.load(std::memory_order_acquire);
    if (known != kUnknown) return known;
    pthread_mutex_lock(&lock_);
    known = opened_.load(std::memory_order_relaxed);
    if (known == kUnknown) {
      const char* const path = secure_getenv("TFAOT_PROFILE");
      known = path == nullptr || *path == 0 ? kNone : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
      opened_.store(known < 0 ? kNone : known, std::memory_order_release);
    }
    pthread_mutex_unlock(&lock_);
    return known < 0 ? kNone : known;
  }

  // Appends `events`, each followed by a comma and the end of a line.
  static void append(const int file, const char* const events, const std::size_t size) {
    pthread_mutex_lock(&lock_);
    // Other libraries and processes may write to the same file.
    if (size > kSeparator && flock(file, LOCK_EX) == 0) {
      const off_t end = lseek(file, 0, SEEK_END);
      char last[kTailSize];
      if (end == 0) {
        write_at(file, 0, kHead, sizeof kHead - 1);
        finish(file, sizeof kHead - 1, events, size);
      } else if (end > static_cast<off_t>(kTailSize) && pread(file, last, kTailSize, end - kTailSize) == kTailSize &&
                 std::memcmp(last, kTail, kTailSize) == 0) {
        write_at(file, end - kTailSize, ",\n", kSeparator);
        finish(file, end - kTailSize + kSeparator, events, size);
      }
      flock(file, LOCK_UN);
    }
    pthread_mutex_unlock(&lock_);
  }

 private:
  static constexpr int kUnknown = -2, kNone = -1;
  static constexpr char kHead[] = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
  static constexpr char kTail[] = "\n]}\n";
  static constexpr std::ptrdiff_t kTailSize = sizeof kTail - 1;
  static constexpr std::size_t kSeparator = 2;

  static void write_at(const int file, const off_t place, const char* const text, const std::size_t size) {
    for (std::size_t written = 0; written < size;) {
      const ssize_t more = pwrite(file, text + written, size - written, place + static_cast<off_t>(written));
      if (more <= 0) return;
      written += static_cast<std::size_t>(more);
    }
  }

  static void finish(const int file, const off_t place, const char* const events, const std::size_t size) {
    write_at(file, place, events, size - kSeparator);
    write_at(file, place + static_cast<off_t>(size - kSeparator), kTail, kTailSize);
  }

  inline static std::atomic<int> opened_{kUnknown};
  inline static pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
};

// The spans of one call: step 0 begins with begin(0), and each ends where the next one begins.
template <std::size_t kSteps>
class ProfiledCall {
 public:
  ProfiledCall(const ProfiledStep* const steps, const std::size_t rows)
      : steps_(steps), rows_(rows), file_(ProfileFile::descriptor()) {}

  ~ProfiledCall() {
    if (file_ >= 0) write(now());
  }

  ProfiledCall(const ProfiledCall&) = delete;
  ProfiledCall& operator=(const ProfiledCall&) = delete;

  void begin(const std::size_t step) {
    if (file_ >= 0) begins_[step] = now();
  }

 private:
  static constexpr std::size_t kChunk = 8192, kLongestEvent = 1024;

  static std::uint64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1000000000u + static_cast<std::uint64_t>(time.tv_nsec);
  }

  void write(const std::uint64_t end) const {
    char chunk[kChunk];
    std::size_t size = 0;
    const auto thread = static_cast<unsigned long long>(pthread_self());
    for (std::size_t i = 0; i < kSteps; ++i) {
      const std::uint64_t begin = begins_[i], length = (i + 1 < kSteps ? begins_[i + 1] : end) - begin;
      size += static_cast<std::size_t>(std::snprintf(
          chunk + size, kLongestEvent,
          "{\"ph\": \"X\", \"name\": \"%s\", \"cat\": \"step\", \"ts\": %llu.%03u, \"dur\": %llu.%03u, \"pid\": %d, "
          "\"tid\": %llu, \"args\": {\"node\": \"%s\", \"rows\": %zu, \"step\": %zu}},\n",
          steps_[i].name, static_cast<unsigned long long>(begin / 1000), static_cast<unsigned>(begin % 1000),
          static_cast<unsigned long long>(length / 1000), static_cast<unsigned>(length % 1000), static_cast<int>(getpid()),
          thread, steps_[i].node, rows_, i));
      if (size + kLongestEvent > kChunk) {
        ProfileFile::append(file_, chunk, size);
        size = 0;
      }
    }
    ProfileFile::append(file_, chunk, size);
  }

  const ProfiledStep* steps_;
  std::size_t rows_;
  int file_;
  std::uint64_t begins_[kSteps] = {};
};

}  // namespace
}  // namespace tfaot_native

#endif  // TFAOT_NATIVE_PROFILE_H_
