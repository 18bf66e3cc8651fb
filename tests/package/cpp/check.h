// Checks that print a line where they fail, and are counted.
#ifndef TFAOT_TESTS_CHECK_H_
#define TFAOT_TESTS_CHECK_H_

#include <atomic>
#include <cstdio>
#include <string>

#include <tfaot/error.h>

inline std::atomic<int> failures{0};

inline void expect(bool good, const std::string& what) {
  if (good) return;
  std::printf("failed: %s\n", what.c_str());
  ++failures;
}

/// `call` throws tfaot::Error with exactly this text.
template <class F>
void expect_error(const std::string& text, F call) {
  try {
    call();
    expect(false, "no error, expected: " + text);
  } catch (const tfaot::Error& error) {
    expect(text == error.what(), std::string("got: ") + error.what() + "\n    expected: " + text);
  }
}

// One per file.
void test_generated_class();
void test_batching();
void test_model();
void test_any_size();
void test_threads();
void test_dynamic();
void test_cmssw();

#endif  // TFAOT_TESTS_CHECK_H_
