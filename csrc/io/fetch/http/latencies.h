// Recent latencies of small reads.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>

namespace atompack::io::fetch::http {

class Latencies {
 public:
  using Duration = std::chrono::steady_clock::duration;

  void add(Duration latency) {
    recent_[n_ % recent_.size()] = latency;
    ++n_;
    if (n_ % kInterval == 0) update();
  }

  // Returns the 99th percentile; nullopt if there are fewer than `min_samples`.
  std::optional<Duration> p99(size_t min_samples) const {
    if (n_ < min_samples || n_ < kInterval) return std::nullopt;
    return p99_;
  }

 private:
  static constexpr size_t kInterval = 32;  // between updates

  void update() {
    auto sorted = recent_;
    const size_t n = std::min(n_, sorted.size());
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(n * 99 / 100);
    std::nth_element(sorted.begin(), at, sorted.begin() + static_cast<std::ptrdiff_t>(n));
    p99_ = *at;
  }

  std::array<Duration, 512> recent_{};
  size_t n_ = 0;
  Duration p99_{};
};

}  // namespace atompack::io::fetch::http
