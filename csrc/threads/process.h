// Facts about the current process and thread that kernels depend on.
#pragma once

#include <cstdint>
#include <string>

namespace atompack::io {

// Whether this process is a fork of the one that loaded the library, or could be one unnoticed.
bool is_forked_child();

// Whether there is a process of this number, whoever that is.
bool is_running(int64_t process);

// The system's numbers of this process and of the calling thread.
int64_t process_id();
int64_t thread_id();

// Throws LockedError in a fork of the process that opened what is written to at `path`.
void check_writer_of(int64_t process, const std::string& path);

}  // namespace atompack::io
