// Place of a file or folder: a path in the file system, or a URL and the store that it leads to.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace atompack::io {

class Store;

class Location {
 public:
  Location(std::string path) : path_(std::move(path)) {}  // NOLINT: every path is a location
  Location(const char* path) : path_(path) {}             // NOLINT
  Location(std::string url, std::shared_ptr<const Store> store) : path_(std::move(url)), store_(std::move(store)) {}

  // As given by the user, for errors too; a URL never contains credentials.
  const std::string& path() const { return path_; }
  bool is_remote() const { return store_ != nullptr; }
  const Store& store() const { return *store_; }

  // An entry of this folder.
  Location operator/(std::string_view name) const { return {cat(path_, '/', name), store_}; }
  // Another place in the same store.
  Location at(std::string path) const { return {std::move(path), store_}; }

 private:
  std::string path_;
  std::shared_ptr<const Store> store_;  // nullptr: the local file system
};

}  // namespace atompack::io
