#include "io/fetch/http/http_store.h"

#include <curl/curl.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/checksums.h"
#include "io/fetch/http/call.h"
#include "io/fetch/http/exchange.h"
#include "io/fetch/http/request_maker.h"
#include "io/fetch/http/scheduler.h"
#include "io/file.h"
#include "threads/process.h"

namespace atompack::io::fetch::http {

// The thread that runs all requests of a store.
class Scheduler;

// Starts its thread with the first call. Destruction ends all calls with IoError (ECANCELED) and joins the thread; it
// may also happen inside of a call's `done`. In a fork every call fails, and destruction leaves the parent's thread and
// sockets alone.
class TransferLoop {
 public:
  explicit TransferLoop(HttpOptions options);
  TransferLoop(const TransferLoop&) = delete;
  TransferLoop& operator=(const TransferLoop&) = delete;
  ~TransferLoop();

  const HttpOptions& options() const;

  // Thread-safe; calls `done` on the thread of the loop, or before it returns if the thread cannot be started.
  void submit(CallPtr call);
  // Ends the call soon, with IoError (ECANCELED), unless it has ended.
  void cancel(const CallPtr& call);

  // Throws std::runtime_error in a fork.
  void check_process() const;

 private:
  std::shared_ptr<Scheduler> scheduler_;
  int64_t owner_;  // the process
};

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
    : scheduler_(make_scheduler(std::move(options))), owner_(threads::process_id()) {}

TransferLoop::~TransferLoop() {
  if (owner_ != threads::process_id() || is_gate_closed()) {
    static_cast<void>(new std::shared_ptr<Scheduler>(std::move(scheduler_)));  // its locks may be held forever
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
  if (owner_ != threads::process_id()) {
    throw std::runtime_error("threads do not survive fork(): reopen the file or start a new pass in the child");
  }
}

namespace {

bool is_token(const std::string& name) {
  constexpr std::string_view kAllowed = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kAllowed.find(c) != std::string_view::npos;
  });
}

// The name of the header is all that a message may tell.
void check_headers(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (!is_token(name)) throw std::invalid_argument("headers: expected names of letters, digits and dashes");
    const bool breaks = std::ranges::any_of(value, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
    if (breaks) throw std::invalid_argument(cat("headers: expected a value of one line for '", name, "'"));
  }
}

void check_options(const HttpOptions& options) {
  check_headers(options.headers);
  if (!options.endpoint.empty()) parse_address(options.endpoint);
  if (options.max_in_flight == 0) throw std::invalid_argument("max_in_flight: expected at least 1, got 0");
  if (options.retry.max_attempts == 0 || options.retry.max_connect_attempts == 0) {
    throw std::invalid_argument("max_attempts: expected at least 1, got 0");
  }
}

// Credentials come from outside, and a line break would add headers.
CredentialsProvider checked_provider(CredentialsProvider provider) {
  if (!provider) return nullptr;
  return [provider = std::move(provider)] {
    Credentials credentials = provider();
    for (const std::string* part : {&credentials.access_key, &credentials.session_token, &credentials.bearer}) {
      const bool breaks = std::ranges::any_of(*part, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
      if (breaks) throw std::invalid_argument("credentials: expected strings of one line");
    }
    return credentials;
  };
}

// The state that a blocked caller and the loop share.
struct Wait {
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
  std::exception_ptr error;
};

// Submits the call and waits for its end. If `check` throws, the call is left to itself: it owns all its memory.
void run_and_wait(TransferLoop& loop, const CallPtr& call) {
  loop.check_process();
  const auto wait = std::make_shared<Wait>();
  call->done = [wait](std::exception_ptr error) {
    const std::lock_guard lock(wait->mutex);
    wait->error = std::move(error);
    wait->has_ended = true;
    wait->ended.notify_all();
  };
  loop.submit(call);
  std::unique_lock lock(wait->mutex);
  while (!wait->ended.wait_for(lock, milliseconds(100), [&] { return wait->has_ended; })) {
    if (!loop.options().check) continue;
    lock.unlock();
    try {
      loop.options().check();
    } catch (...) {
      loop.cancel(call);
      throw;
    }
    lock.lock();
  }
  if (wait->error) std::rethrow_exception(std::exchange(wait->error, nullptr));
}

class ObjectReader : public RangeReader {
 public:
  ObjectReader(std::shared_ptr<TransferLoop> loop, std::shared_ptr<Target> target, uint64_t size)
      : loop_(std::move(loop)), target_(std::move(target)), size_(size) {}

  void read(RangeRequest request, Done done) const override {
    const uint64_t length = request.length();
    if (request.offset > size_ || length > size_ - request.offset) {
      throw std::out_of_range(
          cat(target_->shown, ": expected a range of ", size_, " bytes, got ", length, " at ", request.offset));
    }
    const auto call = std::make_shared<Call>();
    call->target = target_;
    call->range = std::move(request);
    call->done = std::move(done);
    loop_->submit(call);
  }

  size_t max_in_flight() const override { return loop_->options().max_in_flight; }

 private:
  std::shared_ptr<TransferLoop> loop_;
  std::shared_ptr<Target> target_;
  uint64_t size_;
};

std::string sha256_of_file(const RequestBody& body, const std::string& path) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  bool is_good = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  std::vector<std::byte> buffer(std::min<uint64_t>(body.file_size, 1 << 20));
  for (uint64_t at = 0; is_good && at < body.file_size;) {
    const size_t wanted = std::min<uint64_t>(buffer.size(), body.file_size - at);
    const size_t n = read_at(body.file.get(), body.file_offset + at, std::span(buffer).first(wanted), path);
    if (n != wanted) throw IoError(ESTALE, "became shorter while it was read", path);
    is_good = EVP_DigestUpdate(context.get(), buffer.data(), n) == 1;
    at += n;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  is_good = is_good && EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1;
  if (!is_good) throw InternalError("SHA-256: OpenSSL is configured without it");
  return hex_digits({reinterpret_cast<const char*>(digest.data()), size});
}

void set_body(Call& call, Request& request) {
  RequestBody& body = call.body;
  if (!request.file) {
    body.text = std::move(request.body);
    call.body_sha256 = codec::sha256_hex(as_bytes(body.text));
    return;
  }
  const FilePart& part = *request.file;
  body.file = open_for_reading(part.path);
  body.file_offset = part.offset;
  body.file_size = part.size;
  const uint64_t size = identify(body.file.get(), part.path).size;
  if (part.offset > size || part.size > size - part.offset) {
    throw std::invalid_argument(
        cat(part.path, ": expected a range of ", size, " bytes, got ", part.size, " at ", part.offset));
  }
  call.body_sha256 = sha256_of_file(body, part.path);
}

}  // namespace

void check_response(const Response& response, const std::string& url) {
  if (response.error_code != 0) throw IoError(response.error_code, response.error, shown_url(url));
}

HttpStore::HttpStore(HttpOptions options) {
  check_options(options);
  options.credentials = checked_provider(std::move(options.credentials));
  loop_ = std::make_shared<TransferLoop>(std::move(options));
}

HttpStore::~HttpStore() = default;

OpenObject HttpStore::open(const std::string& url, size_t n_first) const {
  const auto call = std::make_shared<Call>();
  call->target = RequestMaker::make_target(url, {}, loop_->options());
  // Owned by the call, which may outlive this frame.
  const auto first = std::make_shared<std::vector<std::byte>>(std::max<size_t>(n_first, 1));
  call->range = RangeRequest{0, {std::span(*first)}};
  call->memory = first;
  run_and_wait(*loop_, call);
  OpenObject opened;
  opened.version = call->version;
  first->resize(std::min<uint64_t>(n_first, call->n_received));
  opened.first = std::move(*first);
  opened.reader = std::make_shared<ObjectReader>(loop_, call->target, call->version.size);
  return opened;
}

Response HttpStore::request(Request request) const {
  constexpr std::array<std::string_view, 5> kMethods{"GET", "HEAD", "PUT", "POST", "DELETE"};
  if (std::ranges::find(kMethods, request.method) == kMethods.end()) {
    throw std::invalid_argument("method: expected GET, HEAD, PUT, POST or DELETE");
  }
  check_headers(request.headers);
  const auto call = std::make_shared<Call>();
  call->target = RequestMaker::make_target(request.url, request.query, loop_->options());
  call->method = request.method;
  call->headers = std::move(request.headers);
  call->max_response = request.max_response;
  set_body(*call, request);
  run_and_wait(*loop_, call);
  Response response{call->head.status, std::move(call->head.headers), std::move(call->text), call->n_failed + 1, 0, ""};
  if (response.status < 200 || response.status >= 300) {
    response.error_code = call->refusal.code;
    response.error = std::move(call->refusal.reason);
  }
  return response;
}

}  // namespace atompack::io::fetch::http
