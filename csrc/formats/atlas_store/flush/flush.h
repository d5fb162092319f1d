// The steps that make what is pending visible, of all variables together (FORMAT.md, "Flush").
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/array_file/write/writer.h"
#include "formats/atlas_store/flush/intent.h"
#include "io/file_system.h"

namespace atompack::atlas_store {

// A variable of which something is pending.
struct Touched {
  std::string variable;
  array_file::Writer* writer = nullptr;
};

// One flush. Where a step throws, run() can be called again and goes on; given up before it is promised(), it leaves
// the store as it was, and after that until the store is opened for writing again.
class Flush {
 public:
  // `before`: of the metadata file that is there, if one is.
  // Variables are worked on side by side, by up to `n_threads`.
  Flush(std::string store, io::FileSystem& files, Form form, std::optional<Fingerprint> before, unsigned n_threads);

  // `document`: the new metadata file. The variables' writers must live as long as this.
  void prepare(const std::vector<Touched>& variables, Bytes document);
  void run();

  // Whether the record is there that tells readers what to pass over.
  bool is_promised() const { return promised_; }
  const Fingerprint& after() const { return intent_.after; }

 private:
  struct Staged {
    array_file::Writer* writer = nullptr;
    bool published = false;
  };

  void promise();
  void publish();
  void tidy();

  std::string store_;
  io::FileSystem& files_;
  Form form_;
  unsigned n_threads_;
  Intent intent_;
  std::vector<Staged> staged_;
  std::unique_ptr<io::NewFile> metadata_;
  bool promised_ = false;
};

}  // namespace atompack::atlas_store
