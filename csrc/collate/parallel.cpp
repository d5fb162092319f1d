#include "collate/parallel.h"

#include <mutex>
#include <set>

namespace atompack::collate {
namespace {

thread_local bool alone = false;

}  // namespace

void work_alone() { alone = true; }
bool works_alone() { return alone; }

std::vector<int64_t> parallel_thread_ids() {
  std::mutex mutex;
  std::set<int64_t> seen;
  for_each_range(64 * usable_threads(0), [&](int64_t) {
    const std::lock_guard lock(mutex);
    seen.insert(io::thread_id());
  });
  return {seen.begin(), seen.end()};
}

}  // namespace atompack::collate
