// A system call that fails, as under the rules of a container.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cstdint>

namespace atompack::test {

// From now on this process gets the error `code` for all calls with this number whose third argument has the bits of
// `mask`; 0: for all. Returns false if the system does not offer that.
inline bool forbid_call(uint32_t number, uint32_t code, uint32_t mask = 0) {
  constexpr uint32_t kThirdArgument = 32;  // in seccomp_data, its lower half
  std::array<sock_filter, 6> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // the call's number
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kThirdArgument),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, mask, 0, static_cast<uint8_t>(mask == 0 ? 0 : 1)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog rules{program.size(), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &rules) == 0;
}

}  // namespace atompack::test
