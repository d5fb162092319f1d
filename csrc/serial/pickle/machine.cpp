#include "serial/pickle/machine.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <numeric>
#include <utility>

namespace atompack::pickle {
namespace {

// Walks the tree as a program that makes objects of it would: shared nodes are visited once per reference.
class TreeWalk {
 public:
  explicit TreeWalk(const State& state)
      : state_(state),
        values_left_(state.limits.max_values),
        bytes_left_(std::max<uint64_t>(state.limits.max_bytes, state.block.size())) {}

  void run(const Cell& root) {
    visit(root, false);
    while (!open_.empty()) {
      Open& open = open_.back();
      if (open.next == open.end) {
        open_.pop_back();
        continue;
      }
      const bool is_key = open.is_mapping && ((open.end - open.next) % 2 == 0);
      const bool hashed = open.hashed || is_key;
      visit(state_.tree.cells[open.next++], hashed);
    }
  }

 private:
  struct Open {
    uint32_t next, end;
    bool is_mapping, hashed;
  };

  void visit(const Cell& cell, bool hashed) {
    spend(values_left_, 1, "values", state_.limits.max_values);
    switch (cell.kind()) {
      case Kind::text:
      case Kind::bytes:
      case Kind::big_integer:
        return spend(bytes_left_, cell.size, "bytes", state_.limits.max_bytes);
      case Kind::list:
      case Kind::dict:
      case Kind::record:
        if (hashed) refuse_key(cell);
        [[fallthrough]];
      case Kind::tuple:
        return enter(state_.tree.sequences[cell.node], hashed);
      case Kind::array:
      case Kind::tensor:
        if (hashed) refuse_key(cell);
        [[fallthrough]];
      case Kind::scalar:
        return visit_array(state_.tree.arrays[cell.node]);
      default:
        if (cell.kind() > Kind::dtype) unsafe("expected values, got ", describe(cell));
    }
  }

  void visit_array(const ArrayNode& array) {
    if (!array.filled) corrupt("expected arrays with data, got one without");
    const ElementType& type = state_.tree.types[array.type];
    if (type.kind == ElementKind::object) return open(array.first_object, array.n_objects, false, false);
    const uint64_t size = state_.tree.array(array).size();
    // Empty items take no bytes, but they take time.
    if (type.item_bytes == 0) return spend(values_left_, size, "values", state_.limits.max_values);
    spend(bytes_left_, size * type.item_bytes, "bytes", state_.limits.max_bytes);
  }

  void enter(const SequenceNode& node, bool hashed) {
    open(node.first, node.size, node.kind == Kind::dict || node.kind == Kind::record, hashed);
  }

  void open(uint32_t first, uint32_t size, bool is_mapping, bool hashed) {
    // The outermost container is not counted.
    if (open_.size() > state_.limits.max_depth) {
      unsafe("expected a nesting depth of at most ", state_.limits.max_depth, ", got more");
    }
    open_.push_back({first, first + size, is_mapping, hashed});
  }

  static void spend(uint64_t& left, uint64_t n, std::string_view what, uint64_t limit) {
    if (n > left) unsafe("expected at most ", limit, " ", what, ", got more");
    left -= n;
  }

  [[noreturn]] static void refuse_key(const Cell& cell) {
    corrupt("dict: expected hashable keys, got ", describe(cell));
  }

  const State& state_;
  uint64_t values_left_, bytes_left_;
  std::vector<Open> open_;
};

// Order of keys in which equal keys are neighbors. As in Python, numbers are compared by value and bools are numbers.
// Unlike in Python, NumPy scalars, ints of more than 64 bits and floats of that magnitude differ from every other kind.
class KeyOrder {
 public:
  explicit KeyOrder(const State& state) : state_(state), items_left_(4 * state.limits.max_values) {}

  std::strong_ordering compare(const Cell& a, const Cell& b) {
    if (is_number(a) && is_number(b)) return compare_numbers(a, b);
    const Kind kind = is_number(a) ? Kind::integer : a.kind(), other = is_number(b) ? Kind::integer : b.kind();
    if (kind != other) return kind <=> other;
    switch (kind) {
      case Kind::text:
      case Kind::bytes:
      case Kind::big_integer:
        return compare_bytes(a.bytes(), b.bytes());
      case Kind::tuple:
        return compare_tuples(a, b);
      case Kind::scalar:
        return compare_scalars(state_.tree.arrays[a.node], state_.tree.arrays[b.node]);
      case Kind::none:
        return std::strong_ordering::equal;
      default:
        return a.node <=> b.node;
    }
  }

 private:
  static bool is_number(const Cell& cell) {
    return cell.kind() == Kind::boolean || cell.kind() == Kind::integer || cell.kind() == Kind::real;
  }

  // Converts floats without a fraction to ints.
  static Cell canonical(const Cell& cell) {
    constexpr double kLimit = 9223372036854775808.0;
    if (cell.kind() != Kind::real) return Cell::of_integer(cell.integer);
    const bool is_whole =
        cell.real >= -kLimit && cell.real < kLimit && cell.real == static_cast<double>(static_cast<int64_t>(cell.real));
    return is_whole ? Cell::of_integer(static_cast<int64_t>(cell.real)) : cell;
  }

  static std::strong_ordering compare_numbers(const Cell& a, const Cell& b) {
    const Cell x = canonical(a), y = canonical(b);
    if (x.kind() != y.kind()) return x.kind() <=> y.kind();
    const bool same_bits = x.integer == y.integer;
    // Each NaN is a distinct key; the address decides the order.
    if (same_bits && x.kind() == Kind::real && std::isnan(x.real)) return &a <=> &b;
    return x.integer <=> y.integer;
  }

  static std::strong_ordering compare_bytes(Bytes a, Bytes b) {
    if (a.size() != b.size()) return a.size() <=> b.size();
    return a.empty() || a.data() == b.data() ? std::strong_ordering::equal
                                             : std::memcmp(a.data(), b.data(), a.size()) <=> 0;
  }

  // Also reached for dicts without references, whose depth was not checked.
  std::strong_ordering compare_tuples(const Cell& a, const Cell& b) {
    if (a.node == b.node) return std::strong_ordering::equal;
    if (depth_ == state_.limits.max_depth)
      unsafe("dict: expected keys of a nesting depth of at most ", depth_, ", got more");
    ++depth_;
    const std::span<const Cell> x = state_.items(a), y = state_.items(b);
    auto order = std::strong_ordering::equal;
    for (size_t i = 0; i < std::min(x.size(), y.size()) && order == 0; ++i) {
      if (items_left_-- == 0) unsafe("dict: expected keys that are fast to compare, got large ones");
      order = compare(x[i], y[i]);
    }
    --depth_;
    return order != 0 ? order : x.size() <=> y.size();
  }

  std::strong_ordering compare_scalars(const ArrayNode& a, const ArrayNode& b) const {
    const ElementType &x = state_.tree.types[a.type], &y = state_.tree.types[b.type];
    if (x.kind != y.kind) return x.kind <=> y.kind;
    return compare_bytes(a.data, b.data);
  }

  const State& state_;
  uint64_t items_left_;
  uint32_t depth_ = 0;
};

constexpr size_t kFewKeys = 16;

// Maps each key to the number of the first key that is equal to it.
std::vector<uint32_t> first_equals(KeyOrder& order, std::span<const Cell> entries) {
  std::vector<uint32_t> numbers(entries.size() / 2), firsts(entries.size() / 2);
  std::iota(numbers.begin(), numbers.end(), 0u);
  std::ranges::sort(numbers, [&](uint32_t a, uint32_t b) {
    const auto by_key = order.compare(entries[2 * a], entries[2 * b]);
    return by_key != 0 ? by_key < 0 : a < b;
  });
  for (size_t i = 0; i < numbers.size(); ++i) {
    const bool repeats = i > 0 && order.compare(entries[2 * numbers[i - 1]], entries[2 * numbers[i]]) == 0;
    firsts[numbers[i]] = repeats ? firsts[numbers[i - 1]] : numbers[i];
  }
  return firsts;
}

bool has_repeats(KeyOrder& order, std::span<const Cell> entries) {
  for (size_t i = 2; i < entries.size(); i += 2) {
    for (size_t j = 0; j < i; j += 2) {
      if (order.compare(entries[i], entries[j]) == 0) return true;
    }
  }
  return false;
}

void remove_duplicates(KeyOrder& order, std::span<Cell> entries, SequenceNode& node) {
  if (entries.size() <= 2 * kFewKeys && !has_repeats(order, entries)) return;
  const std::vector<uint32_t> firsts = first_equals(order, entries);
  std::vector<uint32_t> places(firsts.size());
  uint32_t n = 0;
  for (uint32_t i = 0; i < firsts.size(); ++i) {
    const bool is_first = firsts[i] == i;
    places[i] = is_first ? n++ : places[firsts[i]];
    if (is_first) entries[2 * places[i]] = entries[2 * i];
    entries[2 * places[i] + 1] = entries[2 * i + 1];
  }
  node.size = 2 * n;
}

}  // namespace

void check_values(const State& state, const Cell& root) { TreeWalk(state).run(root); }

void remove_duplicate_keys(State& state) {
  KeyOrder order(state);
  for (SequenceNode& node : state.tree.sequences) {
    if (node.kind != Kind::dict && node.kind != Kind::record) continue;
    if (node.size > 2) remove_duplicates(order, std::span(state.tree.cells).subspan(node.first, node.size), node);
  }
}

// Node numbers have 32 bits.
constexpr uint64_t kMaxValues = uint64_t{1} << 26;

Machine::Machine(std::span<const RecordClass> classes, const Limits& limits)
    : classes_(classes.begin(), classes.end()), stream_(state_, {}, nullptr), values_(state_, classes_, &stream_) {
  state_.classes = classes_;
  state_.limits = limits;
  state_.limits.max_values = std::min(limits.max_values, kMaxValues);
  for (const RecordClass& known : classes_) state_.tree.class_names.push_back(cat(known.module, '.', known.name));
}

Value Machine::run(Bytes block) {
  state_.tree.clear();
  state_.storages.clear();
  state_.decoded.clear();
  state_.block = block;
  ByteCursor cursor(block);
  const Cell root = values_.run(cursor);
  check_values(state_, root);
  remove_duplicate_keys(state_);
  return {state_.tree, root};
}

// Copies the tree at its exact size; the machine keeps its own memory.
KeptValue Machine::run_and_keep(Bytes block) {
  const Value value = run(block);
  return {std::make_unique<const ValueTree>(state_.tree), std::exchange(state_.decoded, {}), value.cell()};
}

}  // namespace atompack::pickle
