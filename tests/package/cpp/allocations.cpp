// After the first calls nothing is allocated any more, whatever the batch size and the place of buffers. Prints what is.
#include "count_allocations.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <tfaot-model-affine/model.h>
#include <tfaot/tfaot.h>

using tfaot_model::affine;

namespace {

int failures = 0;

void expect(bool good, const char* what, std::size_t got) {
  if (good) return;
  std::printf("failed: %s: %zu allocations\n", what, got);
  ++failures;
}

struct Aligned {
  alignas(64) char bytes[64];
};

constexpr std::size_t kMost = 70;

// Room for rows, `offset` elements behind an aligned address.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t offset) : memory_(kMost * 3 * sizeof(T) / sizeof(Aligned) + 3), offset_(offset) {}
  T* data() { return reinterpret_cast<T*>(memory_.data()) + offset_; }

 private:
  std::vector<Aligned> memory_;
  std::size_t offset_;
};

void the_counter_counts() {
  expect(allocations_of([] { std::make_unique<int>(1); }) == 1, "operator new", 0);
  expect(allocations_of([] { delete new (std::align_val_t{64}) Aligned; }) == 1, "aligned operator new", 0);
  expect(allocations_of([] { std::free(std::malloc(100)); }) == 1, "malloc", 0);
}

template <class F>
void expect_none(const char* what, F call) {
  call();
  const std::size_t again = allocations_of(call);
  expect(again == 0, what, again);
}

void nothing_is_allocated_once_all_sizes_ran(const char* target, std::size_t offset) {
  tfaot::Model<affine> model(target);
  affine generated(target);
  tfaot::DynamicModel dynamic(affine::table(), target);
  tfaot::Pool<affine> pool(target);
  const tfaot::Shared<affine> shared(target);
  tfaot::Threads threads(2);
  Buffer<float> bias(offset), x(offset), y(offset);
  Buffer<std::int64_t> label(offset);
  const auto inputs = [&](std::size_t n) { return affine::Inputs{{bias.data(), 3}, {x.data(), 3 * n}}; };
  const auto outputs = [&](std::size_t n) { return affine::Outputs{{label.data(), n}, {y.data(), 3 * n}}; };
  model.setBatchRule("7:4,4");
  model.setBatchRule("9:2,2,2,2,2");
  const auto all = [&](auto call) {
    for (std::size_t n = kMost; n-- > 0;) call(n);
  };
  expect_none("caller's buffers", [&] { all([&](std::size_t n) { model.run(n, inputs(n), outputs(n)); }); });
  expect_none("the model's buffers", [&] { all([&](std::size_t n) { model.run(n, inputs(n)); }); });
  expect_none("the generated class", [&] { all([&](std::size_t n) { generated.run(n, inputs(n), outputs(n)); }); });
  expect_none("a pool", [&] { all([&](std::size_t n) { pool.borrow()->run(n, inputs(n), outputs(n)); }); });
  expect_none("one object", [&] { all([&](std::size_t n) { shared.run(n, inputs(n), outputs(n)); }); });
  const tfaot::Team team = tfaot::team_of(threads);
  // A thread may not get to a task in the first round: no call waits for it.
  expect_none("two threads", [&] { all([&](std::size_t n) { shared.run(n, inputs(n), outputs(n), team); }); });
  const auto once = [&] { shared.run(kMost, inputs(kMost)); };
  once();
  expect(allocations_of(once) == 1, "results that own their memory", allocations_of(once));
  expect_none("by name", [&] {
    all([&](std::size_t n) {
      const affine::Inputs in = inputs(n);
      const affine::Outputs out = outputs(n);
      dynamic.run(n, {{"x", in.x}, {"bias-in", in.bias_in}}, {{"y", out.y}, {"label", out.label}});
    });
  });
}

}  // namespace

int main() {
  the_counter_counts();
  for (const char* target : {"x86-64-v2", "x86-64-v3"}) {  // with much padding, and with little
    for (const std::size_t offset : {0u, 1u}) nothing_is_allocated_once_all_sizes_ran(target, offset);
  }
  return failures == 0 ? 0 : 1;
}
