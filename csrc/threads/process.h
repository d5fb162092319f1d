// Facts about the current process and thread.
#pragma once

#include <cstdint>
#include <string>

namespace atompack::io {

// True if this process is, or may be, a fork of the one that loaded the library.
bool is_forked_child();

// True if a process with this number exists.
bool is_running(int64_t process);

// System numbers of this process and of the calling thread.
int64_t process_id();
int64_t thread_id();

// Throws LockedError in a fork of the process that opened `path` for writing.
void check_writer_of(int64_t process, const std::string& path);

}  // namespace atompack::io
