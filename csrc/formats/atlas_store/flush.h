// Steps that make pending changes visible, of all variables together, and recovery from them (FORMAT.md, "Flush").
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "formats/array_file/write/writer.h"
#include "formats/atlas_store/metadata/metadata_file.h"
#include "io/file_system.h"

namespace atompack::atlas_store {

// Intent record that a flush leaves in the store while it publishes its files (FORMAT.md, "Flush"): it makes several
// renames one atomic step.

// Identity of a file's content.
struct Fingerprint {
  uint64_t bytes = 0;
  std::string sha256;

  bool operator==(const Fingerprint&) const = default;
};

Fingerprint fingerprint_of(Bytes file);

// A sidecar that the flush adds to a variable.
struct AddedLayer {
  std::string variable;
  uint32_t number = 0;
  std::string digest;  // array_file::layer_digest()
};

struct Intent {
  bool complete = false;              // everything is visible; only statistics may be older than the values
  std::optional<Fingerprint> before;  // of the metadata file; nullopt: there was none
  Fingerprint after;
  std::vector<AddedLayer> layers;

  // Only in remote stores, where records are replaced and never removed.
  std::string id = {};                      // different in every record
  std::string stamp = {};                   // of the metadata file that undoes an interrupted flush
  std::optional<Fingerprint> renewed = {};  // of that file, which counts like the one before
};

inline constexpr std::string_view kIntentName = ".atompack-intent";

inline std::string intent_path(const std::string& store) { return cat(store, '/', kIntentName); }

std::string encode_intent(const Intent& intent);
// Throws CorruptFileError.
Intent decode_intent(Bytes file);

// Fate of the layers that the record names.
enum class Outcome : uint8_t {
  kept,         // the flush is complete
  rolled_back,  // the flush is incomplete, so they are ignored
  unknown,      // another program has written since and may have built on them: they count
};

Outcome outcome_of(const Intent& intent, const std::optional<MetadataFile>& metadata);

// Returns nullopt without a record (null `file`), and with a damaged one, which adds to `warnings`.
std::optional<Intent> read_intent(const io::OpenFile* file, std::vector<std::string>& warnings);

// Recovery from an interrupted flush.

// Path of the base of a variable's array file. Throws CorruptFileError for names that cannot be a folder.
std::string base_path(const std::string& store, std::string_view variable);

// Paths of the sidecars that are ignored because their flush is incomplete, including unpublished ones. Throws IoError.
std::vector<std::string> layers_rolled_back(const io::Location& store, const Intent& intent,
                                            const std::optional<MetadataFile>& metadata);

// Removes them for good, with all unpublished files and the record of the flush; after a complete flush, renews
// statistics. The caller must hold the lock of the store. Returns warnings.
std::vector<std::string> recover(const std::string& store, uint64_t max_metadata_bytes, io::FileSystem& files);

// A variable with pending changes.
struct ChangedVariable {
  std::string variable;
  array_file::Writer* writer = nullptr;
};

// One flush. If a step throws, run() can be called again to continue; abandoned before it is promised(), it leaves the
// store unchanged, and after that the next writer recovers the store.
class Flush {
 public:
  // `before`: of the existing metadata file, if any. Up to `n_threads` variables are processed in parallel.
  Flush(std::string store, io::FileSystem& files, Form form, std::optional<Fingerprint> before, unsigned n_threads);

  // `document`: the new metadata file. The variables' writers must outlive the flush.
  void prepare(const std::vector<ChangedVariable>& variables, Bytes document);
  void run();

  // True if the record that lists what readers ignore exists.
  bool is_intent_written() const { return intent_written_; }
  const Fingerprint& after() const { return intent_.after; }

 private:
  struct Staged {
    array_file::Writer* writer = nullptr;
    bool published = false;
  };

  void write_intent();
  void publish();
  void clean_up();

  std::string store_;
  io::FileSystem& files_;
  Form form_;
  unsigned n_threads_;
  Intent intent_;
  std::vector<Staged> staged_;
  std::unique_ptr<io::NewFile> metadata_;
  bool intent_written_ = false;
};

}  // namespace atompack::atlas_store
