// The headers against fake models. Prints one line per check that fails and exits with 1 if any does.
#include "check.h"

int main() {
  test_generated_class();
  test_batching();
  test_model();
  test_any_size();
  test_threads();
  test_dynamic();
  test_cmssw();
  return failures == 0 ? 0 : 1;
}
