// Files below one http:// or https:// URL.
#pragma once

#include <memory>
#include <string>

#include "io/fetch/paged_store.h"

namespace atompack::io::fetch::http {

// Its paths begin with the URL as it is shown: without user info, query and fragment, so that errors of formats have no
// secrets. Requests get all of these back. Names below the URL are not percent-encoded; the URL itself is, and so are
// the names of other files in its folder.
class RemoteRoot final : public Store {
 public:
  RemoteRoot(std::shared_ptr<const PagedStore> files, const std::string& url);

  // The URL as it is shown, without slashes at its end.
  const std::string& path() const { return path_; }

  std::shared_ptr<const OpenFile> open(const std::string& path) const override;
  std::optional<FileVersion> version_of(const std::string& path) const override;
  std::vector<std::string> names_in(const std::string& path) const override { return files_->names_in(path); }

 private:
  std::string url_of(const std::string& path) const;

  std::shared_ptr<const PagedStore> files_;
  std::string path_;
  std::string user_;   // of the URL, with its @
  std::string query_;  // with its question mark
};

}  // namespace atompack::io::fetch::http
