// Definition of an array, as given to a writer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "formats/array_file/layer/footer.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/read/array.h"

namespace atompack::array_file {

using OwnedFill = std::variant<bool, int64_t, uint64_t, double, std::string, Timestamp>;

struct ArrayDefinition {
  std::string name = {};
  Type type = Type::float32;
  std::vector<uint64_t> shape = {};
  std::vector<std::string> dimension_names = {};  // dim0, dim1 and so on unless there is one for each axis
  std::vector<uint64_t> chunk_shape = {};         // empty: one chunk
  std::optional<OwnedFill> fill = {};
  // From definition_of(): those of its committed blocks, each once. Writers ignore them.
  std::vector<std::string> codecs = {};
};

std::optional<OwnedFill> to_owned(const std::optional<Fill>& fill);
// Its strings are views of those of `fill`.
std::optional<Fill> view(const std::optional<OwnedFill>& fill);
// Without codecs.
ArrayDefinition definition_of(const Array& array);
// With codecs; a missing block has none here, so that the rest can be read. `layers`: those of the array.
ArrayDefinition definition_of(const Array& array, const Layers& layers);
// Throws UnsupportedFormatError for arrays with attributes and lists, parts of which a newer layer would lose.
void check_can_be_rewritten(const Array& array);

// Returns the definition with defaults filled in. Throws FieldError for unsupported arrays.
ArrayDefinition with_defaults(ArrayDefinition definition);

// True if its values are strings or binary.
bool holds_strings(Type type);

// True if an array of this type stores items of a kind, as NumPy names it, and a size as they are.
bool holds_items(Type type, char kind, uint64_t bytes);

}  // namespace atompack::array_file
