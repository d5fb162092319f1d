#include "formats/torch_cache/hdf5/h5_handle.h"

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

H5Failure last_failure() {
  H5Failure failure;
  const auto look = [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
    auto& found = *static_cast<H5Failure*>(into);
    if (found.message.empty() && error->desc != nullptr) found.message = error->desc;
    found.is_locked |= error->min_num == H5E_CANTLOCKFILE;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, look, &failure);
  if (failure.message.empty()) failure.message = "no reason given";
  return failure;
}

void fail_h5(const std::string& what) { throw CorruptFileError(cat(what, ": libhdf5: ", last_failure().message)); }

H5Handle own(hid_t id, const std::string& what) {
  if (id < 0) fail_h5(what);
  return H5Handle(id);
}

}  // namespace atompack::torch_cache
