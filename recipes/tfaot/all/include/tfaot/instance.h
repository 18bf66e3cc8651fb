// tfaot/instance.h: one instance of a compiled model, without types: pointers in, pointers out.
//
// The generated classes check types and sizes and then call this class. It adds to the C ABI: ownership, exceptions, and
// batches of any size.
#ifndef TFAOT_INSTANCE_H_
#define TFAOT_INSTANCE_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tfaot/macros_on.h>

#include <tfaot/abi.h>
#include <tfaot/aligned_bytes.h>
#include <tfaot/batching.h>
#include <tfaot/error.h>
#include <tfaot/parts.h>
#include <tfaot/permissions.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

namespace detail {

/// The library's message without the model's name at its front, because Error adds the name: "model digits: ...",
/// "model digits, batch size 3: ...".
inline std::string_view without_name(std::string_view message, std::string_view name) noexcept {
  constexpr std::string_view kModel = "model ";
  if (message.substr(0, kModel.size()) != kModel) return message;
  const std::string_view rest = message.substr(kModel.size());
  if (rest.size() < name.size() + 2 || rest.substr(0, name.size()) != name) return message;
  const char after = rest[name.size()];
  return after == ':' || after == ',' ? rest.substr(name.size() + 2) : message;
}

inline std::vector<std::size_t> compiled_sizes(const Table& table) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < table.info->num_batch_sizes; ++i) {
    sizes.push_back(static_cast<std::size_t>(table.info->batch_sizes[i]));
  }
  return sizes;
}

/// The cost of a run of each compiled size on `target`: the library's figures; for a library that is too old to have
/// them, a call costs as much as a row.
inline std::vector<double> batch_costs(const Table& table, const char* target) {
  const tfaot_info& info = *table.info;
  std::vector<double> costs;
  if (info.struct_size >= offsetof(tfaot_info, batch_costs) + sizeof info.batch_costs && info.batch_costs != nullptr) {
    for (std::size_t i = 0; i < info.num_targets; ++i) {
      if (std::strcmp(info.targets[i], target) != 0) continue;
      const double* const told = info.batch_costs + i * info.num_batch_sizes;
      for (std::size_t j = 0; j < info.num_batch_sizes; ++j) costs.push_back(told[j]);
      return costs;
    }
  }
  for (std::size_t i = 0; i < info.num_batch_sizes; ++i) {
    costs.push_back(1.0 + static_cast<double>(info.batch_sizes[i]));
  }
  return costs;
}

[[__noreturn__]] inline void throw_busy(const char* model) {
  detail::raise(Error(model, "this instance is in use by another thread: use one instance per thread"));
}

/// Throws Error if a second thread uses an object that serves one thread at a time. A moved object is not in use.
class OneThread {
 public:
  OneThread() = default;
  OneThread(OneThread&&) noexcept {}
  OneThread& operator=(OneThread&&) noexcept { return *this; }

  /// Held while a call uses the object.
  class Use {
   public:
    explicit Use(OneThread& owner, const char* model) : owner_(owner) {
      if (owner.busy_.exchange(true, std::memory_order_acquire)) throw_busy(model);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { owner_.busy_.store(false, std::memory_order_release); }

   private:
    OneThread& owner_;
  };

 private:
  std::atomic<bool> busy_{false};
};

}  // namespace detail

/// An instance of a model: scratch memory over the model's constant weights. It serves one thread at a time; the
/// documented pattern is one instance per thread, and a run while another one is in progress throws Error. It can be
/// moved, not copied.
class Instance {
 public:
  /// An instance that runs the code of `target` ("x86-64-v3"), or of the best one for this CPU if it is null.
  /// Throws Error: the CPU lacks what the lowest target needs, no such target, the library is too old, no memory.
  explicit Instance(const Table& table, const char* target = nullptr)
      : Instance(table, Handle(table, target)) {}

  /// The model's description in the library.
  const tfaot_info& info() const noexcept { return *table_->info; }

  /// The target whose code this instance runs.
  const char* target() const { return table_->target(handle()); }

  /// Bytes that this instance currently holds, without the object itself.
  std::size_t memory() const { return table_->memory(handle()) + scratch_.size() + planner_.memory(); }

  /// Compute `batch_size` rows: one pointer per tensor, in the order of `info()`, none null.
  ///
  /// A batch size with a rule is composed as the rule says. Other compiled sizes run in place; if the model is compiled for
  /// any size (`any_batch_size()`), these are all sizes. Sizes that were not compiled are composed of compiled ones as
  /// cheaply as possible (batching.h), which requires rows that do not depend on one another and a batch axis in every
  /// output. The first run of a size may allocate, later ones do not. Throws Error.
  void run(std::size_t batch_size, const void* const* inputs, void* const* outputs) {
    tfaot_instance* const handle = this->handle();
    if (const BatchRule* const rule = rules_.find(batch_size)) {
      const detail::OneThread::Use use(one_thread_, info().name);
      for (std::size_t i = 0, done = 0; i < rule->nSizes(); done += rule->getSize(i++)) {
        run_part(handle, done, rule->step(i), inputs, outputs);
      }
    } else if (is_compiled(batch_size)) {
      run_step(handle, batch_size, inputs, outputs);
    } else {
      check_can_be_split(batch_size);
      const detail::OneThread::Use use(one_thread_, info().name);
      for (std::size_t done = 0; done < batch_size;) {
        const BatchStep step = planner_.next(batch_size - done);
        run_part(handle, done, step, inputs, outputs);
        done += step.size - step.padding;
      }
    }
  }

  /// The same with arrays at `sizes` of the model's symbols, in the order of `info()`: any batch size, in one call. Throws
  /// Error.
  void run(std::size_t batch_size, const std::size_t* sizes, const void* const* inputs, void* const* outputs) {
    tfaot_instance* const handle = this->handle();
    check(handle, table_->run_sized(handle, static_cast<std::int64_t>(batch_size), sizes, inputs, outputs));
  }

  /// The rules that were set.
  const BatchStrategy& rules() const noexcept { return rules_; }

  /// Compose the batch size of `rule` as it says. Throws Error if it names a size that was not compiled
  /// (`is_compiled`), or if a batch cannot be composed of others.
  void set_rule(const BatchRule& rule) {
    check(rule);
    rules_.setRule(rule);
  }

  /// Replace all rules. Throws Error as `set_rule` does, and changes nothing then.
  void set_rules(const BatchStrategy& rules) {
    for (const BatchRule& rule : rules.rules()) check(rule);
    rules_ = rules;
  }

  /// Composes the sizes that neither have a rule nor were compiled, by the costs of the compiled ones.
  BatchPlanner& planner() noexcept { return planner_; }
  /// The same, read-only.
  const BatchPlanner& planner() const noexcept { return planner_; }

  /// Compute one batch of a compiled size, whatever rules there are. Throws Error.
  void run_compiled(std::size_t batch_size, const void* const* inputs, void* const* outputs) {
    run_step(handle(), batch_size, inputs, outputs);
  }

  /// Whether the model is compiled for every number of rows from 1 on. Then `batch_sizes` of `info()` are those that were
  /// validated and measured.
  bool any_batch_size() const noexcept { return detail::any_batch_size(info()); }

  /// Whether each row of the outputs depends only on the same row of the inputs. Assumed for libraries that do not say.
  bool rows_independent() const noexcept { return detail::rows_independent(info()); }

  /// Whether a batch can be composed of others: its rows are independent, and every output has a batch axis. An output
  /// without one depends on the whole batch, so the parts' outputs cannot be combined.
  bool can_be_split() const noexcept { return detail::can_be_split(info()); }

  /// Throws Error if it cannot.
  void check_can_be_split(std::size_t batch_size) const { detail::require(detail::split_outcome(info(), batch_size)); }

  /// Whether `batch_size` is one of the compiled sizes: any but 0, if the model is compiled for any size.
  bool is_compiled(std::size_t batch_size) const noexcept { return detail::is_compiled(info(), batch_size); }

 private:
  // Owns the library's instance; empty after it was moved from.
  class Handle {
   public:
    Handle(const Table& table, const char* target) : table_(&table) {
      if (table.abi_version < TFAOT_ABI_VERSION) {
        detail::raise(Error(table.info->name, "ABI version of the library", "at least " + std::to_string(TFAOT_ABI_VERSION),
                    std::to_string(table.abi_version)));
      }
      detail::permit(table, target);
      char message[TFAOT_MESSAGE_SIZE] = "";
      if (table.create(target, &instance_, message, sizeof message) != TFAOT_OK) {
        detail::raise(Error(table.info->name, detail::without_name(message, table.info->name)));
      }
    }
    Handle(Handle&& other) noexcept : table_(other.table_), instance_(std::exchange(other.instance_, nullptr)) {}
    Handle& operator=(Handle&& other) noexcept {
      std::swap(table_, other.table_);
      std::swap(instance_, other.instance_);
      return *this;
    }
    ~Handle() {
      if (instance_ != nullptr) table_->destroy(instance_);
    }
    tfaot_instance* get() const noexcept { return instance_; }

   private:
    const Table* table_;
    tfaot_instance* instance_ = nullptr;
  };

  Instance(const Table& table, Handle handle)
      : table_(&table),
        handle_(std::move(handle)),
        inputs_(table.info->num_inputs),
        outputs_(table.info->num_outputs),
        planner_(detail::compiled_sizes(table), detail::batch_costs(table, table.target(handle_.get()))) {}

  tfaot_instance* handle() const {
    if (handle_.get() == nullptr) detail::raise(Error(info().name, "this instance was moved from"));
    return handle_.get();
  }

  void check(const BatchRule& rule) const {
    for (const std::size_t size : rule.getSizes()) {
      if (is_compiled(size)) continue;
      detail::raise(Error(info().name, "batch rule \"" + rule.text() + "\"", "compiled sizes (" + detail::listed_sizes(info()) + ")",
                  std::to_string(size)));
    }
    if (rule.nSizes() != 1 || rule.getLastPadding() != 0) check_can_be_split(rule.getBatchSize());
  }

  void run_step(tfaot_instance* handle, std::size_t size, const void* const* inputs, void* const* outputs) {
    check(handle, table_->run(handle, static_cast<std::int64_t>(size), inputs, outputs));
  }

  void check(tfaot_instance* handle, tfaot_status status) {
    if (status == TFAOT_OK) return;
    if (status == TFAOT_BUSY) detail::throw_busy(info().name);  // the stored message belongs to the other thread's calls
    detail::raise(Error(info().name, detail::without_name(table_->message(handle), info().name)));
  }

  // Rows from `first` on.
  void run_part(tfaot_instance* handle, std::size_t first, BatchStep step, const void* const* inputs,
                void* const* outputs) {
    std::byte* padded = nullptr;
    if (step.padding != 0) padded = scratch_.reserve(detail::Parts::padded_bytes(info(), step.size), info().alignment);
    detail::Parts(info(), inputs_.data(), outputs_.data(), padded)
        .run(first, step, inputs, outputs, [&](std::size_t size, const void* const* in, void* const* out) {
          run_step(handle, size, in, out);
        });
  }

  const Table* table_;
  Handle handle_;
  std::vector<const void*> inputs_;  // pointers of the step that runs
  std::vector<void*> outputs_;
  detail::AlignedBytes scratch_;  // of padded steps
  BatchStrategy rules_;
  BatchPlanner planner_;
  detail::OneThread one_thread_;  // guards what composed batches use
};

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_INSTANCE_H_
