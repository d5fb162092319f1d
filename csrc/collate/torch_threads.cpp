#include "collate/torch_threads.h"

#include <omp.h>

#include <mutex>
#include <set>

namespace atompack::collate {
void use_one_thread() {
  at::internal::lazy_init_num_threads();  // otherwise the first operator would reset the number
  omp_set_num_threads(1);                 // affects only this thread, unlike at::set_num_threads()
}

std::vector<int64_t> parallel_thread_ids() {
  std::mutex mutex;
  std::set<int64_t> seen;
  for_each_range(64 * usable_threads(0), [&](int64_t) {
    const std::lock_guard lock(mutex);
    seen.insert(threads::thread_id());
  });
  return {seen.begin(), seen.end()};
}

}  // namespace atompack::collate
