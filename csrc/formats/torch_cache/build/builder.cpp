#include "formats/torch_cache/build/builder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "codec/checksums.h"
#include "io/file.h"
#include "io/local_file.h"

namespace atompack::torch_cache {
namespace {

constexpr size_t kStepHeadBytes = 12;  // length of a step (u64), its checksum (u32)

std::vector<std::byte> read_all(const io::WritableFile& file) {
  std::vector<std::byte> bytes(file.size());
  bytes.resize(file.read_at(0, bytes));
  return bytes;
}

std::vector<std::byte> step_of(Bytes body) {
  std::vector<std::byte> step;
  append_le(step, static_cast<uint64_t>(body.size()), codec::adler32(body));
  append(step, body);
  return step;
}

// Reads the next complete step; false at the end.
bool take_step(ByteCursor& cursor, Bytes& body) {
  if (cursor.remaining() < kStepHeadBytes) return false;
  const auto length = cursor.read_le<uint64_t>("length");
  const auto sum = cursor.read_le<uint32_t>("checksum");
  if (length > cursor.remaining()) return false;
  body = cursor.take(length, "step");
  return codec::adler32(body) == sum;
}

// Offset of the first collection; HDF5's own header is shorter.
constexpr uint64_t kFirstCollection = 4096;

std::string journal_path(const std::string& path) { return path + ".journal"; }

void check_free(const std::string& path) {
  if (io::exists(path)) throw IoError(EEXIST, std::strerror(EEXIST), path);
}

io::LockedFile resume(const std::string& path) {
  io::LockedFile file = io::LockedFile::resume_unpublished(path);
  file.leave();
  return file;
}

// Collections are consecutive, so the last one in the journal determines where the next one begins.
uint64_t end_of(const io::LockedFile& file, std::span<const EntryRecord> records) {
  if (records.empty()) return kFirstCollection;
  std::array<std::byte, 16> head{};
  const uint64_t last = records.back().address, size = file.size();
  const bool has_head = file.read_at(last, head) == head.size() && as_text(Bytes(head).first(4)) == "GCOL";
  const uint64_t bytes = load_le<uint64_t>(head.data() + 8);
  if (!has_head || bytes > size - last) {
    throw_corrupt(file.present_path(), ": expected the entries of its journal, got ", size,
                  " bytes without the last one: delete both to rebuild");
  }
  return last + bytes;
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

Builder::Builder(const std::string& path, CacheHeader header, const std::string& fingerprint, uint64_t checkpoint_bytes)
    : header_(std::move(header)),
      checkpoint_bytes_(checkpoint_bytes),
      file_((check_free(path), resume(path))),
      journal_file_(resume(journal_path(path))),
      journal_(journal_file_, fingerprint) {
  // The journal is left over from a file that was published just before the process died.
  if (file_.size() == 0 && !journal_.records().empty()) journal_.start(fingerprint);
  end_ = end_of(file_, journal_.records());
  file_.truncate(end_);
}

Builder::~Builder() = default;

void Builder::append(const EncodedEntries& entries) {
  file_.write_at(end_, entries.bytes);
  file_.start_writing_back(end_, entries.bytes.size());
  for (const EntryRecord& record : entries.records) pending_.emplace_back(record).address += end_;
  end_ += entries.bytes.size();
  pending_bytes_ += entries.bytes.size();
  if (pending_bytes_ >= checkpoint_bytes_) checkpoint();
}

void Builder::checkpoint() {
  if (pending_.empty()) return;
  file_.sync_data();
  journal_.append(pending_);
  pending_.clear();
  pending_bytes_ = 0;
}

void Builder::absorb(const std::string& part_path, const std::string& fingerprint, size_t n_known) {
  constexpr size_t kMaxBytes = size_t{64} << 20;
  Builder part(part_path, header_, fingerprint);
  const std::span<const EntryRecord> records = part.journal_.records();
  for (size_t first = n_known; first < records.size();) {
    size_t last = first + 1;
    const auto end = [&](size_t i) { return i < records.size() ? records[i].address : part.end_; };
    while (last < records.size() && end(last + 1) - records[first].address <= kMaxBytes) ++last;
    EncodedEntries some{
        std::vector<std::byte>(end(last) - records[first].address),
        {records.begin() + static_cast<ptrdiff_t>(first), records.begin() + static_cast<ptrdiff_t>(last)}};
    if (part.file_.read_at(records[first].address, some.bytes) < some.bytes.size()) {
      throw CorruptFileError(
          cat(part.file_.present_path(), ": expected all entries of its journal, got a truncated file"));
    }
    for (EntryRecord& record : some.records) record.address -= records[first].address;
    append(some);
    first = last;
  }
  checkpoint();
  part.discard();
}

void Builder::finish() {
  checkpoint();
  // also drops what an earlier attempt to finish has written
  file_.truncate(end_);
  std::vector<std::byte> head = empty_file();
  if (head.size() > kFirstCollection) throw InternalError("the header of an HDF5 file is longer than expected");
  head.resize(kFirstCollection);
  set_end(head, end_);
  file_.write_at(0, head);
  try {
    write_tables(file_.present_path(), header_, journal_.records());
  } catch (const IoError& error) {
    throw IoError(error.code(), error.reason(), file_.path());
  }
  file_.sync();
  check_written();
  file_.publish(false);
  file_.unlock();  // HDF5 readers lock the file themselves
  journal_file_.leave(false);
}

// libhdf5 may lose a write.
void Builder::check_written() const {
  constexpr const char* kLost = "expected the tables that were written, got others";
  const std::string& path = file_.path();
  try {
    const auto file = std::make_shared<const io::LocalFile>(file_.present_path(), path);
    const io::MappedFile bytes(file, file->identity().size, io::Access::random, false);
    if (has_tables(bytes.whole(), header_, journal_.records())) return;
  } catch (const DataError& error) {
    throw IoError(EIO, cat(kLost, ": ", error.what()), path);
  }
  throw IoError(EIO, kLost, path);
}

void Builder::discard() {
  file_.leave(false);
  journal_file_.leave(false);
}

}  // namespace atompack::torch_cache
