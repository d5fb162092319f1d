#include "io/fetch/http/remote_root.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/error.h"
#include "io/fetch/http/address.h"

namespace atompack::io::fetch::http {
namespace {

// The part of a path before the host.
size_t host_at(std::string_view path) { return path.find("://") + 3; }

}  // namespace

RemoteRoot::RemoteRoot(std::shared_ptr<const PagedStore> files, const std::string& url)
    : files_(std::move(files)), path_(shown_url(url)) {
  const std::string_view whole(url);
  const std::string_view authority =
      whole.substr(host_at(url), whole.find_first_of("/?#", host_at(url)) - host_at(url));
  if (const size_t at = authority.rfind('@'); at != std::string_view::npos) user_ = authority.substr(0, at + 1);
  const std::string_view addressed = whole.substr(0, whole.find('#'));
  if (const size_t at = addressed.find('?'); at != std::string_view::npos) query_ = addressed.substr(at);
  while (path_.ends_with('/')) path_.pop_back();
}

std::string RemoteRoot::url_of(const std::string& path) const {
  const std::string_view folder = std::string_view(path_).substr(0, path_.rfind('/') + 1);
  std::string url;
  if (path.starts_with(path_)) {
    url = path_ + percent_encoded(std::string_view(path).substr(path_.size()), "/");
  } else if (path.starts_with(folder)) {
    url = path;
  } else {
    throw IoError(EINVAL, cat("expected a file below ", path_), path);
  }
  return url.insert(host_at(url), user_) + query_;
}

std::shared_ptr<const OpenFile> RemoteRoot::open(const std::string& path) const {
  return files_->open(url_of(path), path);
}

std::optional<FileVersion> RemoteRoot::version_of(const std::string& path) const {
  return files_->version_of(url_of(path));
}

}  // namespace atompack::io::fetch::http
