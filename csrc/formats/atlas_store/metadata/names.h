// Names of datasets and arrays, and the folders of arrays (FORMAT.md, "Names").
#pragma once

#include <string>
#include <string_view>

namespace atompack::atlas_store {

// Throw FieldError for invalid names of new datasets and arrays.
void check_dataset_name(std::string_view name);
void check_array_name(std::string_view name);

// True if the original can read what it writes under this name; only then can it be written to.
bool is_safe_array_name(std::string_view name);

// Returns the folder of an array below the store, with the characters that the original escapes. Throws
// CorruptFileError for names that cannot be a folder.
std::string folder_of_array(std::string_view name);

// Returns the folder where the original puts newer layers of arrays with such characters, escaped twice; it does not
// find them again. Same as folder_of_array() for other names.
std::string lost_folder_of_array(std::string_view name);

}  // namespace atompack::atlas_store
