#include "formats/torch_cache/hdf5/h5_handle.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace atompack::torch_cache {

H5Session::H5Session() {
  // Nothing is open between sessions, so nothing needs to be done at exit, where the library would print what it lost
  // because of damaged files.
  [[maybe_unused]] static const herr_t told = H5dont_atexit();
  H5Eget_auto2(H5E_DEFAULT, &report_, &report_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

H5Session::~H5Session() {
  H5Eclear2(H5E_DEFAULT);
  H5Eset_auto2(H5E_DEFAULT, report_, report_data_);
}

void fail_h5(const std::string& what) {
  std::string reason;  // the innermost one
  const auto look = [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
    auto& found = *static_cast<std::string*>(into);
    if (found.empty() && error->desc != nullptr) found = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, look, &reason);
  constexpr std::string_view kErrno = "errno = ";
  if (const size_t at = reason.find(kErrno); at != std::string::npos) {
    const int code = std::atoi(reason.c_str() + at + kErrno.size());
    throw IoError(code, std::strerror(code), {});
  }
  throw IoError(EIO, cat(what, ": libhdf5: ", reason.empty() ? "no reason given" : reason), {});
}

void H5Handle::close(const std::string& what) {
  if (H5Idec_ref(std::exchange(id_, H5I_INVALID_HID)) < 0) fail_h5(what);
}

H5Handle own(hid_t id, const std::string& what) {
  if (id < 0) fail_h5(what);
  return H5Handle(id);
}

}  // namespace atompack::torch_cache
