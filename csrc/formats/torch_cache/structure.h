// Entry of /entries/structures: a pickled aenet.torch_training.config.Structure, read without running the pickle.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "serial/pickle/machine.h"

namespace atompack::torch_cache {

// Values as in the file: no unit conversion, absent values stay absent.
struct Structure {
  std::vector<double> positions = {};              // (N, 3)
  std::vector<std::string> species = {};           // N labels
  std::optional<double> energy = {};               // NaN if stored as NaN
  std::optional<std::vector<double>> forces = {};  // (N, 3)
  std::optional<std::array<double, 9>> cell = {};  // (3, 3), lattice vectors as rows
  std::optional<std::array<bool, 3>> pbc = {};     // absent with a cell: periodic in all directions
  std::optional<std::string> name = {};

  size_t n_atoms() const { return species.size(); }
  bool operator==(const Structure&) const = default;
};

// Keeps its memory from structure to structure. For one thread at a time.
class StructureDecoder {
 public:
  StructureDecoder();

  // Throws CorruptFileError with the field's name if an attribute is missing or has a different shape or type,
  // UnsafePickleError for a pickle of anything else, UnsupportedFormatError for numbers wider than float64 and int64.
  Structure decode(Bytes pickle);

 private:
  pickle::Machine machine_;
};

Structure decode_structure(Bytes pickle);

// True for pickles of encode_structure(), false for those of other programs.
bool is_own_pickle(Bytes pickle);

// True for a pickle of encode_structure() with these positions (N, 3), species, and this cell, if both have one; many
// times faster than decoding it.
bool holds_exactly(Bytes pickle, std::span<const double> positions, std::span<const std::string_view> species,
                   const std::optional<std::array<double, 9>>& cell);

// Returns a pickle that the original program reads. InternalError if the sizes do not match.
std::vector<std::byte> encode_structure(const Structure& structure);

}  // namespace atompack::torch_cache
