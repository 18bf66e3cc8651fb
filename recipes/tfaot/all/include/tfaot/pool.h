// tfaot/pool.h: instances of a model for threads that come and go.
#ifndef TFAOT_POOL_H_
#define TFAOT_POOL_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tfaot/macros_on.h>

#include <tfaot/model.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// Hands out instances of the model whose generated class is `Compiled`, each to one borrower at a time:
///
///     tfaot::Pool<tfaot_model::digits> pool;                       // shared by all threads
///     auto model = pool.borrow();                                  // in a thread
///     model->run(batch_size, inputs, outputs);                     // given back when `model` goes out of scope
///
/// There are as many instances as were ever borrowed at the same time. The pool must outlive borrowed instances. An instance
/// keeps what a borrower sets in it, such as batch rules.
template <class Compiled>
class Pool {
  struct GiveBack {
    Pool* pool;
    void operator()(Model<Compiled>* model) const noexcept { pool->give_back(model); }
  };

 public:
  /// A borrowed instance: a pointer whose destruction returns it to the pool.
  using Borrowed = std::unique_ptr<Model<Compiled>, GiveBack>;

  /// Instances run the code of `target`, or of the best one for this CPU if it is null, with these batch rules.
  explicit Pool(const char* target = nullptr, BatchStrategy rules = BatchStrategy())
      : target_(target == nullptr ? "" : target), rules_(std::move(rules)) {}

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// An instance that is not borrowed. Throws Error if a new one is needed and cannot be made.
  Borrowed borrow() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        Model<Compiled>* const model = free_.back().release();
        free_.pop_back();
        return Borrowed(model, GiveBack{this});
      }
    }
    auto made = target_.empty() ? std::make_unique<Model<Compiled>>() : std::make_unique<Model<Compiled>>(target_.c_str());
    made->setBatchStrategy(rules_);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      free_.reserve(made_ + 1);  // so that returning an instance allocates nothing
      ++made_;
    }
    return Borrowed(made.release(), GiveBack{this});
  }

  /// Instances that were made.
  std::size_t size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return made_;
  }

 private:
  void give_back(Model<Compiled>* model) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.emplace_back(model);
  }

  std::string target_;  // empty: the best one for this CPU
  BatchStrategy rules_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Model<Compiled>>> free_;
  std::size_t made_ = 0;
};

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_POOL_H_
