#include "io/fetch/http/transfer_loop.h"

#include <curl/curl.h>

#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "io/fetch/http/exchange.h"
#include "io/fetch/http/exit_gate.h"
#include "io/fetch/http/scheduler.h"
#include "threads/process.h"

namespace atompack::io::fetch::http {
namespace {

void initialize_libcurl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  check_curl(code);
}

std::shared_ptr<Scheduler> make_scheduler(HttpOptions options) {
  initialize_libcurl();
  close_gate_at_exit();
  return std::make_shared<Scheduler>(std::move(options));
}

}  // namespace

TransferLoop::TransferLoop(HttpOptions options)
    : scheduler_(make_scheduler(std::move(options))), owner_(process_id()) {}

TransferLoop::~TransferLoop() {
  if (owner_ != process_id() || is_gate_closed()) {
    static_cast<void>(new std::shared_ptr<Scheduler>(std::move(scheduler_)));  // its locks may be held for ever
    return;
  }
  scheduler_->stop();
}

const HttpOptions& TransferLoop::options() const { return scheduler_->options(); }

void TransferLoop::submit(CallPtr call) {
  try {
    check_process();
  } catch (...) {  // the caller gets it by `done`, like every other error
    call->done(std::current_exception());
    return;
  }
  scheduler_->submit(std::move(call));
}

void TransferLoop::cancel(const CallPtr& call) { scheduler_->cancel(call); }

void TransferLoop::check_process() const {
  if (owner_ != process_id()) {
    throw std::runtime_error(
        "these threads belong to the process that started them, this is a fork: iterate or open anew");
  }
}

}  // namespace atompack::io::fetch::http
