#include "formats/torch_cache/rows/heap.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace atompack::torch_cache {
namespace {

constexpr uint64_t kCollectionHeader = 16;
constexpr uint64_t kObjectHeader = 16;
constexpr uint64_t kSizeAt = 8;              // in both headers
constexpr uint32_t kMaxObjects = 65536;      // their numbers have 16 bits
constexpr uint32_t kSignature = 0x4c4f4347;  // "GCOL"

static_assert(kCollectionHeader == kObjectHeader);

std::vector<std::unique_ptr<std::byte[]>>& rows_of_thread() {
  thread_local std::vector<std::unique_ptr<std::byte[]>> rows;
  return rows;
}

}  // namespace

const std::byte* GlobalHeap::header_at(uint64_t at) const {
  const auto buffer = []() -> io::RangeBuffer& {
    thread_local io::RangeBuffer header;
    return header;
  };
  return file_->bytes(at, kObjectHeader, buffer).data();
}

Bytes GlobalHeap::row(uint64_t offset, uint64_t n) const {
  if (file_->is_mapped()) return file_->whole().subspan(offset, n);
  const auto& bytes = rows_of_thread().emplace_back(std::make_unique_for_overwrite<std::byte[]>(n));
  file_->copy(offset, {bytes.get(), n});
  return {bytes.get(), n};
}

void GlobalHeap::forget_rows() { rows_of_thread().clear(); }

void GlobalHeap::prefetch(uint64_t offset, uint64_t n) const { file_->prefetch(offset, n); }

GlobalHeap::Extent GlobalHeap::collection_at(uint64_t address) const {
  const uint64_t room = file_->length();
  if (base_ > room || address > room - base_ || room - base_ - address < kCollectionHeader) {
    throw CorruptFileError(
        cat("heap collection: expected an address inside the file of ", room, " bytes, got ", address));
  }
  const uint64_t at = base_ + address;
  const std::byte* const header = header_at(at);
  if (load_le<uint32_t>(header) != kSignature)
    throw CorruptFileError("heap collection: expected the signature GCOL, got another", at);
  if (const auto version = static_cast<int>(header[4]); version != 1) {
    throw UnsupportedFormatError(cat("heap collection: expected version 1, got ", version), at);
  }
  const auto size = load_le<uint64_t>(header + kSizeAt);
  if (size < kCollectionHeader || size > room - at) {
    throw CorruptFileError(cat("heap collection: expected at most ", room - at, " bytes, got ", size), at);
  }
  return {at, at + size};
}

uint64_t GlobalHeap::find(uint64_t collection, uint32_t number, uint64_t length) const {
  const auto [first, end] = collection_at(collection);
  uint64_t at = first + kCollectionHeader;
  for (uint32_t seen = 0; seen < kMaxObjects && end - at >= kObjectHeader; ++seen) {
    const std::byte* const header = header_at(at);
    const auto found = load_le<uint16_t>(header);
    const auto size = load_le<uint64_t>(header + kSizeAt);
    const uint64_t room = end - at - kObjectHeader;
    if (found == 0) break;  // free space, which is always last
    if (size > room) throw CorruptFileError(cat("heap object: expected at most ", room, " bytes, got ", size), at);
    if (found == number) {
      if (size != length) throw CorruptFileError(cat("heap object: expected ", length, " bytes, got ", size), at);
      return at + kObjectHeader;
    }
    const uint64_t padded_size = size + (8 - size % 8) % 8;
    if (padded_size > room) break;
    at += kObjectHeader + padded_size;
  }
  throw CorruptFileError(cat("heap collection: expected an object ", number, ", got none"), first);
}

}  // namespace atompack::torch_cache
