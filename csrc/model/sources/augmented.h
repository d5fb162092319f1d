// Molecules that are rotated, strained and displaced at random whenever they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/names.h"
#include "model/molecule_source.h"
#include "model/sources/forwarding.h"

namespace atompack {

enum class Rotation : uint8_t { none, proper, all };  // all: improper ones, such as reflections, too

constexpr Names<3> names_of(Rotation) { return {"rotate", {"none", "proper", "all"}}; }

struct Augmentation {
  using Name = std::pair<Scope, std::string>;

  Rotation rotation = Rotation::none;
  double noise = 0;   // standard deviation of each coordinate
  double strain = 0;  // largest component
  bool keeps_noise = false;
  std::vector<Name> vectors, tensors;  // properties that turn with the molecule, in addition to the builtin fields
  uint64_t seed = 0, epoch = 0;
};

// Draws depend on the seed, the epoch and the number of the molecule alone: r becomes R (1 + e) r + n with a
// rotation R, a symmetric strain e and noise n, and vectors v and tensors T become R v and R T R^T. Values keep their
// types. With keeps_noise there is an additional property of atoms, "noise", that holds n.
class AugmentedSource final : public ForwardingSource {
 public:
  AugmentedSource(std::shared_ptr<const MoleculeSource> all, Augmentation options);

  std::span<const MoleculeSchema> schemas() const override { return schemas_; }
  // Throws FieldError for values that cannot turn: not of type float32 or float64, or not made of three components.
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;

 private:
  Augmentation options_;
  std::vector<MoleculeSchema> schemas_;  // with keeps_noise, each with the additional field at its end
};

}  // namespace atompack
