#include "io/fetch/http/http_store.h"

#include <curl/curl.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/error.h"
#include "codec/checksums.h"
#include "io/fetch/http/call.h"
#include "io/fetch/http/exchange.h"
#include "io/fetch/http/request_maker.h"
#include "io/fetch/http/scheduler.h"
#include "io/file.h"

namespace atompack::io::fetch::http {

namespace {

// Starts its thread with the first call. The last owner ends all calls with IoError (ECANCELED) and joins the thread;
// that may also happen inside of a call's `done`. In a fork the parent's thread and sockets are left alone.
std::shared_ptr<Scheduler> make_scheduler(HttpOptions options) {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  check_curl(code);
  close_gate_at_exit();
  auto made = std::make_shared<Scheduler>(std::move(options));
  Scheduler* const shown = made.get();
  return {shown, [made = std::move(made)](const Scheduler*) mutable {
            if (made->is_forked() || is_gate_closed()) {
              static_cast<void>(new std::shared_ptr<Scheduler>(std::move(made)));  // its locks may be held forever
            } else {
              made->stop();
            }
          }};
}

bool is_token(const std::string& name) {
  constexpr std::string_view kAllowed = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [&](char c) {
    return is_lower(c) || is_upper(c) || is_digit(c) || kAllowed.find(c) != std::string_view::npos;
  });
}

bool is_one_line(std::string_view text) { return text.find_first_of(std::string_view("\r\n\0", 3)) == text.npos; }

// The name of the header is all that a message may tell.
void check_headers(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (!is_token(name)) throw std::invalid_argument("headers: expected names of letters, digits and dashes");
    if (!is_one_line(value)) {
      throw std::invalid_argument(cat("headers: expected a value of one line for '", name, "'"));
    }
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
      if (!is_one_line(*part)) throw std::invalid_argument("credentials: expected strings of one line");
    }
    return credentials;
  };
}

// If the wait is interrupted, the call is left to itself: it owns all its memory.
void run_and_wait(Scheduler& scheduler, const CallPtr& call) {
  try {
    wait_for([&](Done done) {
      call->done = std::move(done);
      scheduler.submit(call);
    });
  } catch (...) {
    call->is_cancelled.store(true);  // the thread looks at it while the call runs
    throw;
  }
}

class ObjectReader : public RangeReader {
 public:
  ObjectReader(std::shared_ptr<Scheduler> scheduler, std::shared_ptr<Target> target, uint64_t size)
      : scheduler_(std::move(scheduler)), target_(std::move(target)), size_(size) {}

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
    scheduler_->submit(call);
  }

  size_t max_in_flight() const override { return scheduler_->options().max_in_flight; }

 private:
  std::shared_ptr<Scheduler> scheduler_;
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
  scheduler_ = make_scheduler(std::move(options));
}

HttpStore::~HttpStore() = default;

OpenObject HttpStore::open(const std::string& url, size_t n_first) const {
  const auto call = std::make_shared<Call>();
  call->target = RequestMaker::make_target(url, {}, scheduler_->options());
  // Owned by the call, which may outlive this frame.
  const auto first = std::make_shared<std::vector<std::byte>>(std::max<size_t>(n_first, 1));
  call->range = RangeRequest{0, {std::span(*first)}};
  call->memory = first;
  run_and_wait(*scheduler_, call);
  OpenObject opened;
  opened.version = call->version;
  first->resize(std::min<uint64_t>(n_first, call->n_received));
  opened.first = std::move(*first);
  opened.reader = std::make_shared<ObjectReader>(scheduler_, call->target, call->version.size);
  return opened;
}

Response HttpStore::request(Request request) const {
  constexpr std::array<std::string_view, 5> kMethods{"GET", "HEAD", "PUT", "POST", "DELETE"};
  if (std::ranges::find(kMethods, request.method) == kMethods.end()) {
    throw std::invalid_argument("method: expected GET, HEAD, PUT, POST or DELETE");
  }
  check_headers(request.headers);
  const auto call = std::make_shared<Call>();
  call->target = RequestMaker::make_target(request.url, request.query, scheduler_->options());
  call->method = request.method;
  call->headers = std::move(request.headers);
  call->max_response = request.max_response;
  set_body(*call, request);
  run_and_wait(*scheduler_, call);
  Response response{call->head.status, std::move(call->head.headers), std::move(call->text), call->n_failed + 1, 0, ""};
  if (response.status < 200 || response.status >= 300) {
    response.error_code = call->refusal.code;
    response.error = std::move(call->refusal.reason);
  }
  return response;
}

}  // namespace atompack::io::fetch::http
