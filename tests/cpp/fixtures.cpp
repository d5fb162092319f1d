#include "fixtures.h"

#include <cstdlib>
#include <stdexcept>

namespace atompack::test {

std::filesystem::path fixtures_root() {
  const char* const named = std::getenv("ATOMPACK_FIXTURES");
  const std::filesystem::path root = named != nullptr && *named != '\0' ? named : ATOMPACK_FIXTURES_FOLDER;
  if (!std::filesystem::is_directory(root / "atp")) {
    throw std::runtime_error((root / "atp").string() + ": expected a folder (see ATOMPACK_FIXTURES)");
  }
  return root;
}

}  // namespace atompack::test
