// Requests as users make them; each takes one or several attempts.
#pragma once

#include <curl/curl.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/fetch/http/address.h"
#include "io/fetch/http/failure.h"
#include "io/fetch/http/options.h"
#include "io/fetch/http/response_headers.h"
#include "io/fetch/range_reader.h"
#include "io/unique_fd.h"

namespace atompack::io::fetch::http {

using Clock = std::chrono::steady_clock;

struct FreeHeaderList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeHeaderList>;

// URL and headers as they are sent, the same for all ranges of an object for up to one second.
struct Prepared {
  std::string url;
  HeaderList headers;
  std::vector<std::string> secrets;                // never quoted in messages
  std::shared_ptr<const Credentials> credentials;  // nullptr if none were sent
  std::chrono::system_clock::time_point signed_at;
};

struct Call;

// One object, or another address, and what was learned about it. After it was made only the thread of the loop uses it,
// except for `shown`.
struct Target {
  std::string shown;               // the URL for messages
  std::optional<ObjectName> name;  // s3:// and gs://
  std::string query;               // canonical
  Address origin;                  // from the URL, or from the name
  std::string region;              // of `origin`

  std::optional<Address> redirected;  // the final address, once known
  bool is_resolving = false;          // one call follows the redirects again, others wait
  std::vector<std::shared_ptr<Call>> waiting;

  std::optional<ObjectVersion> version;  // set by the first response to open()
  Address version_from;                  // the address that sent it

  std::shared_ptr<const Prepared> prepared;  // for ranges

  const Address& address() const { return redirected ? *redirected : origin; }
};

struct RequestBody {
  std::string text;
  UniqueFd file;  // used instead if it is open
  uint64_t file_offset = 0, file_size = 0;
  uint64_t size() const { return file ? file_size : text.size(); }
};

// Made by one thread, then used by the loop until `done` was called, then by its maker again.
struct Call {
  std::shared_ptr<Target> target;
  std::string method = "GET";
  Headers headers;
  RequestBody body;
  std::string body_sha256;
  uint64_t max_response = 0;          // bytes of the body
  std::optional<RangeRequest> range;  // the response goes there
  std::shared_ptr<void> memory;       // of the range, if the call owns it
  std::function<void(std::exception_ptr)> done;
  std::atomic<bool> is_cancelled{false};

  // The response.
  ResponseHead head;
  std::string text;
  ObjectVersion version;
  uint64_t n_received = 0;
  Failure refusal;  // if the status is not of success

  // Used by the loop.
  unsigned n_failed = 0, n_redirects = 0;  // attempts before the last, redirects in a row
  bool has_renewed = false, has_resolved = false, has_changed_region = false;
  bool is_resolver = false;  // others wait for it
  Clock::time_point first_start{};
  std::shared_ptr<const Credentials> refused_with;  // while other credentials are fetched

  bool opens() const { return range && !target->version; }
};

using CallPtr = std::shared_ptr<Call>;

}  // namespace atompack::io::fetch::http
