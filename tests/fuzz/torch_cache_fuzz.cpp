// The reader of feature caches: metadata, rows in the heap, and chunks.
#include <algorithm>

#include "formats/torch_cache/hdf5/contents.h"
#include "formats/torch_cache/hdf5/dataset.h"
#include "formats/torch_cache/reader.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

using torch_cache::GlobalHeap;
using torch_cache::VlenColumn;

constexpr DType kTypes[] = {DType::uint8, DType::int32, DType::int64, DType::float32, DType::float64};

// Each twice: the second time the row's place is known.
void read_rows(const VlenColumn& column, const GlobalHeap& heap, Bytes file) {
  for (int64_t row = 0; row < column.n_rows(); ++row) {
    allowing_damage([&] {
      const Bytes first = column.row(heap, row);
      const Bytes again = column.row(heap, row);
      require(first.size() == column.row_bytes(row), "a row is as long as its reference says");
      require(first.data() == again.data() && first.size() == again.size(), "a row stays where it was found");
      require(
          first.empty() || (first.data() >= file.data() && first.data() + first.size() <= file.data() + file.size()),
          "a row lies in the file");
      if (column.dtype() == DType::int32 || column.dtype() == DType::int64) check_indices(column, first, row);
    });
  }
}

}  // namespace

void read_vlen_rows(Bytes input) {
  if (input.size() < 3) return;
  const DType dtype = kTypes[static_cast<size_t>(input[0]) % std::size(kTypes)];
  const auto base = static_cast<uint64_t>(input[1]);
  const size_t n_rows = static_cast<size_t>(input[2]) % 64;
  const size_t bytes = std::min(n_rows, (input.size() - 3) / VlenColumn::kReferenceBytes) * VlenColumn::kReferenceBytes;
  const VlenColumn column("rows", dtype, input.subspan(3, bytes));
  const Bytes file = input.subspan(3 + bytes);
  read_rows(column, GlobalHeap(io::MemoryBytes(file), base), file);
  allowing_damage([&] {
    std::vector<int64_t> numbers(n_rows);
    for (size_t i = 0; i < n_rows; ++i) numbers[i] = static_cast<int64_t>(i);
    std::vector<int64_t> entries;
    for (const std::byte byte : input.last(std::min(input.size(), n_rows)))
      entries.push_back(static_cast<int8_t>(byte));
    numbers.resize(entries.size());
    const std::vector<int64_t> rows = torch_cache::rows_by_entry("fuzz", numbers, entries, 100);
    for (const int64_t row : rows) require(row < std::ssize(entries), "a row that exists");
  });
}

void unpack_stored_chunk(Bytes input) {
  if (input.size() < 8) return;
  const auto number = [&](size_t i) { return static_cast<uint64_t>(input[i]); };
  torch_cache::ChunkLayout layout{number(0) * 256 + number(1), static_cast<size_t>(number(2) + 1), {}, {}};
  if ((number(3) & 1) != 0) layout.shuffle = 0;
  if ((number(3) & 2) != 0) layout.deflate = 1;
  const uint64_t n_rows = std::min(number(4), layout.n_rows);
  const size_t at = static_cast<size_t>(number(6)) % layout.element_bytes;
  const torch_cache::ByteRange ranges[] = {{at, layout.element_bytes - at}, {0, 1}};
  std::vector<std::byte> out(n_rows * torch_cache::total_length(ranges));
  std::vector<std::byte> kept;
  const torch_cache::StoredChunk chunk{input.subspan(8), static_cast<uint32_t>(number(7))};
  allowing_damage([&] { unpack_chunk(layout, chunk, n_rows, ranges, out, kept); });
}

void read_cache_metadata(Bytes input) {
  allowing_damage([&] {
    const torch_cache::Contents found = torch_cache::read_contents(input);
    const auto n_entries = static_cast<int64_t>(found.n_atoms.size());
    require(found.structures.n_rows() == n_entries, "a structure for each entry");
  });
}

}  // namespace atompack::fuzz
