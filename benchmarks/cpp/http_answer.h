// Answers of a server of files, by HTTP/1.1: heads, and the parts of files that follow them.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <charconv>
#include <ctime>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "http_request.h"
#include "io/unique_fd.h"

namespace atompack::benchmarks {

struct File {
  io::UniqueFd fd;
  struct stat status{};
  std::string etag;
  std::string fields;  // of every answer

  void describe() {
    etag = cat(std::hex, '"', status.st_ino, '-', status.st_size, '-', status.st_mtim.tv_sec, '.',
               status.st_mtim.tv_nsec, '"');
    char date[40];
    tm parts{};
    ::gmtime_r(&status.st_mtim.tv_sec, &parts);
    const size_t n = std::strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    fields = cat("ETag: ", etag, "\r\nLast-Modified: ", std::string_view(date, n), "\r\nAccept-Ranges: bytes\r\n");
  }
  bool is(const struct stat& other) const {
    return status.st_ino == other.st_ino && status.st_size == other.st_size &&
           status.st_mtim.tv_sec == other.st_mtim.tv_sec && status.st_mtim.tv_nsec == other.st_mtim.tv_nsec;
  }
};

// The files of a folder, kept open.
class Files {
 public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}

  // Returns nullptr if there is no such file.
  std::shared_ptr<const File> open(const std::string& path) {
    constexpr size_t kMaxOpen = 1000;
    const std::string full = folder_ + path;
    struct stat status{};
    if (has_parent_folder(path) || ::stat(full.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
    if (const auto found = open_.find(path); found != open_.end() && found->second->is(status)) return found->second;
    if (open_.size() >= kMaxOpen) open_.clear();
    auto file = std::make_shared<File>();
    file->fd = io::UniqueFd(::open(full.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file->fd || ::fstat(file->fd.get(), &file->status) != 0) return nullptr;
    file->describe();
    open_[path] = file;
    return file;
  }

 private:
  std::string folder_;
  std::unordered_map<std::string, std::shared_ptr<const File>> open_;
};

// The head of an answer, and the part of a file that follows it.
struct Answer {
  std::string head;
  std::shared_ptr<const File> file;
  uint64_t begin = 0, end = 0;
  bool closes = false;
};

inline void append(std::string& text, uint64_t number) {
  std::array<char, 20> digits;
  text.append(digits.data(), std::to_chars(digits.begin(), digits.end(), number).ptr);
}

inline Answer answer_to(const Request& request, Files& files) {
  Answer answer;
  answer.closes = request.closes;
  const auto begin = [&](const char* status) -> std::string& {
    answer.head.reserve(256);
    return answer.head.append("HTTP/1.1 ").append(status).append("\r\n");
  };
  const auto finish = [&](uint64_t length) {
    append(answer.head.append("Content-Length: "), length);
    answer.head.append(answer.closes ? "\r\nConnection: close\r\n\r\n" : "\r\n\r\n");
    return std::move(answer);
  };
  if (request.method != "GET" && request.method != "HEAD") {
    answer.closes = true;  // it may have a body
    begin("405 Method Not Allowed").append("Allow: GET, HEAD\r\n");
    return finish(0);
  }
  const auto file = files.open(request.path);
  if (!file) {
    begin("404 Not Found");
    return finish(0);
  }
  if (!request.if_match.empty() && !matches(request.if_match, file->etag)) {
    begin("412 Precondition Failed");
    return finish(0);
  }
  const auto size = static_cast<uint64_t>(file->status.st_size);
  const Range range = parse_range(request.range, size);
  if (range.kind == Range::Kind::unsatisfiable) {
    append(begin("416 Range Not Satisfiable").append("Content-Range: bytes */"), size);
    answer.head.append("\r\n");
    return finish(0);
  }
  if (range.kind == Range::Kind::part) {
    append(begin("206 Partial Content").append(file->fields).append("Content-Range: bytes "), range.begin);
    append(answer.head.append("-"), range.end - 1);
    append(answer.head.append("/"), size);
    answer.head.append("\r\n");
  } else {
    begin("200 OK").append(file->fields);
  }
  if (request.method == "GET") {
    answer.file = file;
    answer.begin = range.begin;
    answer.end = range.end;
  }
  return finish(range.end - range.begin);
}

}  // namespace atompack::benchmarks
