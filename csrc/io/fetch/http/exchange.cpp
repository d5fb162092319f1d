#include "io/fetch/http/exchange.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "io/fetch/http/failure.h"
#include "io/file.h"

namespace atompack::io::fetch::http {
namespace {

// Receiving this many unused bytes is cheaper than opening another connection.
constexpr uint64_t kMaxDrained = 64 * 1024;

[[noreturn]] void refuse(int code, std::string reason, bool may_retry = false) {
  throw ResponseError({.code = code, .reason = std::move(reason), .may_retry = may_retry, .error_code = {}});
}

constexpr uint64_t kMaxErrorText = 16 * 1024;

Exchange& exchange_of(void* self) { return *static_cast<Exchange*>(self); }

}  // namespace

RangeBody::RangeBody(const RangeRequest& request, const ObjectVersion* version, uint64_t max_skip)
    : request_(request), length_(request.length()), max_skip_(max_skip), pinned_(version) {}

std::string RangeBody::wanted() const { return cat(request_.offset, "-", request_.offset + length_ - 1); }

void RangeBody::begin(const ResponseHead& head) {
  const std::optional<ContentRange> range = head.range();
  if (range && range->first) {
    begin_part(head, *range);
  } else if (head.status == 206) {
    refuse(EIO, cat("expected bytes ", wanted(), ", got a part without a valid Content-Range"));
  } else {
    begin_whole(head);
  }
  found_.etag = head.etag();
  found_.modified = head.modified();
  if (pinned_ == nullptr) return;
  if (total_ && *total_ != pinned_->size) {
    refuse(ESTALE, cat("the object has changed: expected ", pinned_->size, " bytes, got ", *total_));
  }
  if (!is_same_version(*pinned_, found_.etag, found_.modified))
    refuse(ESTALE, "the object has changed since it was opened");
}

void RangeBody::begin_part(const ResponseHead&, const ContentRange& range) {
  total_ = range.total;
  const uint64_t n = *range.last - *range.first + 1;
  const bool is_changed = pinned_ != nullptr && total_ && *total_ != pinned_->size;
  if (is_changed) return;  // begin() says so
  if (*range.first != request_.offset || n > length_ || (pinned_ != nullptr && n != length_)) {
    refuse(EIO, cat("expected bytes ", wanted(), ", got ", *range.first, "-", *range.last));
  }
  if (pinned_ == nullptr && !total_) refuse(EIO, "the server does not tell the size of the object");
  n_expected_ = n;
}

void RangeBody::begin_whole(const ResponseHead& head) {
  is_whole_ = true;
  total_ = head.content_length();
  n_to_skip_ = request_.offset;
  if (total_ && pinned_ != nullptr && *total_ != pinned_->size) return;  // begin() says so
  if (n_to_skip_ > max_skip_) {
    refuse(EIO, cat("the server does not support ranges: expected bytes ", wanted(), ", got the whole object"));
  }
  if (pinned_ != nullptr) {
    n_expected_ = length_;
  } else if (total_) {
    n_expected_ = std::min(length_, *total_ - std::min(n_to_skip_, *total_));
  }
}

bool RangeBody::take(Bytes bytes) {
  const uint64_t n_skipped = std::min<uint64_t>(n_to_skip_, bytes.size());
  n_to_skip_ -= n_skipped;
  bytes = bytes.subspan(n_skipped);
  const uint64_t n_room = n_expected_.value_or(length_) - n_received_;
  const Bytes mine = bytes.first(std::min<uint64_t>(n_room, bytes.size()));
  scatter(mine);
  const uint64_t n_more = bytes.size() - mine.size();
  n_after_ += n_more;
  if (n_more > 0 && !is_whole_) refuse(EIO, cat("expected bytes ", wanted(), ", got a longer body"));
  if (!is_whole_ || n_received_ < n_expected_.value_or(length_)) return true;
  if (!total_) return n_after_ == 0;
  return *total_ - std::min(*total_, request_.offset + n_received_) <= kMaxDrained;
}

void RangeBody::scatter(Bytes bytes) {
  while (!bytes.empty()) {
    const std::span<std::byte> part = request_.into[part_].subspan(part_at_);
    const size_t n = std::min(part.size(), bytes.size());
    if (n > 0) std::memcpy(part.data(), bytes.data(), n);
    bytes = bytes.subspan(n);
    part_at_ += n;
    n_received_ += n;
    if (part_at_ == request_.into[part_].size()) {
      ++part_;
      part_at_ = 0;
    }
  }
}

void RangeBody::end() {
  if (n_expected_ && n_received_ < *n_expected_) {
    refuse(EIO, cat("the response was cut off: expected ", *n_expected_, " bytes, got ", n_received_), true);
  }
  if (!total_ && pinned_ == nullptr) {
    if (n_after_ > 0) refuse(EIO, "the server does not tell the size of the object");
    total_ = request_.offset - n_to_skip_ + n_received_;
  }
  found_.size = total_ ? *total_ : pinned_->size;
}

void check_curl(CURLcode code) {
  if (code != CURLE_OK) throw IoError(EIO, curl_easy_strerror(code), "libcurl");
}

Exchange::Exchange(const HttpOptions& options, const std::string& ca_file)
    : options_(options), easy_(curl_easy_init()) {
  if (!easy_) throw std::bad_alloc();
  set(CURLOPT_PRIVATE, static_cast<void*>(this));
  set(CURLOPT_ERRORBUFFER, detail_.data());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  set(CURLOPT_HEADERFUNCTION, &on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
#if CURL_AT_LEAST_VERSION(7, 80, 0)
  set(CURLOPT_PREREQDATA, static_cast<void*>(this));
#endif
  if (!ca_file.empty()) set(CURLOPT_CAINFO, ca_file.c_str());
}

Exchange::~Exchange() = default;

void Exchange::start(CallPtr call, std::shared_ptr<const Prepared> prepared, bool into_buffer, Clock::time_point now) {
  call_ = std::move(call);
  prepared_ = std::move(prepared);
  uses_buffer_ = into_buffer;
  head_ = ResponseHead();
  text_.clear();
  range_.reset();
  refused_ = nullptr;
  has_begun_ = has_enough_ = false;
  n_sent_ = n_in_window_ = 0;
  n_requests_ = 0;
  detail_[0] = 0;
  started_ = window_start_ = now;
  // Options that are set for the last request already cost time.
  if (last_prepared_ != prepared_) set(CURLOPT_URL, prepared_->url.c_str());
  last_prepared_ = prepared_;
  set_method();
  if (!call_->range) {
    set(CURLOPT_HTTPHEADER, prepared_->headers.get());
    return;
  }
  const RangeRequest& request = *call_->range;
  const uint64_t length = request.length();
  std::snprintf(range_line_.data(), range_line_.size(), "Range: bytes=%llu-%llu",
                static_cast<unsigned long long>(request.offset),
                static_cast<unsigned long long>(request.offset + length - 1));
  range_header_ = {range_line_.data(), prepared_->headers.get()};
  set(CURLOPT_HTTPHEADER, &range_header_);
  const RangeRequest* into = &request;
  if (uses_buffer_) {
    buffer_.resize(length);
    buffer_request_ = {request.offset, {std::span(buffer_)}};
    into = &buffer_request_;
  }
  const auto& version = call_->target->version;
  range_.emplace(*into, version ? &*version : nullptr, options_.max_skip);
}

void Exchange::set_method() {
  const bool is_plain = call_->method == "GET" && call_->body.size() == 0;
  if (is_plain && is_plain_) return;
  is_plain_ = is_plain;
  const bool is_head = call_->method == "HEAD";
  const bool sends_body = call_->method == "PUT" || call_->method == "POST" || call_->body.size() > 0;
  set(CURLOPT_CUSTOMREQUEST, static_cast<const char*>(nullptr));
  set(CURLOPT_UPLOAD, 0L);
  set(CURLOPT_HTTPGET, 1L);
#if CURL_AT_LEAST_VERSION(7, 80, 0)
  set(CURLOPT_PREREQFUNCTION, is_plain ? nullptr : &on_request);
#else
  set(CURLOPT_FRESH_CONNECT, is_plain ? 0L : 1L);  // so that libcurl does not repeat a request without our knowledge
#endif
  if (is_plain) return;
  if (is_head) {
    set(CURLOPT_NOBODY, 1L);
    return;
  }
  if (sends_body) {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_READFUNCTION, &on_read);
    set(CURLOPT_READDATA, static_cast<void*>(this));
    set(CURLOPT_SEEKFUNCTION, &on_seek);
    set(CURLOPT_SEEKDATA, static_cast<void*>(this));
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(call_->body.size()));
    set(CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
  }
  set(CURLOPT_CUSTOMREQUEST, call_->method.c_str());
}

size_t Exchange::on_header(char* bytes, size_t size, size_t n, void* self) {
  Exchange& exchange = exchange_of(self);
  try {
    exchange.n_in_window_ += size * n;
    exchange.head_.add_line({bytes, size * n});
    return size * n;
  } catch (...) {  // rethrown by finish()
    exchange.refused_ = std::current_exception();
    return 0;
  }
}

size_t Exchange::on_body(char* bytes, size_t size, size_t n, void* self) {
  Exchange& exchange = exchange_of(self);
  try {
    exchange.n_in_window_ += size * n;
    exchange.has_enough_ = !exchange.receive({reinterpret_cast<const std::byte*>(bytes), size * n});
    return exchange.has_enough_ ? 0 : size * n;
  } catch (...) {  // rethrown by finish()
    exchange.refused_ = std::current_exception();
    return 0;
  }
}

// Returns false if no more is needed.
bool Exchange::receive(Bytes bytes) {
  if (takes_range()) {
    if (!has_begun_) range_->begin(head_);
    has_begun_ = true;
    return range_->take(bytes);
  }
  const bool is_error = call_->range || head_.status >= 400;
  const uint64_t max = is_error ? std::max(call_->max_response, kMaxErrorText) : call_->max_response;
  if (bytes.size() > max - text_.size()) {
    if (is_error) return false;
    refuse(EIO, cat("expected a response of at most ", max, " bytes"));
  }
  text_.append(as_text(bytes));
  return true;
}

size_t Exchange::on_read(char* bytes, size_t size, size_t n, void* self) {
  Exchange& exchange = exchange_of(self);
  RequestBody& body = exchange.call_->body;
  try {
    const size_t wanted = std::min<uint64_t>(size * n, body.size() - exchange.n_sent_);
    if (body.file) {
      const std::span<std::byte> into(reinterpret_cast<std::byte*>(bytes), wanted);
      const size_t got = read_at(body.file.get(), body.file_offset + exchange.n_sent_, into, "the file to upload");
      if (got != wanted) throw IoError(ESTALE, "became shorter while it was sent", "the file to upload");
    } else {
      std::memcpy(bytes, body.text.data() + exchange.n_sent_, wanted);
    }
    exchange.n_sent_ += wanted;
    exchange.n_in_window_ += wanted;
    return wanted;
  } catch (...) {  // rethrown by finish()
    exchange.refused_ = std::current_exception();
    return CURL_READFUNC_ABORT;
  }
}

int Exchange::on_seek(void* self, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_FAIL;
  exchange_of(self).n_sent_ = static_cast<uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

#if CURL_AT_LEAST_VERSION(7, 80, 0)
int Exchange::on_request(void* self, char*, char*, int, int) {
  ++exchange_of(self).n_requests_;
  return CURL_PREREQFUNC_OK;
}
#endif

std::optional<Failure> Exchange::finish(CURLcode code) {
  try {
    if (refused_) std::rethrow_exception(std::exchange(refused_, nullptr));
    return take_response(code);
  } catch (const ResponseError& error) {
    return error.failure();
  }
}

std::optional<Failure> Exchange::take_response(CURLcode code) {
  if (code != CURLE_OK && !has_enough_) return failure_of_transfer(code, detail_.data());
  const int status = head_.status;
  const bool is_empty_object = status == 416 && call_->opens() && call_->range->offset == 0 &&
                               head_.range().value_or(ContentRange{}).total.value_or(0) == 0;
  if (is_empty_object) {
    call_->version = {0, head_.etag(), head_.modified()};
    call_->n_received = 0;
    return std::nullopt;
  }
  if (call_->range && !takes_range()) return failure_of_response(head_, text_, prepared_->secrets);
  if (call_->range) {
    if (!has_begun_) range_->begin(head_);
    range_->end();
    call_->version = range_->version();
    call_->n_received = range_->n_received();
    return std::nullopt;
  }
  if (status >= 300) return failure_of_response(head_, text_, prepared_->secrets);
  return std::nullopt;
}

void Exchange::give_response() {
  call_->head = std::move(head_);
  call_->text = std::move(text_);
  if (n_requests_ > 1) call_->n_failed += n_requests_ - 1;
}

void Exchange::copy_buffer() {
  const std::byte* from = buffer_.data();
  for (const std::span<std::byte> part : call_->range->into) {
    if (!part.empty()) std::memcpy(part.data(), from, part.size());
    from += part.size();
  }
}

void Exchange::reset() {
  range_.reset();
  if (uses_buffer_) buffer_ = {};
  call_.reset();
  prepared_.reset();
  other = nullptr;
}

bool Exchange::has_stalled(Clock::time_point now) {
  if (now - window_start_ < options_.stall_timeout) return false;
  const bool has_stalled = n_in_window_ < (call_->range ? options_.min_progress : 1);
  window_start_ = now;
  n_in_window_ = 0;
  return has_stalled;
}

}  // namespace atompack::io::fetch::http
