#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "choices.h"
#include "formats/atlas_shards/reader.h"
#include "formats/atlas_shards/writer.h"
#include "io/temporary_folder.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

constexpr int kMaxDepth = 3;
constexpr uint64_t kMostExamples = 100;

// Examples are described in words as they are written, and again as they are read.
class Teller {
 public:
  Teller(Choices& choices, pickle::Writer& out) : choices_(choices), out_(out) {}

  // A value of any kind.
  std::string value(int depth = 0) {
    switch (choices_.below(depth < kMaxDepth ? 9 : 6)) {
      case 0:
        return out_.none(), "none ";
      case 1:
        return boolean(choices_.below(2) == 1);
      case 2:
        return integer(int64_t{choices_.byte()} - (int64_t{choices_.byte()} << choices_.below(56)));
      case 3:
        return real(choices_.byte());
      case 4:
        return text(std::string(choices_.byte(), static_cast<char>('a' + choices_.below(26))));
      case 5:
        return array({choices_.below(4), choices_.below(4)});
      case 6:
        return list(depth);
      case 7:
        return tuple(depth);
      default:
        return dict(depth);
    }
  }

 private:
  std::string boolean(bool value) { return out_.boolean(value), cat("boolean ", value, ' '); }
  std::string integer(int64_t value) { return out_.integer(value), cat("integer ", value, ' '); }
  std::string real(int quarters) { return out_.real(quarters / 4.0), cat("quarters ", quarters, ' '); }
  std::string text(const std::string& value) { return out_.text(value), cat("text ", value, ' '); }

  std::string array(const std::array<int64_t, 2>& shape) {
    const std::array<int64_t, 2> strides = {shape[1], 1};
    std::vector<std::byte> data;
    std::string words = cat("array ", shape[0], ' ', shape[1], ' ');
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
      data.push_back(std::byte{choices_.byte()});
      words += cat(static_cast<int>(data.back()), ' ');
    }
    const ElementType type{.kind = ElementKind::unsigned_integer, .item_bytes = 1};
    out_.array({.type = type, .shape = shape, .strides = strides, .data = data});
    return words;
  }

  std::string items(int depth, uint8_t below) {
    std::string words;
    for (int n = choices_.below(below); n > 0; --n) words += value(depth + 1);
    return words + "end ";
  }

  std::string list(int depth) {
    out_.begin_list();
    const std::string words = items(depth, 4);
    out_.end_list();
    return "list " + words;
  }

  std::string tuple(int depth) {
    out_.begin_tuple();
    const std::string words = items(depth, 5);
    out_.end_tuple();
    return "tuple " + words;
  }

  std::string dict(int depth) {
    std::string words = "dict ";
    out_.begin_dict();
    for (int n = choices_.below(4); n > 0; --n) {
      out_.key(cat("key ", n));
      words += cat("key ", n, ' ') + value(depth + 1);
    }
    out_.end_dict();
    return words + "end ";
  }

  Choices& choices_;
  pickle::Writer& out_;
};

std::string words_of(const Value& value);

std::string words_of_array(const Array& array) {
  require(array.shape.size() == 2 && array.type.item_bytes == 1, "an array keeps its form");
  std::vector<std::byte> data(array.bytes());
  copy_out(array, data);
  std::string words = cat("array ", array.shape[0], ' ', array.shape[1], ' ');
  for (const std::byte item : data) words += cat(static_cast<int>(item), ' ');
  return words;
}

std::string words_of_items(const Value& value) {
  std::string words = value.kind() == Kind::list ? "list " : "tuple ";
  for (size_t i = 0; i < value.size(); ++i) words += words_of(value.item(i));
  return words + "end ";
}

std::string words_of_entries(const Value& value) {
  std::string words = "dict ";
  for (size_t i = 0; i < value.size(); ++i) words += cat(value.key(i).text(), ' ') + words_of(value.value(i));
  return words + "end ";
}

std::string words_of(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
      return "none ";
    case Kind::boolean:
      return cat("boolean ", value.boolean(), ' ');
    case Kind::integer:
      return cat("integer ", value.integer(), ' ');
    case Kind::real:
      return cat("quarters ", value.real() * 4, ' ');
    case Kind::text:
      return cat("text ", value.text(), ' ');
    case Kind::array:
      return words_of_array(value.array());
    case Kind::dict:
      return words_of_entries(value);
    default:
      return words_of_items(value);
  }
}

class Play {
 public:
  explicit Play(Bytes input) : choices_(input) {}

  void run() {
    options_ = {.shard_size = choices_.below(20),
                .block_size = 1 + uint64_t{choices_.below(5)},
                .strategy = static_cast<atlas_shards::Strategy>(choices_.below(4)),
                .level = choices_.below(5),
                .n_threads = 1 + unsigned{choices_.below(2)}};
    const bool closes = choices_.below(5) != 0;
    {
      atlas_shards::Writer writer(root(), options_);
      while (choices_.left() && expected_.size() < kMostExamples) step(writer);
      if (closes) writer.close();
    }
    if (closes) return check();
    require(std::filesystem::is_empty(folder_.path()), "a writer that was not closed leaves nothing");
  }

 private:
  std::string root() const { return folder_ / "set"; }

  void step(atlas_shards::Writer& writer) {
    const bool drops = choices_.below(6) == 0;
    Teller teller(choices_, writer.begin_example());
    const std::string words = teller.value();
    if (drops) return writer.drop_example();
    writer.end_example();
    expected_.push_back(words);
  }

  uint64_t n_shards() const {
    const uint64_t n = expected_.size(), size = options_.shard_size;
    if (n == 0) return 1;
    return size == 0 ? n + 1 : (n + size - 1) / size;
  }

  void check() const {
    const atlas_shards::Reader reader(root(), {.cache_blocks = 2});
    require(reader.size() == expected_.size(), "all examples are there");
    require(reader.shards().size() == n_shards(), "shards are as large as was asked for");
    require(!reader.shard_sizes_warning(), "the sizes of the shards are reported");
    for (uint64_t i = 0; i < reader.size(); ++i) {
      const atlas_shards::Place place = reader.locate(i);
      const auto block = reader.block(place.shard, place.block);
      require(words_of(block->example(place.position)) == expected_[i], "an example is what was written");
    }
  }

  const test::TemporaryFolder folder_{test::folder_in_memory()};
  Choices choices_;
  atlas_shards::WriterOptions options_;
  std::vector<std::string> expected_;
};

}  // namespace

void write_shards(Bytes input) { Play(input).run(); }

}  // namespace atompack::fuzz
