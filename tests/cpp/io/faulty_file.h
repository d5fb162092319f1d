// A file in memory that notes every operation and fails one of them on request.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/file_system.h"

namespace atompack::test {

using Image = std::vector<std::byte>;

struct Operation {
  enum class Kind : uint8_t { write, truncate, sync };
  Kind kind;
  uint64_t offset;  // of a write; of a truncate the new size
  Image bytes;
};

// What a file holds once an operation, or the first `n_bytes` of a write, has reached it.
inline void carry_out(const Operation& operation, size_t n_bytes, Image& image) {
  if (operation.kind == Operation::Kind::truncate) image.resize(operation.offset);
  if (operation.kind != Operation::Kind::write || n_bytes == 0) return;
  if (image.size() < operation.offset + n_bytes) image.resize(operation.offset + n_bytes);
  std::copy_n(operation.bytes.begin(), n_bytes, image.begin() + static_cast<std::ptrdiff_t>(operation.offset));
}
inline void carry_out(const Operation& operation, Image& image) { carry_out(operation, operation.bytes.size(), image); }

class FaultyFile final : public io::WritableFile {
 public:
  struct Fault {
    size_t operation;  // counted from 0
    size_t n_bytes;    // of a write that get through
    int code;          // errno
  };

  explicit FaultyFile(Image image = {}) : image_(std::move(image)) {}

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return image_.size(); }
  size_t read_at(uint64_t offset, std::span<std::byte> into) const override {
    const size_t n = std::min<size_t>(into.size(), image_.size() - std::min<size_t>(offset, image_.size()));
    std::copy_n(image_.begin() + static_cast<std::ptrdiff_t>(offset), n, into.begin());
    return n;
  }
  void write_at(uint64_t offset, Bytes bytes) override {
    run({Operation::Kind::write, offset, Image(bytes.begin(), bytes.end())});
  }
  void truncate(uint64_t size) override { run({Operation::Kind::truncate, size, {}}); }
  void sync_data() override { run({Operation::Kind::sync, 0, {}}); }
  void sync() override { run({Operation::Kind::sync, 0, {}}); }

  const Image& image() const { return image_; }
  const std::vector<Operation>& operations() const { return operations_; }

  // Set while no writer is at work; a fault strikes every time from its operation on, until it is cleared.
  std::optional<Fault> fault;

 private:
  void run(Operation operation) {
    const size_t number = operations_.size();
    if (fault && number >= fault->operation) {
      carry_out(operation, std::min(fault->n_bytes, operation.bytes.size()), image_);
      throw IoError(fault->code, std::strerror(fault->code), path_);
    }
    carry_out(operation, image_);
    operations_.push_back(std::move(operation));
  }

  std::string path_ = "faulty";
  Image image_;
  std::vector<Operation> operations_;
};

}  // namespace atompack::test
