// Rules for attributes that are about to be stored.
#pragma once

#include <string_view>

#include "formats/atlas_store/metadata/attribute.h"
#include "formats/atlas_store/metadata/metadata_file.h"

namespace atompack::atlas_store {

// Throws FieldError for a key or value that would not be read back unchanged from a metadata file of this form: strings
// that are not UTF-8 or look like a timestamp, and in JSON numbers that are not finite.
void check_attribute(std::string_view key, const AttributeValue& value, Form form);

}  // namespace atompack::atlas_store
