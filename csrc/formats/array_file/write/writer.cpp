#include "formats/array_file/write/writer.h"

#include "formats/array_file/write/writer_impl.h"
#include "threads/process.h"

namespace atompack::array_file {
namespace {

// Adds file and array to errors.
template <typename Action>
auto with_context(const std::string& path, std::string_view name, const Action& action) {
  try {
    return action();
  } catch (DataError& error) {
    if (!name.empty()) error.at_field(std::string(name));
    error.in_file(path);
    throw;
  }
}

}  // namespace

Writer::Writer(const std::string& path, WriterOptions options, io::FileSystem& files)
    : path_(path), owner_(io::process_id()), impl_(std::make_unique<Impl>(path, std::move(options), files)) {}

Writer::~Writer() {
  if (owner_ == io::process_id()) return;
  // In a forked child there are no threads to stop, and locks may be held for ever.
  static_cast<void>(impl_.release());
}

Writer::Impl& Writer::use() const {
  io::check_writer_of(owner_, path_);
  return *impl_;
}

std::vector<std::string> Writer::names() const { return use().names(); }

bool Writer::contains(std::string_view name) const { return use().contains(name); }

ArrayDefinition Writer::definition(std::string_view name) const {
  return with_context(path_, name, [&] { return use().definition(name); });
}

void Writer::define(const ArrayDefinition& definition) {
  with_context(path_, definition.name, [&] { use().define(definition); });
}

void Writer::write(std::string_view name, const Box& box, Bytes numbers) {
  with_context(path_, name, [&] { use().write(name, box, numbers); });
}

void Writer::write(std::string_view name, const Box& box, std::span<const std::string_view> strings) {
  with_context(path_, name, [&] { use().write(name, box, strings); });
}

void Writer::remove(std::string_view name) {
  with_context(path_, name, [&] { use().remove(name); });
}

void Writer::check_unstored(std::string_view name, const Box& box) const {
  with_context(path_, name, [&] { use().check_unstored(name, box); });
}

void Writer::read(std::string_view name, const Box& box, std::span<std::byte> out) {
  with_context(path_, name, [&] { use().read(name, box, out); });
}

void Writer::read(std::string_view name, const Box& box, std::span<std::string> out) {
  with_context(path_, name, [&] { use().read(name, box, out); });
}

bool Writer::has_changes() const { return use().has_changes(); }

bool Writer::stage() {
  return with_context(path_, "", [&] { return use().stage(); });
}

uint32_t Writer::staged_number() const {
  static_cast<void>(use().staged());
  return use().number();
}

std::string Writer::staged_digest() const { return use().digest(); }

void Writer::publish() { use().publish(); }

void Writer::write_statistics() { use().write_statistics(); }

void Writer::flush() {
  if (stage()) {
    use().withdraw_statistics();
    publish();
  }
  write_statistics();
  use().keep();
}

void Writer::discard() { use().reset_pending(); }

void Writer::abandon() { use().abandon(); }

bool Writer::rewrite_redefined() {
  return with_context(path_, "", [&] { return use().rewrite_redefined(); });
}

void Writer::compact() {
  flush();
  with_context(path_, "", [&] { use().compact(); });
}

}  // namespace atompack::array_file
