// Frames of an extended XYZ file as molecules, parsed when they are read.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "formats/parsed/source.h"

namespace atompack::extxyz {

// Properties of a frame that conversions report. none: a value None; six_numbers: a stress of six numbers.
enum class Remark : uint8_t { plain_comment, unnamed_words, text_of_atoms, none, six_numbers };

constexpr Names<5> names_of(Remark) {
  return {"remark", {"plain comment", "unnamed words", "text of atoms", "none", "six numbers"}};
}

// Molecules of each remark about a key, or about a frame as a whole. Thread-safe.
class Remarks {
 public:
  using Found = std::map<std::pair<Remark, std::string>, std::vector<int64_t>>;

  void add(Remark remark, const std::string& key, int64_t index) {
    const std::scoped_lock lock(mutex_);
    found_[{remark, key}].push_back(index);
  }
  Found take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(found_, {});
  }

 private:
  std::mutex mutex_;
  Found found_;
};

struct FrameOptions {
  io::Access access = io::Access::automatic;
  bool populate = false;
  std::shared_ptr<Remarks> remarks;  // of all frames that are read; nullptr: of no interest
};

// `pbc` is always present.
class FrameSource final : public parsed::IndexedSource {
 public:
  // Errors name the file `name`: the file may be an unpacked copy. Throws IoError (ESTALE) if the file has not the size
  // and the time of `version`.
  FrameSource(const io::Location& location, const std::string& name, const io::FileVersion& version,
              std::shared_ptr<const parsed::Index> index, std::shared_ptr<const parsed::FieldMap> fields,
              const FrameOptions& options);

 private:
  const io::ByteSource& bytes() const override { return *file_; }
  Bytes parse(int64_t index, std::span<std::byte> scratch) const override;

  std::shared_ptr<Remarks> remarks_;
  std::unique_ptr<const io::ByteSource> file_;
};

}  // namespace atompack::extxyz
