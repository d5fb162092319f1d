// Objects on HTTP servers and in S3-compatible stores.
#pragma once

#include <memory>
#include <string>

#include "io/fetch/http/address.h"
#include "io/fetch/http/options.h"
#include "io/fetch/range_reader.h"

namespace atompack::io::fetch::http {

class Scheduler;

// Bytes of a local file.
struct FilePart {
  std::string path;
  uint64_t offset = 0, size = 0;
};

struct Request {
  std::string method = "GET";  // GET, HEAD, PUT, POST, or DELETE
  std::string url;             // s3://BUCKET/KEY, gs://BUCKET/KEY, http:// or https://
  Query query = {};            // not encoded
  Headers headers = {};
  std::string body = {};
  std::optional<FilePart> file = {};  // sent instead of `body`
  uint64_t max_response = 64 << 20;   // bytes of the body that comes back
};

struct Response {
  int status = 0;
  Headers headers;  // names in lower case
  std::string body;
  // If there was more than one attempt, 412 to a conditional request may come from one's own success.
  unsigned n_attempts = 1;
  // For a status that is not of success: errno and what the server said, without secrets.
  int error_code = 0;
  std::string error;
};

// Throws IoError for a status that is not of success: ENOENT for 404, EACCES for 401 and 403, ESTALE for 412, else EIO.
void check_response(const Response& response, const std::string& url);

// URLs: s3://BUCKET/KEY and gs://BUCKET/KEY, whose keys are not percent-encoded, and http:// and https://, which are.
// All requests run on one native thread. No message contains credentials, headers or queries of URLs. Calls block at
// most until threads::check_for_interruption() throws. In a fork of the process that made it every call fails.
class HttpStore : public ObjectStore {
 public:
  // Throws std::invalid_argument for options that cannot be used.
  explicit HttpStore(HttpOptions options = {});
  ~HttpStore() override;

  // The reader keeps the thread alive. It pins the version: other bytes are IoError (ESTALE).
  OpenObject open(const std::string& url, size_t n_first) const override;

  // Returns the response whatever its status, after retries. Throws IoError if it is missing, and
  // std::invalid_argument.
  Response request(Request request) const;

 private:
  std::shared_ptr<Scheduler> scheduler_;
};

}  // namespace atompack::io::fetch::http
