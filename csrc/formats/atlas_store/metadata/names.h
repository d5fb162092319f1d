// Names of datasets and arrays, and the folders of arrays (FORMAT.md, "Names").
#pragma once

#include <string>
#include <string_view>

namespace atompack::atlas_store {

// Throw FieldError for names that a new dataset or array must not have.
void check_dataset_name(std::string_view name);
void check_array_name(std::string_view name);

// Whether the original finds again what it writes under this name, so that it can be written to.
bool is_safe_array_name(std::string_view name);

// The folder of an array below the store, with what stands for characters that the original escapes. Throws
// CorruptFileError for names that are no name of a folder.
std::string folder_of_array(std::string_view name);

// Where the original puts newer layers of arrays whose name has such characters: escaped twice. It does not find them
// again. The same as folder_of_array() for other names.
std::string lost_folder_of_array(std::string_view name);

}  // namespace atompack::atlas_store
