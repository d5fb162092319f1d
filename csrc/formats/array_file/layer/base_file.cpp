#include "formats/array_file/layer/base_file.h"

#include <cerrno>

#include "formats/array_file/layer/footer_encoder.h"
#include "formats/array_file/layer/layer_files.h"

namespace atompack::array_file {
namespace {

std::unique_ptr<io::WritableFile> make_empty_base(io::FileSystem& files, const std::string& path) {
  if (const auto layers = layer_files(path); layers.size() > 1) {
    throw CorruptFileError(cat("base file: expected one for ", layers.back().path(), ", got none")).in_file(path);
  }
  std::unique_ptr<io::NewFile> file = files.create(path);
  file->write_at(0, encode_layer_end({}));
  file->sync();
  file->publish(false);
  return file;
}

}  // namespace

std::unique_ptr<io::WritableFile> lock_base(io::FileSystem& files, const std::string& path) {
  check_base_path(path);
  try {
    return files.lock(path);
  } catch (const IoError& error) {
    if (error.code() != ENOENT) throw;
    return make_empty_base(files, path);
  }
}

}  // namespace atompack::array_file
