// Bounded cache that evicts the least recently used values.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace atompack {

// Thread-safe. Values are shared: one that was returned stays alive after it is evicted.
template <typename Key, typename T>
class LruCache {
 public:
  explicit LruCache(uint64_t limit) : limit_(limit) {}

  // Returns nullptr if the key is not cached.
  std::shared_ptr<const T> find(const Key& key) {
    const std::scoped_lock lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->value;
  }

  // Returns the cached value. If two threads computed the same value, the first one is kept and returned. A value that
  // alone exceeds the limit is returned and not cached.
  std::shared_ptr<const T> keep(const Key& key, std::shared_ptr<const T> value, uint64_t cost) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = places_.find(key); found != places_.end()) return found->second->value;
    if (cost > limit_) return value;
    while (used_ > limit_ - cost) drop_oldest();
    order_.push_front({key, value, cost});
    places_.emplace(key, order_.begin());
    used_ += cost;
    return value;
  }

  // Removes a value if it is cached.
  void drop(const Key& key) {
    const std::scoped_lock lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    used_ -= found->second->cost;
    order_.erase(found->second);
    places_.erase(found);
  }

  void clear() {
    const std::scoped_lock lock(mutex_);
    places_.clear();
    order_.clear();
    used_ = 0;
  }

  uint64_t limit() const { return limit_; }
  uint64_t used() {
    const std::scoped_lock lock(mutex_);
    return used_;
  }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const T> value;
    uint64_t cost;
  };

  void drop_oldest() {
    used_ -= order_.back().cost;
    places_.erase(order_.back().key);
    order_.pop_back();
  }

  const uint64_t limit_;
  std::mutex mutex_;
  std::list<Entry> order_;  // most recently used first
  std::map<Key, typename std::list<Entry>::iterator> places_;
  uint64_t used_ = 0;
};

}  // namespace atompack
