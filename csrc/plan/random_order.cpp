#include "plan/random_order.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "threads/parallel_for_each.h"

namespace atompack::plan {
namespace {

// Positions that take a thread about a millisecond.
constexpr size_t kPart = size_t{1} << 17;

// (to + hash(of)) mod modulus, for `to` below the modulus. The hash is one step of splitmix64.
uint64_t add_hash(uint64_t to, uint64_t of, uint64_t modulus, uint64_t key) {
  uint64_t hash = of * 0x9E3779B97F4A7C15 + key;
  hash ^= hash >> 32;
  hash *= 0xBF58476D1CE4E5B9;
  hash >>= 32;
  hash = hash * modulus >> 32;  // 32 random bits times the modulus: the upper word is below it
  to += hash;
  return std::min(to, to - modulus);  // wraps around to a large number if it was less
}

using Block = std::array<uint64_t, RandomOrder::kBlock>;
using Keys = RandomOrder::Keys;

// Round by round, since those of one position wait for each other.
[[gnu::always_inline]] inline void run(Block& numbers, uint64_t n_left, uint64_t n_right, double of_right,
                                       const Keys& keys) {
  Block right;
  for (size_t i = 0; i < numbers.size(); ++i) {
    // The quotient by rounding is off by one at most: cheaper than a division.
    auto left = static_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(numbers[i])) * of_right);
    uint64_t rest = numbers[i] - left * n_right;
    const bool is_above = static_cast<int64_t>(rest) < 0;
    left -= is_above ? 1 : 0;
    rest += is_above ? n_right : 0;
    const bool is_below = rest >= n_right;
    numbers[i] = left + (is_below ? 1 : 0);
    right[i] = rest - (is_below ? n_right : 0);
  }
  for (size_t round = 0; round < RandomOrder::kRounds; round += 2) {
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = add_hash(numbers[i], right[i], n_left, keys[round]);
    for (size_t i = 0; i < numbers.size(); ++i) right[i] = add_hash(right[i], numbers[i], n_right, keys[round + 1]);
  }
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = numbers[i] * n_right + right[i];
}

void run_anywhere(Block& numbers, uint64_t n_left, uint64_t n_right, double of_right, const Keys& keys) {
  run(numbers, n_left, n_right, of_right, keys);
}

#if defined(__x86_64__)
// 3 times faster, because it multiplies 64-bit integers in lanes.
__attribute__((target("avx512dq,avx512vl"))) void run_in_lanes(Block& numbers, uint64_t n_left, uint64_t n_right,
                                                               double of_right, const Keys& keys) {
  run(numbers, n_left, n_right, of_right, keys);
}

const bool has_lanes = __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
const auto run_network = has_lanes ? run_in_lanes : run_anywhere;
#else
const auto run_network = run_anywhere;
#endif

}  // namespace

RandomOrder::RandomOrder(uint64_t n, uint64_t n_left, uint64_t n_right, const Keys& keys)
    : n_(n), n_left_(n_left), n_right_(n_right), of_right_(1 / static_cast<double>(n_right)), keys_(keys) {
  constexpr uint64_t kLimit = uint64_t{1} << 32;
  if (n_left < 1 || n_left >= kLimit || n_right < 1 || n_right >= kLimit || n_left * n_right < n) {
    throw FieldError(cat("random order: expected sides below 2^32 and a product of at least ", n, ", got ", n_left,
                         " and ", n_right));
  }
}

void RandomOrder::at(std::span<const int64_t> positions, std::span<int64_t> numbers, unsigned n_threads) const {
  const auto wrong = std::ranges::find_if(positions, [&](int64_t at) { return static_cast<uint64_t>(at) >= n_; });
  if (wrong != positions.end()) throw FieldError(cat("position: expected 0 to ", n_ - 1, ", got ", *wrong));
  in_parts(numbers, n_threads, [&](size_t first, Block& block, size_t size) {
    std::ranges::copy(positions.subspan(first, size), block.begin());
  });
}

void RandomOrder::from(int64_t first, std::span<int64_t> numbers, unsigned n_threads) const {
  if (first < 0 || static_cast<uint64_t>(first) > n_ || n_ - static_cast<uint64_t>(first) < numbers.size()) {
    throw FieldError(cat("positions: expected ", numbers.size(), " from 0 to ", n_, ", got them from ", first));
  }
  in_parts(numbers, n_threads, [&](size_t offset, Block& block, size_t size) {
    std::iota(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(size), static_cast<uint64_t>(first) + offset);
  });
}

// Calls fill(first, block, size) for the positions of each block.
template <typename Fill>
void RandomOrder::in_parts(std::span<int64_t> numbers, unsigned n_threads, const Fill& fill) const {
  const size_t n_parts = (numbers.size() + kPart - 1) / kPart;
  threads::parallel_for_each(n_parts, n_threads, [&](size_t part) {
    const size_t last = std::min(kPart * (part + 1), numbers.size());
    Block block{};
    for (size_t first = kPart * part; first < last; first += kBlock) {
      const size_t size = std::min(kBlock, last - first);
      fill(first, block, size);
      network(block);
      for (size_t i = 0; i < size; ++i) {
        while (block[i] >= n_) block[i] = network(block[i]);
        numbers[first + i] = static_cast<int64_t>(block[i]);
      }
    }
  });
}

uint64_t RandomOrder::network(uint64_t position) const {
  Block one{position};
  network(one);
  return one.front();
}

void RandomOrder::network(Block& numbers) const { run_network(numbers, n_left_, n_right_, of_right_, keys_); }

}  // namespace atompack::plan
