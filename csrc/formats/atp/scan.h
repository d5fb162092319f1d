// Fields of a file without schema (release 0.2.x), found by reading every record once.
#pragma once

#include <vector>

#include "model/molecule_source.h"

namespace atompack::atp {

// Sorted by (scope, key). The type is that of the first record that has the field; the shape is set if all records
// agree on it. Unreadable records are skipped: reading them reports the error.
std::vector<FieldDeclaration> scan_fields(const MoleculeSource& source);

}  // namespace atompack::atp
