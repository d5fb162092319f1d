#include "formats/array_file/layer/file_number.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

#include "threads/per_process.h"

namespace atompack::array_file {
namespace {

std::shared_ptr<const uint64_t> new_number() {
  static std::atomic<uint64_t> last{0};
  return std::make_shared<const uint64_t>(++last);  // 0 means no file
}

// Thread-safe.
class FileNumbers {
 public:
  std::shared_ptr<const uint64_t> find(const io::FileVersion& version) {
    const std::scoped_lock lock(mutex_);
    if (numbers_.size() >= max_size_) drop_closed();
    std::weak_ptr<const uint64_t>& known =
        numbers_[{version.device, version.inode, version.size, version.seconds, version.nanoseconds}];
    std::shared_ptr<const uint64_t> number = known.lock();
    if (!number) known = number = new_number();
    return number;
  }

 private:
  void drop_closed() {
    std::erase_if(numbers_, [](const auto& entry) { return entry.second.expired(); });
    max_size_ = std::max(kMinSize, 2 * numbers_.size());
  }

  static constexpr size_t kMinSize = 256;

  std::mutex mutex_;
  std::map<std::tuple<uint64_t, uint64_t, uint64_t, int64_t, int64_t>, std::weak_ptr<const uint64_t>> numbers_;
  size_t max_size_ = kMinSize;
};

const io::PerProcess<FileNumbers> numbers([] { return std::make_unique<FileNumbers>(); });

}  // namespace

std::shared_ptr<const uint64_t> file_number(const std::optional<io::FileVersion>& version) {
  return version ? numbers.get().find(*version) : new_number();
}

}  // namespace atompack::array_file
