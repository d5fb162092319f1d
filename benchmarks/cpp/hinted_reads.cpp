// Reads records at random offsets of a mapped file, with hints ahead: the least work there is for reading a file that
// is larger than memory. usage: atompack_hinted_reads FILE OFFSETS WINDOW, where OFFSETS holds pairs of int64 (offset,
// length). Prints records per second.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

namespace {

struct Record {
  int64_t offset, length;
};

std::vector<Record> read_records(const char* path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<Record> records(static_cast<size_t>(file.tellg()) / sizeof(Record));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(records.data()), static_cast<std::streamsize>(records.size() * sizeof(Record)));
  return records;
}

}  // namespace

int main(int n_arguments, char** arguments) {
  if (n_arguments != 4) return 2;
  const int fd = ::open(arguments[1], O_RDONLY | O_CLOEXEC);
  struct stat status{};
  if (fd < 0 || ::fstat(fd, &status) != 0) return 1;
  const auto size = static_cast<size_t>(status.st_size);
  void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return 1;
  ::madvise(mapped, size, MADV_RANDOM);
  auto* const bytes = static_cast<char*>(mapped);
  const std::vector<Record> records = read_records(arguments[2]);
  const size_t window = std::strtoul(arguments[3], nullptr, 10);
  const auto hint = [&](size_t i) {
    if (i >= records.size()) return;
    const int64_t begin = records[i].offset & ~int64_t{4095};
    ::madvise(bytes + begin, static_cast<size_t>(records[i].offset + records[i].length - begin), MADV_WILLNEED);
  };
  std::vector<char> out(1 << 20);
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < window; ++i) hint(i);
  for (size_t i = 0; i < records.size(); ++i) {
    hint(i + window);
    std::memcpy(out.data(), bytes + records[i].offset, static_cast<size_t>(records[i].length));
    asm volatile("" : : "r"(out.data()) : "memory");
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%.0f\n", static_cast<double>(records.size()) / took.count());
}
