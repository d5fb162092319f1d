// Prints the number of atoms and the energy of each molecule of an .atp file, without Python and torch.
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <vector>

#include "formats/atp/reader.h"

namespace {

using namespace atompack;

// Receives one molecule: the geometry, then each of its fields.
class EnergyReader final : public MoleculeVisitor {
 public:
  void geometry(const Geometry& geometry) override { n_atoms = geometry.n_atoms; }

  void field(const FieldView& field, Bytes data) override {
    if (field.scope != Scope::builtin || field.key != "energy") return;
    if (field.fault != nullptr) throw CorruptFileError(*field.fault);
    std::memcpy(&energy, data.data(), sizeof energy);  // an energy is a float64
  }

  int64_t n_atoms = 0;
  double energy = std::numeric_limits<double>::quiet_NaN();
};

void print_energies(const char* path) {
  const atp::Reader reader(path, atp::take_snapshot(path), {});
  for (int64_t i = 0; i < reader.size(); ++i) {
    std::vector<std::byte> scratch(static_cast<size_t>(reader.extent(i).decoded_bytes));
    EnergyReader molecule;
    reader.visit(i, reader.decode(i, scratch), molecule);
    std::printf("%lld %.17g\n", static_cast<long long>(molecule.n_atoms), molecule.energy);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: read_atp FILE.atp\n");
    return 2;
  }
  try {
    print_energies(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
