#include "torch_cache/journal.h"

#include "codec/adler32.h"

namespace atompack::torch_cache {
namespace {

constexpr size_t kHeadBytes = 16;  // length of a step (u64), its checksum (u32), how many entries (u32)

std::vector<std::byte> read_all(const io::WritableFile& file) {
  std::vector<std::byte> bytes(file.size());
  bytes.resize(file.read_at(0, bytes));
  return bytes;
}

std::vector<std::byte> step_of(Bytes body, uint32_t n_entries) {
  std::vector<std::byte> step(kHeadBytes + body.size());
  std::byte* at = store_le(step.data(), static_cast<uint64_t>(body.size()));
  at = store_le(at, codec::adler32(body));
  at = store_le(at, n_entries);
  store(at, body);
  return step;
}

// The next step that is whole; false where there is none.
bool take_step(ByteCursor& cursor, Bytes& body, uint32_t& n_entries) {
  if (cursor.remaining() < kHeadBytes) return false;
  const auto length = cursor.read_le<uint64_t>("length");
  const auto sum = cursor.read_le<uint32_t>("checksum");
  n_entries = cursor.read_le<uint32_t>("entries");
  if (length > cursor.remaining()) return false;
  body = cursor.take(length, "step");
  return codec::adler32(body) == sum;
}

}  // namespace

// The first step is the fingerprint.
Journal::Journal(io::WritableFile& file, const std::string& fingerprint) : file_(file) {
  if (read(fingerprint)) {
    file_.truncate(end_);
    return;
  }
  file_.truncate(0);
  const std::vector<std::byte> head = step_of(as_bytes(fingerprint), 0);
  file_.write_at(0, head);
  file_.sync_data();
  end_ = head.size();
}

bool Journal::read(const std::string& fingerprint) {
  const std::vector<std::byte> bytes = read_all(file_);
  ByteCursor cursor(bytes);
  Bytes body;
  uint32_t n_entries = 0;
  if (!take_step(cursor, body, n_entries) || as_text(body) != fingerprint) return false;
  end_ = cursor.position();
  while (take_step(cursor, body, n_entries)) {
    ByteCursor entries(body);
    for (uint32_t i = 0; i < n_entries; ++i) records_.push_back(read_record(entries));
    end_ = cursor.position();
  }
  return true;
}

void Journal::append(std::vector<EntryRecord> records) {
  std::vector<std::byte> body;
  for (const EntryRecord& record : records) append_record(record, body);
  const std::vector<std::byte> step = step_of(body, static_cast<uint32_t>(records.size()));
  file_.write_at(end_, step);
  file_.sync_data();
  end_ += step.size();
  for (EntryRecord& record : records) records_.push_back(std::move(record));
}

}  // namespace atompack::torch_cache
