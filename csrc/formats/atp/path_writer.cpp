#include "formats/atp/path_writer.h"

#include <array>
#include <cerrno>
#include <cstring>

#include "codec/codec.h"
#include "formats/atp/encoder.h"
#include "formats/atp/reader.h"
#include "threads/process.h"

namespace atompack::atp {
namespace {

uint64_t slot_of(const Header& header, const io::WritableFile& file) {
  std::array<std::byte, Header::kEncodedSize> slot{};
  file.read_at(0, slot);
  try {
    return Header::decode(slot, file.size()).generation == header.generation ? 0 : Header::kEncodedSize;
  } catch (const DataError&) {
    return Header::kEncodedSize;  // slot A is damaged, so slot B was chosen
  }
}

WriterState load_state(const io::LockedFile& file) {
  const std::string& path = file.path();
  const Snapshot snapshot = take_snapshot(path);
  const Header& header = snapshot.header;
  WriterState state{header, slot_of(header, file), {}};
  state.rules.format = header.record_format;
  if (header.n_molecules == 0) return state;
  if (header.schema_length == 0) {
    state.rules = derive_rules(Reader(path, snapshot, {}));
    return state;
  }
  std::vector<std::byte> blob(header.schema_length);  // bounded: take_snapshot() has decoded it
  file.read_at(header.schema_offset, blob);
  state.rules.schema = decode_schema(blob, header);
  state.rules.positions = state.rules.schema.positions;
  state.rules.is_fixed = true;
  return state;
}

std::unique_ptr<io::LockedFile> open_if_there(const std::string& path) {
  return if_present([&] { return std::make_unique<io::LockedFile>(io::LockedFile::open(path)); });
}

}  // namespace

PathWriter::PathWriter(const std::string& path, OpenMode mode, std::optional<codec::Codec> codec, int level,
                       unsigned n_threads)
    : path_(path), owner_(threads::process_id()), n_threads_(n_threads) {
  const codec::Codec fresh = codec.value_or(codec::Codec::none);
  switch (mode) {
    case OpenMode::create:
      create(fresh, level);
      publish_empty();
      return;
    case OpenMode::replace:
      replaced_ = open_if_there(path);
      create(fresh, level);
      return;
    case OpenMode::append:
      append(codec, level);
      return;
  }
}

PathWriter::~PathWriter() {
  if (owner_ == threads::process_id()) return;
  // In a forked child there are no threads to stop, and locks may be held forever.
  static_cast<void>(writer_.release());
}

void PathWriter::create(codec::Codec codec, int level) {
  codec::check_level(codec, level);
  file_ = std::make_unique<io::LockedFile>(io::LockedFile::create_unpublished(path_));
  start(Writer::create(*file_, codec, level), level);
}

void PathWriter::publish_empty() {
  file_->publish(false);
  created_ = true;
}

void PathWriter::append(std::optional<codec::Codec> codec, int level) {
  file_ = open_if_there(path_);
  if (!file_) {
    create(codec.value_or(codec::Codec::none), level);
    publish_empty();
    return;
  }
  WriterState state = load_state(*file_);
  if (codec && *codec != state.header.codec) {
    throw FieldError(cat("codec: expected ", name_of(state.header.codec), " as in the file, got ", name_of(*codec)))
        .in_file(path_);
  }
  // A header stores the level of zstd only.
  const bool use_given = codec || state.header.codec != codec::Codec::zstd;
  if (use_given) codec::check_level(state.header.codec, level);
  start(std::move(state), use_given ? level : state.header.level);
}

void PathWriter::start(WriterState state, int level) {
  const unsigned n_threads = codec::threads_for(state.header.codec, n_threads_);
  writer_ = std::make_unique<Writer>(*file_, std::move(state), level, n_threads);
}

std::unique_lock<std::mutex> PathWriter::use() const {
  threads::check_writer_of(owner_, path_);
  std::unique_lock lock(mutex_);
  if (!writer_) throw IoError(EBADF, "the writer is closed", path_);
  return lock;
}

void PathWriter::write(std::span<const Columns> runs) {
  const auto lock = use();
  in_file(path_, [&] { writer_->write(runs); });
}

void PathWriter::copy(const Reader& from, std::span<const int64_t> indices) {
  const auto lock = use();
  in_file(path_, [&] { writer_->copy(from, indices); });
}

void PathWriter::commit(bool publish) {
  const auto lock = use();
  commit_now(publish);
}

void PathWriter::commit_now(bool publish) {
  if (writer_->has_changes() || !has_commit()) writer_->commit();
  if (!publish || file_->is_published()) return;
  file_->publish(replaced_ != nullptr);  // a file created in the meantime belongs to someone else
  replaced_.reset();
}

void PathWriter::close() {
  const auto lock = use();
  if (writer_->has_changes() || !file_->is_published()) commit_now(true);
  release_file();
}

void PathWriter::discard() {
  const auto lock = use();
  if (created_ && !has_commit()) file_->remove();
  release_file();
}

bool PathWriter::has_commit() const { return writer_->header().index_length > 0; }

void PathWriter::release_file() {
  writer_.reset();
  file_.reset();
  replaced_.reset();
}

uint64_t PathWriter::n_molecules() const {
  const auto lock = use();
  return writer_->n_molecules();
}

codec::Codec PathWriter::codec() const {
  const auto lock = use();
  return writer_->header().codec;
}

std::string PathWriter::present_path() const {
  const auto lock = use();
  return file_->present_path();
}

}  // namespace atompack::atp
