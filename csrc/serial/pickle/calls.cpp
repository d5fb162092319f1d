#include "serial/pickle/calls.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/excerpt.h"
#include "serial/pickle/interpreter.h"
#include "serial/pickle/numpy_calls.h"
#include "serial/pickle/torch_calls.h"

namespace atompack::pickle {
namespace {

// Records have few attributes; a larger dict that is shared by many would be copied again and again.
constexpr size_t kMaxAttributes = 256;

// Each character U+0000 to U+00FF becomes one byte.
void decode_latin1(Bytes text, std::span<std::byte> out) {
  size_t i = 0;
  for (std::byte& byte : out) {
    const auto lead = static_cast<uint8_t>(text[i++]);
    const uint8_t tail = lead < 0x80 ? uint8_t{0} : static_cast<uint8_t>(text[i++]);
    byte = static_cast<std::byte>(lead < 0x80 ? lead : (lead & 3) << 6 | (tail & 0x3F));
  }
}

Cell encode(State& state, std::span<const Cell> arguments) {
  expect_count(arguments, 2, 2, "_codecs.encode");
  expect_kind(arguments[0], Kind::text, "_codecs.encode");
  expect_kind(arguments[1], Kind::text, "_codecs.encode");
  if (arguments[1].text() != "latin1") {
    unsafe("_codecs.encode: expected the encoding latin1, got ", excerpt(arguments[1].text()));
  }
  const Bytes text = arguments[0].bytes();
  size_t n_wide = 0;
  for (const std::byte byte : text) {
    if (byte > std::byte{0xC3}) corrupt("_codecs.encode: expected latin1 characters, got ", excerpt(as_text(text)));
    n_wide += byte >= std::byte{0xC0};
  }
  if (n_wide == 0) return Cell::view(Kind::bytes, text);
  const size_t size = text.size() - n_wide;
  // Each string is decoded once, unless one from the memo is decoded repeatedly.
  if (size > state.block.size() - std::min<uint64_t>(state.decoded.used(), state.block.size())) {
    unsafe("expected at most ", state.block.size(), " bytes stored as strings, got more");
  }
  const std::span<std::byte> decoded = state.decoded.add(size);
  decode_latin1(text, decoded);
  return Cell::view(Kind::bytes, decoded);
}

Cell call_global(State& state, Interpreter* stream, Global global, std::span<const Cell> arguments) {
  switch (global) {
    case Global::reconstruct:
      return numpy_reconstruct(state, arguments);
    case Global::ndarray:
      return numpy_array(state, arguments);
    case Global::dtype:
      return numpy_dtype(state, arguments);
    case Global::from_buffer:
      return numpy_from_buffer(state, arguments);
    case Global::scalar:
      return numpy_scalar(state, arguments);
    case Global::encode:
      return encode(state, arguments);
    case Global::bytes:
      expect_count(arguments, 0, 0, "bytes");
      return Cell::view(Kind::bytes, state.block.first(0));
    case Global::rebuild_tensor:
      return torch_rebuild_tensor(state, arguments);
    case Global::load_from_bytes: {
      expect_count(arguments, 1, 1, "torch.storage._load_from_bytes");
      expect_kind(arguments[0], Kind::bytes, "torch.storage._load_from_bytes");
      const Bytes blob = arguments[0].bytes();
      return torch_load_from_bytes(state, *stream, blob);
    }
    case Global::ordered_dict:
      expect_count(arguments, 0, 0, "collections.OrderedDict");
      return Cell::make(kOrderedDict);
    case Global::storage:
    case Global::record:
      break;
  }
  unsafe("expected a function of plain data, got REDUCE of a class");
}

}  // namespace

std::string_view describe(const Cell& cell) {
  constexpr std::array<std::string_view, 4> kNames = {"a global", "a bytearray", "a torch storage", "an OrderedDict"};
  const Kind kind = cell.kind();
  return kind < kGlobal ? name_of(kind) : kNames.at(static_cast<size_t>(kind) - static_cast<size_t>(kGlobal));
}

Cell call(State& state, Interpreter* stream, const Cell& callable, const Cell& arguments) {
  if (callable.kind() != kGlobal) unsafe("expected a global, got REDUCE of ", describe(callable));
  expect_kind(arguments, Kind::tuple, "REDUCE");
  return call_global(state, stream, static_cast<Global>(callable.node), state.items(arguments));
}

Cell new_object(State& state, const Cell& record_class, const Cell& arguments) {
  expect_kind(arguments, Kind::tuple, "NEWOBJ");
  expect_count(state.items(arguments), 0, 0, "NEWOBJ");
  const uint32_t node = state.tree.add_sequence(Kind::record, {});
  state.tree.sequences[node].class_number = static_cast<uint32_t>(record_class.size);
  return Cell::make(Kind::record, node);
}

void build(State& state, const Cell& object, const Cell& build_state) {
  if (object.kind() == Kind::array) return build_numpy_array(state, object, build_state);
  if (object.kind() == Kind::dtype) return build_numpy_dtype(state, object, build_state);
  if (object.kind() != Kind::record) unsafe("expected an array, dtype or record, got BUILD of ", describe(object));
  if (!state.items(object).empty()) corrupt("BUILD: expected a record without attributes, got one that has them");
  if (build_state.kind() != Kind::dict) unsafe("expected a dict of attributes, got BUILD with ", describe(build_state));
  const std::span<const Cell> entries = state.items(build_state);
  if (entries.size() > 2 * kMaxAttributes) {
    unsafe("expected at most ", kMaxAttributes, " attributes, got ", entries.size() / 2);
  }
  for (size_t i = 0; i < entries.size(); i += 2) expect_kind(entries[i], Kind::text, "attribute name");
  // A copy: the dict may change later, the object must not.
  const auto& ignored = state.classes[state.tree.sequences[object.node].class_number].ignored;
  std::vector<Cell> copy;
  for (size_t i = 0; i < entries.size(); i += 2) {
    if (std::ranges::find(ignored, entries[i].text()) != ignored.end()) continue;
    copy.insert(copy.end(), entries.begin() + static_cast<std::ptrdiff_t>(i),
                entries.begin() + static_cast<std::ptrdiff_t>(i + 2));
  }
  state.tree.append(static_cast<uint32_t>(object.node), copy);
}

}  // namespace atompack::pickle
