// The steps that make what is pending visible, of all variables together (FORMAT.md, "Flush").
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "array_format/writer.h"
#include "atlas_store/intent.h"
#include "io/file_system.h"

namespace atompack::atlas_store {

// A variable that was touched.
struct Touched {
  std::string variable;
  array_format::Writer* writer = nullptr;
};

// One flush. Where a step throws, run() can be called again and goes on; given up before it is promised(), it leaves
// the store as it was, and after that until the store is opened for writing again.
class Flush {
 public:
  // `before`: of the metadata file that is there, if one is.
  Flush(std::string store, io::FileSystem& files, Form form, std::optional<Fingerprint> before);

  // `document`: the new metadata file. The variables' writers must live as long as this.
  void prepare(const std::vector<Touched>& variables, Bytes document);
  void run();

  // Whether the record is there that tells readers what to pass over.
  bool is_promised() const { return promised_; }
  const Fingerprint& after() const { return intent_.after; }

 private:
  void stage(const Touched& variable);
  void promise();
  void publish();
  void tidy();

  std::string store_;
  io::FileSystem& files_;
  Form form_;
  Intent intent_;
  std::vector<array_format::Writer*> staged_;
  std::unique_ptr<io::NewFile> metadata_;
  size_t n_published_ = 0;
  bool promised_ = false;
};

}  // namespace atompack::atlas_store
