#include "formats/torch_cache/rows/heap.h"

#include <algorithm>
#include <memory>

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

constexpr size_t kHeadBytes = 16;   // of the collection and of each object
constexpr size_t kMinBytes = 4096;  // minimum size in libhdf5

size_t padded_size(size_t bytes) { return (bytes + 7) / 8 * 8; }

template <typename Out, typename In>
void convert(const Payload& payload, std::byte* to) {
  for (size_t i = 0; i < payload.count; ++i) {
    to = store_le(to, static_cast<Out>(load_le<In>(payload.values + i * sizeof(In))));
  }
}

void write_values(const Payload& payload, std::byte* to) {
  if (payload.out == DType::int64 && payload.subtract != 0) {
    for (size_t i = 0; i < payload.count; ++i) {
      to = store_le(to, load_le<int64_t>(payload.values + i * sizeof(int64_t)) - payload.subtract);
    }
  } else if (payload.in == payload.out) {
    store(to, {payload.values, payload.bytes()});
  } else if (payload.out == DType::float32) {
    convert<float, double>(payload, to);
  } else {
    convert<double, float>(payload, to);
  }
}

std::byte* write_head(std::byte* to, uint16_t number, uint16_t references, uint64_t bytes) {
  to = store_le(to, number);
  to = store_le(to, references);
  to = store_le(to, uint32_t{0});
  return store_le(to, bytes);
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

void append_collection(std::span<const Payload> payloads, std::vector<std::byte>& to) {
  size_t bytes = kHeadBytes;
  for (const Payload& payload : payloads) bytes += payload.count == 0 ? 0 : kHeadBytes + padded_size(payload.bytes());
  const size_t total = std::max(bytes, kMinBytes);
  const size_t start = to.size();
  to.resize(start + total);
  std::byte* at = store(to.data() + start, as_bytes({"GCOL\1\0\0\0", 8}));
  at = store_le(at, static_cast<uint64_t>(total));
  for (size_t i = 0; i < payloads.size(); ++i) {
    if (payloads[i].count == 0) continue;
    at = write_head(at, static_cast<uint16_t>(i + 1), 1, payloads[i].bytes());
    write_values(payloads[i], at);
    at += padded_size(payloads[i].bytes());
  }
  // The remaining space is object 0, if its header fits.
  if (total - bytes >= kHeadBytes) write_head(at, 0, 0, total - bytes);
}

constexpr uint64_t kFound = uint64_t{1} << 63;

VlenColumn::VlenColumn(std::string name, DType dtype, Bytes references)
    : name_(std::move(name)), dtype_(dtype), places_(references.size() / kReferenceBytes) {
  const std::byte* from = references.data();
  for (Place& place : places_) {
    place.length = load_le<uint32_t>(from);
    // Keeps the highest bit clear, which marks rows that were found; no valid address is that large.
    place.at.store(std::min(load_le<uint64_t>(from + 4), kFound - 1), std::memory_order_relaxed);
    place.number = load_le<uint32_t>(from + 12);
    total_bytes_ += place.length * uint64_t{item_bytes(dtype_)};
    from += kReferenceBytes;
  }
}

Bytes VlenColumn::row(const GlobalHeap& heap, int64_t row) const {
  const Place& found = place(row);
  if (found.length == 0) return {};
  const uint64_t bytes = row_bytes(row);
  const uint64_t at = found.at.load(std::memory_order_relaxed);
  if ((at & kFound) != 0) return heap.row(at & ~kFound, bytes);
  return at_field(name_, [&] {
    const uint64_t offset = heap.find(at, found.number, bytes);
    found.at.store(offset | kFound, std::memory_order_relaxed);
    return heap.row(offset, bytes);
  });
}

void VlenColumn::prefetch(const GlobalHeap& heap, int64_t row) const {
  const uint64_t at = place(row).at.load(std::memory_order_relaxed);
  if ((at & kFound) == 0) return;
  heap.prefetch(at & ~kFound, row_bytes(row));
}

}  // namespace atompack::torch_cache
