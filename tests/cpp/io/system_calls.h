// System calls on names of files, seen before they are made. The linker puts these tests in between (--wrap), so the
// core itself knows nothing of them.
#pragma once

#include <cstdint>
#include <functional>

namespace atompack::test {

enum class Call : uint8_t { reads, changes };

// Opening and examining files, listing folders; renaming and removing. Listing a folder is one call for each of its
// names, which come in descending order; POSIX allows any order, and to miss names that come or go in the meantime.
// Contents of files are not among them: files that have their name never change.
using CallObserver = std::function<void(Call)>;

// Calls `observer` before each such call that this thread makes, as long as this lives.
class ObservedCalls {
 public:
  explicit ObservedCalls(CallObserver observer);
  ObservedCalls(const ObservedCalls&) = delete;
  ObservedCalls& operator=(const ObservedCalls&) = delete;
  ~ObservedCalls();

 private:
  CallObserver observer_;
};

}  // namespace atompack::test
