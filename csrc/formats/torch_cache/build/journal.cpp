#include "formats/torch_cache/build/journal.h"

#include "codec/adler32.h"

namespace atompack::torch_cache {
namespace {

constexpr size_t kStepHeadBytes = 12;  // length of a step (u64), its checksum (u32)

std::vector<std::byte> read_all(const io::WritableFile& file) {
  std::vector<std::byte> bytes(file.size());
  bytes.resize(file.read_at(0, bytes));
  return bytes;
}

std::vector<std::byte> step_of(Bytes body) {
  std::vector<std::byte> step(kStepHeadBytes + body.size());
  std::byte* at = store_le(step.data(), static_cast<uint64_t>(body.size()));
  at = store_le(at, codec::adler32(body));
  store(at, body);
  return step;
}

// Reads the next complete step; false if there is none.
bool take_step(ByteCursor& cursor, Bytes& body) {
  if (cursor.remaining() < kStepHeadBytes) return false;
  const auto length = cursor.read_le<uint64_t>("length");
  const auto sum = cursor.read_le<uint32_t>("checksum");
  if (length > cursor.remaining()) return false;
  body = cursor.take(length, "step");
  return codec::adler32(body) == sum;
}

}  // namespace

// The first step is the fingerprint.
Journal::Journal(io::WritableFile& file, const std::string& fingerprint) : file_(file) {
  read(fingerprint) ? file_.truncate(end_) : start(fingerprint);
}

void Journal::start(const std::string& fingerprint) {
  records_.clear();
  file_.truncate(0);
  const std::vector<std::byte> head = step_of(as_bytes(fingerprint));
  file_.write_at(0, head);
  file_.sync_data();
  end_ = head.size();
}

bool Journal::read(const std::string& fingerprint) {
  const std::vector<std::byte> bytes = read_all(file_);
  ByteCursor cursor(bytes);
  Bytes body;
  if (!take_step(cursor, body) || as_text(body) != fingerprint) return false;
  end_ = cursor.position();
  while (take_step(cursor, body)) {
    ByteCursor entries(body);
    while (entries.remaining() > 0) records_.push_back(read_record(entries));
    end_ = cursor.position();
  }
  return true;
}

void Journal::append(const std::vector<EntryRecord>& records) {
  std::vector<std::byte> body;
  for (const EntryRecord& record : records) append_record(record, body);
  const std::vector<std::byte> step = step_of(body);
  file_.write_at(end_, step);
  file_.sync_data();
  end_ += step.size();
  records_.insert(records_.end(), records.begin(), records.end());
}

}  // namespace atompack::torch_cache
