#include "formats/atlas_store/writer.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/excerpt.h"
#include "base/utf8.h"
#include "formats/array_file/write/writer.h"
#include "formats/atlas_store/collection.h"
#include "formats/atlas_store/flush.h"
#include "formats/atlas_store/metadata/metadata.h"
#include "io/folder.h"
#include "threads/process.h"

namespace atompack::atlas_store {
namespace {

// Runs `action`; errors get the arguments of the call.
template <typename Action>
decltype(auto) in_call(const std::string& path, std::string_view dataset, std::string_view array,
                       const Action& action) {
  const auto add_names = [&](DataError& error) {
    if (!dataset.empty()) error.at_field(array.empty() ? std::string(dataset) : cat(dataset, '/', array));
    error.in_file(path);
  };
  return with_context(add_names, action);
}

// Rules for attributes that are about to be stored.

// Throws FieldError for a key or value that would not be read back unchanged from a metadata file of this form: strings
// that are not UTF-8 or look like a timestamp, and in JSON numbers that are not finite.
void check_attribute(std::string_view key, const AttributeValue& value, Form form) {
  const auto refuse = [&](std::string_view expected, std::string_view got) {
    throw FieldError(cat("attribute ", excerpt(key), ": expected ", expected, ", got ", got));
  };
  if (!is_utf8(as_bytes(key))) refuse("a UTF-8 key", "other bytes");
  if (const auto* const real = std::get_if<double>(&value); real != nullptr && is_json(form) && !std::isfinite(*real)) {
    refuse("a finite number in JSON", cat(*real));
  }
  const auto* const text = std::get_if<std::string_view>(&value);
  if (text == nullptr) return;
  if (!is_utf8(as_bytes(*text))) refuse("UTF-8", "other bytes");
  if (parse_timestamp(*text)) refuse("a string that does not read as a timestamp", excerpt(*text));
}

constexpr unsigned kThreads = 8;  // for a flush: more than cores, since they wait for the disk

using array_file::ArrayDefinition;
using array_file::Box;

Schema schema_of(const ArrayDefinition& definition, codec::Codec codec) {
  return {{definition.type, {}}, definition.shape, definition.chunk_shape, definition.dimension_names, codec};
}

bool holds_arrays(const std::string& store) {
  return std::ranges::any_of(io::folders_in(store), [&](const std::string& folder) {
    return io::exists(cat(store, '/', folder, "/data.af"));
  });
}

[[noreturn]] void refuse_existing(const std::string& store) { throw IoError(EEXIST, std::strerror(EEXIST), store); }

}  // namespace

class Writer::Impl {
 public:
  Impl(std::string store, Mode mode, WriterOptions options, io::FileSystem& files)
      : store_(std::move(store)),
        options_(options),
        files_(files),
        made_folder_(files.make_folder(store_)),
        lock_(store_),
        form_(options.form) {
    if (io::exists(cat(store_, '/', kContainerName))) {
      throw UnsupportedFormatError(cat("expected a store to write, got a collection, which is never changed: "
                                       "`atompack-torch convert OLD NEW` makes a store of it"))
          .in_file(cat(store_, '/', kContainerName));
    }
    const std::vector<std::string> warnings = recover(store_, options_.max_metadata_bytes, files_);
    const std::optional<MetadataFile> file = read_metadata_file(store_);
    if (mode == Mode::create && (file || holds_arrays(store_))) refuse_existing(store_);
    if (file) {
      seen_ = file->held->version();
      form_ = file->form;
      metadata_ = decode_metadata(*file, options_.max_metadata_bytes);
      if (metadata_.version > 1) {
        throw UnsupportedFormatError(
            cat("version: expected 0 or 1 to write, got ", metadata_.version,
                ", that of a newer release: `atompack-torch convert OLD NEW` makes a store that "
                "can be written"))
            .in_file(file->path);
      }
    }
    for (const std::string& warning : warnings) metadata_.warn(warning);
    changed_ = !file || (options_.codec && metadata_.codec != *options_.codec);
    if (options_.codec) metadata_.codec = *options_.codec;
    if (file) return;
    try {
      flush();
    } catch (...) {
      flush_.reset();
      if (made_folder_) io::remove_if_empty(store_);
      throw;
    }
    created_store_ = true;
  }

  const Metadata& metadata() const { return metadata_; }

  void create_dataset(std::string_view name) {
    begin_change();
    check_dataset_name(name);
    if (metadata_.find_dataset(name)) throw FieldError("dataset: expected a new name, got one that exists");
    metadata_.add_dataset(name);
    changed_ = true;
  }

  void define_array(std::string_view dataset, const ArrayDefinition& definition) {
    begin_change();
    const uint32_t number = this->dataset(dataset);
    check_array_name(definition.name);
    ArrayDefinition in_file = array_file::with_defaults(definition);
    in_file.name = dataset;
    const uint32_t variable = metadata_.add_variable(definition.name);
    if (metadata_.schema_number(number, variable)) throw FieldError("array: expected a new name, got one that exists");
    array_file::Writer& writer = open(variable, definition.name, true);
    // Arrays unknown to the metadata do not exist: they are left over from a writer that died.
    if (writer.contains(dataset)) writer.remove(dataset);
    writer.define(in_file);
    metadata_.add_array(number, {variable, metadata_.add_schema(schema_of(in_file, metadata_.codec))});
    changed_ = true;
  }

  template <typename Values>
  void write(std::string_view dataset, std::string_view array, const Box& box, const Values& values) {
    begin_change();
    const Place place = this->place(dataset, array);
    array_file::Writer& writer = find_existing(place);
    check_layout(place, writer);
    writer.write(dataset, box, values);
  }

  array_file::ArrayDefinition definition(std::string_view dataset, std::string_view array) {
    return find_existing(place(dataset, array)).definition(dataset);
  }

  void check_unstored(std::string_view dataset, std::string_view array, const Box& box) {
    find_existing(place(dataset, array)).check_unstored(dataset, box);
  }

  template <typename Out>
  void read(std::string_view dataset, std::string_view array, const Box& box, Out out) {
    find_existing(place(dataset, array)).read(dataset, box, out);
  }

  void set_attribute(std::string_view dataset, std::string_view key, const AttributeValue& value) {
    begin_change();
    check_attribute(key, value, form_);
    metadata_.set_attribute(this->dataset(dataset), key, value);
    changed_ = true;
  }

  void delete_array(std::string_view dataset, std::string_view array) {
    begin_change();
    const Place place = this->place(dataset, array);
    array_file::Writer& writer = find_existing(place);
    if (writer.contains(dataset)) writer.remove(dataset);
    metadata_.remove_array(place.dataset, place.variable);
    changed_ = true;
  }

  // All array files are opened before the first one changes.
  void delete_dataset(std::string_view name) {
    begin_change();
    const uint32_t number = dataset(name);
    std::vector<array_file::Writer*> writers;
    for (const Entry& entry : metadata_.arrays(number)) writers.push_back(&find_existing({number, entry.variable}));
    for (array_file::Writer* const writer : writers) {
      if (writer->contains(name)) writer->remove(name);
    }
    metadata_.remove_dataset(number);
    changed_ = true;
  }

  void flush() {
    if (!flush_ || !flush_->is_intent_written()) {
      flush_.reset();
      const std::vector<ChangedVariable> variables = changed_variables();
      if (variables.empty() && !changed_) return;
      check_not_modified();
      flush_.emplace(store_, files_, form_, fingerprint_before(),
                     options_.n_threads > 0 ? options_.n_threads : kThreads);
      flush_->prepare(variables, encode_metadata(metadata_, form_, options_.max_metadata_bytes));
    }
    flush_->run();
    flushed_ = flush_->after();
    seen_ = metadata_version(store_);
    changed_ = false;
    flush_.reset();
  }

  void compact() {
    flush();
    check_not_modified();
    // Includes arrays that no dataset has any more: deleted data would reappear under a new array of the same name.
    for (const std::string& name : io::folders_in(store_)) {
      if (!is_safe_array_name(name) || !io::exists(base_path(store_, name))) continue;
      open(metadata_.add_variable(name), name, false).compact();
    }
  }

  bool rewrite_redefined() {
    if (flush_) return false;
    bool is_any = false;
    for (const auto& writer : writers_) {
      if (!writer) continue;
      check_not_modified();
      is_any = writer->rewrite_redefined() || is_any;
    }
    return is_any;
  }

  // Keeps the store even though this writer created it.
  void keep() { created_store_ = false; }

  void abandon() {
    const bool may_be_visible = flush_ && flush_->is_intent_written();
    flush_.reset();
    for (const auto& writer : writers_) {
      if (writer) writer->abandon();
    }
    writers_.clear();
    const bool is_ours = created_store_ && !may_be_visible && metadata_version(store_) == seen_;
    if (is_ours) files_.remove(path_of(store_, form_));
    for (const std::string& folder : created_folders_) io::remove_if_empty(folder);
    if (is_ours && made_folder_) io::remove_if_empty(store_);
  }

 private:
  // An array of a dataset, both of which exist.
  struct Place {
    uint32_t dataset = 0;
    uint32_t variable = 0;
  };

  void begin_change() {
    if (flush_ && flush_->is_intent_written())
      throw IoError(EBUSY, "a flush is incomplete: call flush() again", store_);
    flush_.reset();
  }

  uint32_t dataset(std::string_view name) const {
    if (const auto number = metadata_.find_dataset(name)) return *number;
    throw FieldError(cat("no such dataset: ", excerpt(name)));
  }

  Place place(std::string_view dataset, std::string_view array) const {
    const uint32_t number = this->dataset(dataset);
    const std::optional<uint32_t> variable = metadata_.find_variable(array);
    if (variable && metadata_.schema_number(number, *variable)) return {number, *variable};
    throw FieldError("no such array");
  }

  array_file::Writer& open(uint32_t variable, std::string_view name, bool define) {
    if (variable >= writers_.size()) writers_.resize(variable + 1);
    std::unique_ptr<array_file::Writer>& writer = writers_[variable];
    if (writer) return *writer;
    const std::string base = base_path(store_, name);
    if (!define && !io::exists(base)) throw CorruptFileError("array file: expected one, got none").in_file(base);
    const std::string folder = folder_of_array(name);
    if (files_.make_folder(cat(store_, '/', folder))) created_folders_.push_back(cat(store_, '/', folder));
    writer = std::make_unique<array_file::Writer>(
        base,
        array_file::WriterOptions{metadata_.codec, options_.level, options_.block_bytes, options_.n_threads,
                                  folder + "/data.af", options_.max_metadata_bytes, options_.max_unstored_bytes},
        files_);
    return *writer;
  }

  array_file::Writer& find_existing(const Place& place) {
    const std::string_view name = metadata_.variable_name(place.variable);
    if (!is_safe_array_name(name)) {
      throw FieldError("array name: expected one whose values atlas-python can find, since the array is written to");
    }
    return open(place.variable, name, false);
  }

  // The original takes no lock. Its changes since then would be lost.
  void check_not_modified() const {
    if (metadata_version(store_) == seen_) return;
    throw IoError(ESTALE, "another program has written to this store since it was opened for writing", store_);
  }

  void check_layout(const Place& place, const array_file::Writer& writer) const {
    const ArrayDefinition stored = writer.definition(metadata_.dataset_name(place.dataset));
    const Schema& schema = metadata_.schema(*metadata_.schema_number(place.dataset, place.variable));
    if (stored.type != schema.dtype.type() || stored.shape != schema.shape) {
      throw CorruptFileError("array: expected type and shape as in the metadata, got others");
    }
  }

  std::vector<ChangedVariable> changed_variables() {
    std::vector<ChangedVariable> variables;
    for (uint32_t i = 0; i < writers_.size(); ++i) {
      if (writers_[i] && writers_[i]->has_changes()) {
        variables.push_back({std::string(metadata_.variable_name(i)), writers_[i].get()});
      }
    }
    return variables;
  }

  std::optional<Fingerprint> fingerprint_before() const {
    if (flushed_) return flushed_;
    const std::optional<MetadataFile> file = read_metadata_file(store_);
    if (!file) return std::nullopt;
    return fingerprint_of(file->bytes);
  }

  const std::string store_;
  const WriterOptions options_;
  io::FileSystem& files_;
  const bool made_folder_;
  const io::LockedFolder lock_;
  Form form_;
  Metadata metadata_;
  bool changed_ = false;                                      // the metadata has changed
  bool created_store_ = false;                                // this writer created the store and has not flushed since
  std::vector<std::string> created_folders_;                  // of arrays
  std::optional<io::FileVersion> seen_;                       // the metadata file as last seen by this writer
  std::optional<Fingerprint> flushed_;                        // the metadata file as last written by this writer
  std::vector<std::unique_ptr<array_file::Writer>> writers_;  // by variable; only those that were changed
  std::optional<Flush> flush_;                                // destroyed before the writers, which it refers to
};

Writer::Writer(const std::string& path, Mode mode, const WriterOptions& options, io::FileSystem& files)
    : path_(path), owner_(threads::process_id()), impl_(std::make_unique<Impl>(path, mode, options, files)) {}

Writer::~Writer() {
  if (owner_ == threads::process_id()) return;
  // In a forked child there are no threads to stop, and locks may be held forever.
  static_cast<void>(impl_.release());
}

Writer::Impl& Writer::use() const {
  threads::check_writer_of(owner_, path_);
  return *impl_;
}

const Metadata& Writer::metadata() const { return use().metadata(); }

void Writer::create_dataset(std::string_view name) {
  in_call(path_, name, "", [&] { use().create_dataset(name); });
}

void Writer::define_array(std::string_view dataset, const ArrayDefinition& definition) {
  in_call(path_, dataset, definition.name, [&] { use().define_array(dataset, definition); });
}

void Writer::write(std::string_view dataset, std::string_view array, const Box& box, Bytes numbers) {
  in_call(path_, dataset, array, [&] { use().write(dataset, array, box, numbers); });
}

void Writer::write(std::string_view dataset, std::string_view array, const Box& box,
                   std::span<const std::string_view> strings) {
  in_call(path_, dataset, array, [&] { use().write(dataset, array, box, strings); });
}

void Writer::set_attribute(std::string_view dataset, std::string_view key, const AttributeValue& value) {
  in_call(path_, dataset, "", [&] { use().set_attribute(dataset, key, value); });
}

void Writer::delete_array(std::string_view dataset, std::string_view array) {
  in_call(path_, dataset, array, [&] { use().delete_array(dataset, array); });
}

void Writer::delete_dataset(std::string_view name) {
  in_call(path_, name, "", [&] { use().delete_dataset(name); });
}

void Writer::check_unstored(std::string_view dataset, std::string_view array, const Box& box) {
  in_call(path_, dataset, array, [&] { use().check_unstored(dataset, array, box); });
}

void Writer::read(std::string_view dataset, std::string_view array, const Box& box, std::span<std::byte> out) {
  in_call(path_, dataset, array, [&] { use().read(dataset, array, box, out); });
}

void Writer::read(std::string_view dataset, std::string_view array, const Box& box, std::span<std::string> out) {
  in_call(path_, dataset, array, [&] { use().read(dataset, array, box, out); });
}

array_file::ArrayDefinition Writer::definition(std::string_view dataset, std::string_view array) const {
  return in_call(path_, dataset, array, [&] { return use().definition(dataset, array); });
}

void Writer::flush() {
  in_call(path_, "", "", [&] { use().flush(); });
  use().keep();
}

bool Writer::rewrite_redefined() {
  return in_call(path_, "", "", [&] { return use().rewrite_redefined(); });
}

void Writer::compact() {
  in_call(path_, "", "", [&] { use().compact(); });
  use().keep();
}

void Writer::abandon() { use().abandon(); }

}  // namespace atompack::atlas_store
