// The fields of a file that stores no schema (release 0.2.x), found by looking at every record once.
#pragma once

#include <vector>

#include "model/molecule_source.h"

namespace atompack::atp {

// Sorted by (scope, key). The type is that of the first record that has the field; the shape is given where all
// records agree on it. Records that cannot be read are passed over: reading them is what reports them.
std::vector<FieldDeclaration> scan_fields(const MoleculeSource& source);

}  // namespace atompack::atp
