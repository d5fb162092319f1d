#include "bindings/bindings.h"

#include "bindings/bytes.h"
#include "bindings/errors.h"
#include "formats/atlas_shards/reader.h"

namespace atompack::bindings {

ATOMPACK_TUPLE(atlas_shards::Place, shard, block, position);

namespace {

using ShardReader = atlas_shards::Reader;

std::shared_ptr<ShardReader> open_shards(const io::Location& root, std::optional<uint64_t> cache_blocks,
                                         atlas_shards::MissingShards missing, std::optional<uint64_t> n_shards) {
  return make_shared_handle<ShardReader>(
      root, atlas_shards::ReaderOptions{.cache_blocks = cache_blocks, .missing = missing, .n_shards = n_shards});
}

py::bytes read_block(const ShardReader& reader, uint64_t shard, uint64_t number) {
  return to_bytes(without_gil([&] { return reader.read_block(shard, number); }).bytes());
}

// (name, strategy, block size, examples, level, is lost) of each shard
py::list shards_of(const ShardReader& reader) {
  py::list all;
  for (const atlas_shards::Shard& shard : reader.shards()) {
    const atlas_shards::ShardMeta& meta = shard.meta;
    all.append(py::make_tuple(str_from_bytes(shard.name), meta.strategy, meta.block_size, meta.stored_examples,
                              meta.level, shard.is_lost));
  }
  return all;
}

}  // namespace

void bind_shard_reader(py::module_& module) {
  py::class_<ShardReader, std::shared_ptr<ShardReader>>(module, "ShardReader")
      .def(py::init(unlocked(&open_shards)), "root"_a, "cache_blocks"_a,
           "missing"_a = atlas_shards::MissingShards::renumber, "n_shards"_a = py::none())
      .def("__len__", &ShardReader::size)
      .def_property_readonly("fingerprint", &ShardReader::fingerprint)
      .def("fingerprint_of_first", &ShardReader::fingerprint_of_first, "n_shards"_a)
      .def("shards", &shards_of)
      .def("shard_sizes_warning", &ShardReader::shard_sizes_warning)
      .def("locate", &ShardReader::locate, "example"_a)
      .def("read_block", &read_block, "shard"_a, "number"_a);
}

}  // namespace atompack::bindings
