#include "collate/torch_threads.h"

#include <omp.h>

#include <mutex>
#include <set>

namespace atompack::collate {
void work_alone() {
  at::internal::lazy_init_num_threads();  // or it would be torch's number again with the first operator
  omp_set_num_threads(1);                 // of this thread alone, which at::set_num_threads() is not
}

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
