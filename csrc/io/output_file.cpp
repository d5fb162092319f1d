#include "io/output_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "io/file.h"

namespace atompack::io {

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  constexpr int kMode = 0666;  // before the umask
  fd_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  if (!fd_) throw IoError(errno, std::strerror(errno), path_);
}

void OutputFile::append(Bytes bytes) {
  write_at(fd_.get(), size_, bytes, path_);
  size_ += bytes.size();
}

void OutputFile::sync() {
  if (::fsync(fd_.get()) != 0) throw IoError(errno, cat("fsync: ", std::strerror(errno)), path_);
}

void write_new(const std::string& path, Bytes bytes) {
  OutputFile file(path);
  file.append(bytes);
  file.sync();
}

}  // namespace atompack::io
