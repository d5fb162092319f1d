#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "choices.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/write/writer.h"
#include "io/temporary_folder.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

using array_file::ArrayDefinition;
using array_file::Box;
using array_file::Type;
using array_file::Writer;

// Values are small integers; those of arrays of strings stand for texts of that length.
struct Expected {
  ArrayDefinition array;
  std::vector<int16_t> values;
};
using Model = std::map<std::string, Expected>;

std::vector<std::string> as_texts(const std::vector<int16_t>& values) {
  std::vector<std::string> strings;
  for (const int16_t value : values) strings.emplace_back(static_cast<size_t>(value), 'x');
  return strings;
}

bool is_text(const ArrayDefinition& array) { return array.type == Type::string; }

Box random_box(const std::vector<uint64_t>& shape, Choices& choices) {
  Box box{shape, shape};
  for (size_t i = 0; i < shape.size(); ++i) {
    box.start[i] = choices.below(static_cast<uint8_t>(shape[i] + 1));
    box.count[i] = choices.below(static_cast<uint8_t>(shape[i] - box.start[i] + 1));
  }
  return box;
}

class Play {
 public:
  explicit Play(Bytes input) : choices_(input) { open(); }

  void run() {
    for (int i = 0; choices_.left() && i < 60; ++i) step();
    writer_->flush();
    committed_ = pending_;
    check_file();
  }

 private:
  std::string base() const { return folder_ / "data.af"; }

  void open() {
    writer_.reset();
    constexpr std::array kCodecs{codec::Codec::none, codec::Codec::lz4, codec::Codec::zstd};
    writer_ = std::make_unique<Writer>(
        base(), array_file::WriterOptions{.codec = kCodecs.at(choices_.below(3)), .block_bytes = 40, .n_threads = 2});
  }

  void step() {
    const std::string name(1, static_cast<char>('a' + choices_.below(3)));
    switch (choices_.below(9)) {
      case 0:
        return define(name);
      case 1:
        return remove(name);
      case 2:
        writer_->flush();
        committed_ = pending_;
        return check_file();
      case 3:
        writer_->compact();
        committed_ = pending_;
        return check_file();
      case 4:
        writer_->discard();
        pending_ = committed_;
        return;
      case 5:
        pending_ = committed_;
        return open();
      case 6:
        require(writer_->stage() == writer_->has_changes(), "what is pending can be staged");
        return;
      default:
        return write(name);
    }
  }

  void define(const std::string& name) {
    if (pending_.contains(name)) return;
    ArrayDefinition array{.name = name, .type = choices_.below(3) == 0 ? Type::string : Type::int16};
    const uint8_t rank = choices_.below(4);
    for (uint8_t i = 0; i < rank; ++i) {
      array.shape.push_back(choices_.below(6));
      array.chunk_shape.push_back(1 + choices_.below(4));
    }
    if (!is_text(array)) array.fill = int64_t{-3};
    writer_->define(array);
    uint64_t n = 1;
    for (const uint64_t extent : array.shape) n *= extent;
    const auto fill = static_cast<int16_t>(is_text(array) ? 0 : -3);
    pending_[name] = {array, std::vector<int16_t>(n, fill)};
  }

  void remove(const std::string& name) {
    if (!pending_.contains(name)) return;
    writer_->remove(name);
    pending_.erase(name);
  }

  void write(const std::string& name) {
    if (!pending_.contains(name)) return;
    auto& [array, values] = pending_.at(name);
    const Box box = random_box(array.shape, choices_), whole{std::vector<uint64_t>(array.shape.size(), 0), array.shape};
    std::vector<int16_t> fresh(box.n_elements());
    for (int16_t& value : fresh) value = choices_.below(20);
    if (is_text(array)) {
      const std::vector<std::string> strings = as_texts(fresh);
      writer_->write(name, box, std::vector<std::string_view>(strings.begin(), strings.end()));
    } else {
      writer_->write(name, box, std::as_bytes(std::span(fresh)));
    }
    array_file::for_each_common_run(box, whole, [&](uint64_t from, uint64_t to, uint64_t n) {
      std::copy_n(fresh.begin() + static_cast<long>(from), n, values.begin() + static_cast<long>(to));
    });
    compare(pending_.at(name), [&](auto out) { writer_->read(name, whole, out); });
  }

  void check_file() const {
    const array_file::Reader reader(base());
    require(reader.names().size() == committed_.size(), "no other arrays are in the file");
    array_file::DecodedBlock last;
    for (const auto& [name, expected] : committed_) {
      const array_file::Array array = reader.array(name);
      compare(expected, [&](auto out) { reader.read(array, array.whole(), out, last); });
    }
  }

  template <typename Read>
  static void compare(const Expected& expected, const Read& read) {
    if (is_text(expected.array)) {
      std::vector<std::string> strings(expected.values.size());
      read(std::span(strings));
      require(strings == as_texts(expected.values), "texts come back");
    } else {
      std::vector<int16_t> values(expected.values.size());
      read(std::as_writable_bytes(std::span(values)));
      require(values == expected.values, "numbers come back");
    }
  }

  const test::TemporaryFolder folder_{test::folder_in_memory()};
  Choices choices_;
  std::unique_ptr<Writer> writer_;
  Model committed_, pending_;
};

}  // namespace

void write_array_file(Bytes input) { Play(input).run(); }

}  // namespace atompack::fuzz
