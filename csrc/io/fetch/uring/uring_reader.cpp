#include "io/fetch/uring/uring_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace atompack::io::fetch {
namespace {

[[noreturn]] void fail_direct(int code, const std::string& path) {
  throw IoError(code,
                cat("access=\"direct\": the file system has no direct reads (O_DIRECT: ", std::strerror(code),
                    "); use access=\"random\" instead"),
                path);
}

bool is_unsupported(int code) { return code == EINVAL || code == EOPNOTSUPP; }

// By its descriptor, since the path may lead to another file now.
UniqueFd open_direct(int fd, const std::string& path) {
  UniqueFd direct(::open(cat("/proc/self/fd/", fd).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (!direct && is_unsupported(errno)) fail_direct(errno, path);
  if (!direct) throw IoError(errno, cat("access=\"direct\": ", std::strerror(errno)), path);
  // Some file systems open such files, and refuse to read them.
  const AlignedMemory first = make_aligned(kPageBytes);
  if (::pread(direct.get(), first.get(), kPageBytes, 0) < 0 && is_unsupported(errno)) fail_direct(errno, path);
  return direct;
}

bool is_aligned(uint64_t value) { return value % kPageBytes == 0; }

bool is_aligned(std::span<const std::byte> part) {
  return is_aligned(reinterpret_cast<uintptr_t>(part.data())) && is_aligned(part.size());
}

uint64_t round_up(uint64_t n) { return count_pages(n) * kPageBytes; }

// Adds memory for `parts`, all of which are not aligned, `skip` bytes past the last multiple of kPageBytes.
void add_bounced(DirectRead& read, std::span<const std::span<std::byte>> parts, uint64_t skip) {
  uint64_t n = skip;
  for (const auto part : parts) n += part.size();
  read.bounce = make_aligned(round_up(n));
  read.bounce_skip = skip;
  read.bounced.assign(parts.begin(), parts.end());
  constexpr uint64_t kMaxPart = uint64_t{1} << 30;  // the kernel's limit for one read is 2 GiB
  for (uint64_t at = 0; at < round_up(n); at += kMaxPart) {
    read.into.push_back({read.bounce.get() + at, std::min(kMaxPart, round_up(n) - at)});
  }
}

}  // namespace

UringReader::UringReader(int fd, const std::string& path, std::shared_ptr<const UringLoop> loop)
    : file_(std::make_shared<const DirectInput>(DirectInput{open_direct(fd, path), path})), loop_(std::move(loop)) {}

void UringReader::read(RangeRequest request, Done done) const {
  const uint64_t skip = request.offset % kPageBytes;
  auto read = std::make_unique<DirectRead>();
  read->file = file_;
  read->offset = request.offset - skip;
  read->needed = skip + request.length();
  read->done = std::move(done);
  const std::span<const std::span<std::byte>> parts = request.into;
  size_t n_direct = 0;
  while (skip == 0 && n_direct < parts.size() && is_aligned(parts[n_direct])) ++n_direct;
  if (n_direct + 1 < parts.size()) n_direct = 0;  // only the last part may be short
  for (const auto part : parts.first(n_direct)) read->into.push_back({part.data(), part.size()});
  if (n_direct < parts.size()) add_bounced(*read, parts.subspan(n_direct), skip);
  if (read->needed == 0) return read->done(nullptr);
  loop_->start(std::move(read));
}

}  // namespace atompack::io::fetch
