// One request and its response by libcurl.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "io/fetch/http/call.h"
#include "io/fetch/http/response_headers.h"
#include "io/fetch/range_reader.h"

namespace atompack::io::fetch::http {

// The part of a response that carries a range of an object.

// Checks that a response carries the range that was asked for, and copies the bytes to where they belong, never more.
// All calls throw ResponseError.
class RangeBody {
 public:
  // `version`: of the object, or nullptr if it is not known yet; then the range may be shorter.
  RangeBody(const RangeRequest& request, const ObjectVersion* version, uint64_t max_skip);

  void begin(const ResponseHead& head);
  // Returns false if no more bytes are needed, although more may come.
  bool take(Bytes bytes);
  void end();

  // After end():
  const ObjectVersion& version() const { return found_; }
  uint64_t n_received() const { return n_received_; }

 private:
  void begin_part(const ResponseHead& head, const ContentRange& range);
  void begin_whole(const ResponseHead& head);
  void scatter(Bytes bytes);
  std::string wanted() const;

  const RangeRequest& request_;
  const uint64_t length_, max_skip_;
  const ObjectVersion* pinned_;
  ObjectVersion found_;
  bool is_whole_ = false;
  std::optional<uint64_t> n_expected_;  // of the range
  std::optional<uint64_t> total_;       // of the object
  uint64_t n_to_skip_ = 0, n_received_ = 0, n_after_ = 0;
  size_t part_ = 0, part_at_ = 0;
};

// Throws IoError.
void check_curl(CURLcode code);

// A handle that is used for one attempt after another. Only the thread of the loop uses it.
class Exchange {
 public:
  explicit Exchange(const HttpOptions& options, const std::string& ca_file);
  ~Exchange();

  // `into_buffer`: receives the range in memory of its own, so that another exchange can write to the call's.
  void start(CallPtr call, std::shared_ptr<const Prepared> prepared, bool into_buffer, Clock::time_point now);

  // Returns the failure of the attempt, if it has failed. For ranges, sets the version and number of bytes in the call.
  std::optional<Failure> finish(CURLcode code);
  // Moves the head and the text of the response, and the number of libcurl's own repetitions, to the call.
  void give_response();
  // Copies what went into the buffer to where the call wants it.
  void copy_buffer();
  // Forgets the call.
  void reset();

  // True if too few bytes moved for too long.
  bool has_stalled(Clock::time_point now);

  CURL* easy() const { return easy_.get(); }
  const CallPtr& call() const { return call_; }
  const std::shared_ptr<const Prepared>& shared_prepared() const { return prepared_; }
  Clock::time_point started() const { return started_; }
  bool uses_buffer() const { return uses_buffer_; }

  size_t position = 0;        // among the running exchanges
  Exchange* other = nullptr;  // the hedge of this one, or the one that this hedges

 private:
  struct FreeEasy {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  };
  template <typename Value>
  void set(CURLoption option, Value value) {
    check_curl(curl_easy_setopt(easy_.get(), option, value));
  }
  void set_method();
  std::optional<Failure> take_response(CURLcode code);
  bool takes_range() const { return call_->range && (head_.status == 200 || head_.status == 206); }

  static size_t on_header(char* bytes, size_t size, size_t n, void* self);
  static size_t on_body(char* bytes, size_t size, size_t n, void* self);
  static size_t on_read(char* bytes, size_t size, size_t n, void* self);
  static int on_seek(void* self, curl_off_t offset, int origin);
  static int on_request(void* self, char* to, char* from, int to_port, int from_port);
  bool receive(Bytes bytes);

  const HttpOptions& options_;
  std::unique_ptr<CURL, FreeEasy> easy_;
  std::array<char, CURL_ERROR_SIZE> detail_{};
  std::array<char, 64> range_line_{};
  curl_slist range_header_{};  // in front of the prepared ones

  CallPtr call_;
  std::shared_ptr<const Prepared> prepared_, last_prepared_;
  bool is_plain_ = true;  // no options of uploads and other methods were set
  bool uses_buffer_ = false;
  std::vector<std::byte> buffer_;
  RangeRequest buffer_request_;
  std::optional<RangeBody> range_;
  ResponseHead head_;
  std::string text_;
  std::exception_ptr refused_;  // by a callback
  bool has_begun_ = false, has_enough_ = false;
  unsigned n_requests_ = 0;  // libcurl repeats a request if a connection that it reuses turns out to be closed
  uint64_t n_sent_ = 0;
  Clock::time_point started_{}, window_start_{};
  uint64_t n_in_window_ = 0;
};

}  // namespace atompack::io::fetch::http
