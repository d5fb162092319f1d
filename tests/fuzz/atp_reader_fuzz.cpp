#include <string>
#include <vector>

#include "checking_visitor.h"
#include "file_in_memory.h"
#include "formats/atp/reader.h"

namespace atompack::fuzz {
namespace {

// Reading the rest would only repeat what the first ones show, and take long.
constexpr int64_t kMostMolecules = 64;
// Larger records are justified by what is stored, and slow.
constexpr int64_t kMostDecodedBytes = 1 << 20;

void read_molecule(const MoleculeSource& source, int64_t i, std::vector<std::byte>& scratch) {
  source.prefetch(i);
  try {
    const MoleculeExtent extent = source.extent(i);
    require(extent.n_atoms >= 0 && 13 * extent.n_atoms <= extent.decoded_bytes, "an extent has room for its atoms");
    if (extent.decoded_bytes > kMostDecodedBytes) return;
    scratch.resize(static_cast<size_t>(extent.decoded_bytes));
    const Bytes record = source.decode(i, scratch);
    require(std::ssize(record) == extent.decoded_bytes, "a record is as long as its extent says");
    CheckingVisitor visitor(source.schemas()[0], record);
    source.visit(i, record, visitor);
  } catch (const CorruptFileError& error) {
    require(std::string_view(error.what()).starts_with("/proc/self/fd/"), "an error names the file");
    require(std::string_view(error.what()).find("(molecule ") != std::string_view::npos, "an error names the molecule");
  }
}

void read_all(const std::string& path) {
  const atp::Snapshot snapshot = atp::take_snapshot(path);
  const atp::Reader reader(path, snapshot, {});
  std::vector<int64_t> counts(static_cast<size_t>(reader.size()));
  atp::read_atom_counts(path, snapshot, counts);
  std::vector<std::byte> scratch;
  for (int64_t i = 0; i < std::min(reader.size(), kMostMolecules); ++i) read_molecule(reader, i, scratch);
}

}  // namespace

void read_file(Bytes input) {
  static const FileInMemory file;
  const std::string& path = file.hold(input);
  try {
    read_all(path);
  } catch (const CorruptFileError& error) {
    require(std::string_view(error.what()).starts_with(path), "an error names the file");
  } catch (const UnsupportedFormatError& error) {
    require(std::string_view(error.what()).starts_with(path), "an error names the file");
  }
}

}  // namespace atompack::fuzz
