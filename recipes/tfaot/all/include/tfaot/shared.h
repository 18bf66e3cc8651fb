// tfaot/shared.h: one object of a model for all threads.
#ifndef TFAOT_SHARED_H_
#define TFAOT_SHARED_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <thread>

namespace tfaot {
inline namespace v2 {

namespace detail {

/// A number for each thread that asks, from 0 on.
inline std::size_t number_of_this_thread() noexcept {
  static std::atomic<std::size_t> threads{0};
  thread_local const std::size_t number = threads.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace detail

/// The model whose generated class is `W`, as one constant object: any number of threads may call `run` at a time.
///
///     const tfaot::Shared<tfaot_model::digits> model;              // shared by all threads
///     model.run(batch_size, inputs, outputs);                      // in any of them
///
/// Weights exist once per process. Each thread that calls gets scratch memory of its own at its first call; it is kept,
/// and later calls allocate nothing and wait for nobody. (If more threads call than twice the machine's, at least 64,
/// some of them share scratch memory and wait for each other.) The object can be neither copied nor moved.
template <class W>
class Shared {
 public:
  using Inputs = typename W::Inputs;    ///< spans of the inputs, by name
  using Outputs = typename W::Outputs;  ///< those of the outputs

  /// Runs the code of `target`, or of the best one for this CPU if it is null. Throws Error if that is impossible.
  explicit Shared(const char* target = nullptr)
      : places_(std::max<std::size_t>(64, 2 * std::size_t{std::thread::hardware_concurrency()})),
        slots_(std::make_unique<Slot[]>(places_)) {
    std::optional<W>& first = slots_[detail::number_of_this_thread() % places_].instance;
    if (target == nullptr) {
      first.emplace();
    } else {
      first.emplace(target);
    }
    target_ = first->target();
  }

  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  /// Compute `batch_size` rows, into buffers of the caller. Every buffer holds exactly so many rows. Throws Error.
  void run(std::size_t batch_size, const Inputs& inputs, const Outputs& outputs) const {
    const Use use(free_slot());
    use.instance(target_).run(batch_size, inputs, outputs);
  }

  /// The same for a model without inputs.
  void run(std::size_t batch_size, const Outputs& outputs) const {
    const Use use(free_slot());
    use.instance(target_).run(batch_size, outputs);
  }

  /// The target whose code runs.
  const char* target() const noexcept { return target_; }

  /// Bytes of scratch memory that all threads hold now. Waits for calls in progress.
  std::size_t memory() const {
    std::size_t bytes = places_ * sizeof(Slot);
    for (std::size_t i = 0; i < places_; ++i) {
      while (!slots_[i].taken()) std::this_thread::yield();
      const Use use(slots_[i]);
      if (slots_[i].instance) bytes += slots_[i].instance->memory();
    }
    return bytes;
  }

 private:
  /// Scratch memory for one thread at a time; on cache lines of its own, so that threads do not slow each other down.
  struct alignas(64) Slot {
    std::atomic<bool> busy{false};
    std::optional<W> instance;

    bool taken() noexcept {
      return !busy.load(std::memory_order_relaxed) && !busy.exchange(true, std::memory_order_acquire);
    }
  };

  /// A slot that this thread has taken, until the end of a call.
  class Use {
   public:
    explicit Use(Slot& slot) noexcept : slot_(slot) {}
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { slot_.busy.store(false, std::memory_order_release); }
    W& instance(const char* target) const {
      if (!slot_.instance) slot_.instance.emplace(target);
      return *slot_.instance;
    }

   private:
    Slot& slot_;
  };

  /// That of this thread, unless another one with the same place has it.
  Slot& free_slot() const {
    for (std::size_t place = detail::number_of_this_thread() % places_;; place = (place + 1) % places_) {
      if (slots_[place].taken()) return slots_[place];
      if (place + 1 == places_) std::this_thread::yield();
    }
  }

  std::size_t places_;
  std::unique_ptr<Slot[]> slots_;
  const char* target_;  // the library's own text
};

}  // namespace v2
}  // namespace tfaot

#endif  // TFAOT_SHARED_H_
