#include "bindings/bindings.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>

#include "bindings/choices.h"
#include "bindings/example_writer.h"
#include "bindings/path.h"
#include "bindings/unlocked.h"
#include "formats/atlas_shards/reader.h"
#include "formats/atlas_shards/writer.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using atlas_shards::Writer;

// Writer that refuses calls from other threads, which may arrive while it compresses blocks without the GIL.
class ShardWriter {
 public:
  ShardWriter(const Path& root, const atlas_shards::WriterOptions& options, bool tensors_as_arrays)
      : writer_(std::make_unique<Writer>(root.bytes, options)), tensors_as_arrays_(tensors_as_arrays) {}

  void write(py::handle example) {
    const BusyGuard guard(*this);
    Writer& writer = open();
    pickle::Writer& pickle = writer.begin_example();
    try {
      ExampleWriter(pickle, tensors_as_arrays_).write(example);
    } catch (...) {
      writer.drop_example();
      throw;
    }
    without_gil([&] { writer.end_example(); });
  }

  void write_pickled(const py::bytes& pickle) {
    const BusyGuard guard(*this);
    Writer& writer = open();
    const auto bytes = as_bytes(static_cast<std::string_view>(pickle));
    without_gil([&] {
      writer.begin_example().pickled(bytes);
      writer.end_example();
    });
  }

  void copy(const atlas_shards::Reader& reader, const std::vector<uint64_t>& examples) {
    const BusyGuard guard(*this);
    Writer& writer = open();
    without_gil([&] { writer.copy(reader, examples); });
  }

  void close() {
    const BusyGuard guard(*this);
    without_gil([closing = UniqueHandle<Writer>(writer_.release())] {
      if (closing) closing->close();
    });
  }

  void discard() {
    const BusyGuard guard(*this);
    without_gil([&] { writer_.reset(); });
  }

  bool is_open() const { return writer_ != nullptr; }
  uint64_t size() { return open().size(); }

 private:
  // Marks the writer as busy. Constructed and destroyed with the GIL held.
  class BusyGuard {
   public:
    explicit BusyGuard(ShardWriter& writer) : writer_(writer) {
      if (writer_.is_busy_) throw std::runtime_error("a writer of shards is for one thread at a time");
      writer_.is_busy_ = true;
    }
    BusyGuard(const BusyGuard&) = delete;
    BusyGuard& operator=(const BusyGuard&) = delete;
    ~BusyGuard() { writer_.is_busy_ = false; }

   private:
    ShardWriter& writer_;
  };

  Writer& open() {
    if (!writer_) throw py::value_error("the writer is closed");
    return *writer_;
  }

  std::unique_ptr<Writer> writer_;
  bool tensors_as_arrays_;
  bool is_busy_ = false;
};

std::optional<atlas_shards::Strategy> strategy_numbered(std::optional<int> optional) {
  if (!optional) return std::nullopt;
  const int number = *optional;
  if (number < 0 || number > static_cast<int>(atlas_shards::Strategy::own_dictionary)) {
    throw py::value_error(cat("strategy: expected 0, 1, 2 or 3, got ", number));
  }
  return static_cast<atlas_shards::Strategy>(number);
}

UniqueHandle<ShardWriter> make_writer(const Path& root, uint64_t shard_size, uint64_t block_size,
                                      std::optional<int> strategy, int level, double dictionary, unsigned n_threads,
                                      bool tensors_as_arrays, atp::OpenMode mode) {
  const bool creates = mode == atp::OpenMode::create;
  const atlas_shards::WriterOptions options{.shard_size = shard_size,
                                            .block_size = block_size,
                                            .strategy = strategy_numbered(strategy),
                                            .level = level,
                                            .dictionary_fraction = dictionary,
                                            .n_threads = n_threads,
                                            .existing = creates ? io::Existing::refuse : io::Existing::replace,
                                            .appends = mode == atp::OpenMode::append};
  return make_unique_handle<ShardWriter>(root, options, tensors_as_arrays);
}

}  // namespace

void bind_shard_writer(py::module_& module) {
  py::class_<ShardWriter, UniqueHandle<ShardWriter>>(module, "ShardFileWriter")
      .def(py::init(unlocked(&make_writer)), py::arg("root"), py::kw_only(), py::arg("shard_size"),
           py::arg("block_size"), py::arg("strategy"), py::arg("level"), py::arg("dictionary"), py::arg("n_threads"),
           py::arg("tensors_as_arrays"), py::arg("mode"))
      .def("write", &ShardWriter::write, py::arg("example"))
      .def("write_pickled", &ShardWriter::write_pickled, py::arg("pickle"))
      .def("copy", &ShardWriter::copy, py::arg("reader"), py::arg("examples"))
      .def("close", &ShardWriter::close)
      .def("discard", &ShardWriter::discard)
      .def_property_readonly("is_open", &ShardWriter::is_open)
      .def("__len__", &ShardWriter::size);
}

}  // namespace atompack::bindings
