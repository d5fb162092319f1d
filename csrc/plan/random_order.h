// Random orders of which any part can be computed without the rest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace atompack::plan {

// A permutation of the numbers below n: a Feistel network on pairs (left, right) with left < n_left, right < n_right
// and n_left * n_right slightly above n; results beyond n go through the network again. The same on every machine.
class RandomOrder {
 public:
  static constexpr size_t kRounds = 8;
  static constexpr size_t kBlock = 32;
  using Keys = std::array<uint64_t, kRounds>;

  // n_left and n_right are below 2^32, and their product is at least n.
  RandomOrder(uint64_t n, uint64_t n_left, uint64_t n_right, const Keys& keys);

  // Writes the numbers at these positions; many are shared by threads. Throws FieldError if a position is not below n.
  void at(std::span<const int64_t> positions, std::span<int64_t> numbers, unsigned n_threads) const;
  // The same for consecutive positions.
  void from(int64_t first, std::span<int64_t> numbers, unsigned n_threads) const;

 private:
  using Block = std::array<uint64_t, kBlock>;

  template <typename Fill>
  void in_parts(std::span<int64_t> numbers, unsigned n_threads, const Fill& fill) const;
  uint64_t network(uint64_t position) const;
  void network(Block& numbers) const;

  uint64_t n_, n_left_, n_right_;
  double of_right_;  // 1 / n_right
  Keys keys_;
};

}  // namespace atompack::plan
