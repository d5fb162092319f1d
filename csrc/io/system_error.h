// Errors of failed system calls.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"

namespace atompack::io {

// Throws the current errno as an IoError for this path.
[[noreturn]] inline void throw_errno(const std::string& path) {
  const int code = errno;
  throw IoError(code, std::strerror(code), path);
}

}  // namespace atompack::io
