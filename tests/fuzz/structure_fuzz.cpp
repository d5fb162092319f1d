#include <vector>

#include "formats/torch_cache/structure.h"
#include "targets.h"

namespace atompack::fuzz {

void read_structure(Bytes input) {
  static torch_cache::StructureDecoder decoder;
  allowing_damage([&] {
    const torch_cache::Structure structure = decoder.decode(input);
    const size_t n = structure.n_atoms();
    require(structure.positions.size() == 3 * n, "positions are (N, 3)");
    require(!structure.forces || structure.forces->size() == 3 * n, "forces are (N, 3)");
    const std::vector<std::byte> written = torch_cache::encode_structure(structure);
    require(torch_cache::encode_structure(decoder.decode(written)) == written, "what is written is read back");
  });
}

}  // namespace atompack::fuzz
