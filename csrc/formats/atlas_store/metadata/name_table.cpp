#include "formats/atlas_store/metadata/name_table.h"

#include <functional>
#include <limits>

#include "base/error.h"

namespace atompack::atlas_store {
namespace {

uint32_t hash_of(std::string_view name) { return static_cast<uint32_t>(std::hash<std::string_view>()(name)); }

}  // namespace

std::string_view NameTable::operator[](uint32_t number) const {
  const uint32_t begin = number == 0 ? 0 : ends_[number - 1];
  return std::string_view(characters_).substr(begin, ends_[number] - begin);
}

std::optional<uint32_t> NameTable::find(std::string_view name) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(name, hash_of(name))];
  if (slot.number == 0) return std::nullopt;
  return slot.number - 1;
}

uint32_t NameTable::add(std::string_view name) {
  if (2 * ends_.size() >= slots_.size()) grow();
  const uint32_t hash = hash_of(name);
  Slot& slot = slots_[slot_of(name, hash)];
  if (slot.number == 0) {
    if (name.size() > std::numeric_limits<uint32_t>::max() - characters_.size()) {
      throw FieldError("names: expected less than 4 GiB, got more");
    }
    characters_ += name;
    ends_.push_back(static_cast<uint32_t>(characters_.size()));
    slot = {hash, size()};
  }
  return slot.number - 1;
}

size_t NameTable::slot_of(std::string_view name, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].number != 0 && (slots_[at].hash != hash || (*this)[slots_[at].number - 1] != name)) {
    at = (at + 1) & mask;
  }
  return at;
}

void NameTable::grow() {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(old.empty() ? 16 : 2 * old.size(), {});
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.number == 0) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].number != 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

}  // namespace atompack::atlas_store
