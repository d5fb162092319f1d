// The digest that distinguishes layers.
#pragma once

#include <string>

#include "io/readable_file.h"

namespace atompack::array_file {

// SHA-256 of a layer's size (u64), its footer, and up to 64 KiB from each end of the file, so that it need not be read
// whole. Throws CorruptFileError if the file does not end like a layer.
std::string layer_digest(const io::ReadableFile& layer);

}  // namespace atompack::array_file
