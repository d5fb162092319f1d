#include "formats/array_file/read/verification.h"

#include "base/error_context.h"
#include "formats/array_file/read/column.h"
#include "formats/array_file/read/read_box.h"

namespace atompack::array_file {
namespace {

void check_chunk(const Array& array, Bytes chunk, uint64_t n_elements) {
  const uint64_t item = item_bytes(array.type);
  if (item > 0) return check_chunk_bytes(n_elements * item, chunk.size());
  static_cast<void>(Strings(chunk, n_elements));
}

}  // namespace

void verify_array(const Reader& reader, std::string_view name, DecodedBlock& last) {
  const Array array = reader.array(name);
  try {
    static_cast<void>(column_type(array.type));
    if (array.n_elements() == 0) return;
    const bool is_complete = !array.chunks.empty() && array.chunks.size() == array.grid().n_cells();
    if (!is_complete) check_cells_are_known(reader.layers(), array.foreign_layer);
    for (const StoredChunk& chunk : array.chunks) {
      const Bytes bytes = reader.read_chunk(chunk, last);
      in_file(reader.layers().layer(chunk.layer).path(), [&] {
        const Grid grid = array.grid();
        check_chunk(array, bytes, grid.box_of(grid.cell_at(chunk.cell)).n_elements());
      });
    }
  } catch (DataError& error) {
    error.at_field(array.name);
    error.in_file(reader.layers().layer(0).path());
    throw;
  }
}

}  // namespace atompack::array_file
