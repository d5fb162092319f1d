// Steps that make pending changes visible, of all variables together (FORMAT.md, "Flush").
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/array_file/write/writer.h"
#include "formats/atlas_store/flush/intent.h"
#include "io/file_system.h"

namespace atompack::atlas_store {

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

  // True if the record that tells readers what to ignore exists.
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
