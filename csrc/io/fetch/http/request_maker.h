// URLs, headers and signatures of requests.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "io/fetch/http/call.h"
#include "io/fetch/http/sigv4.h"

namespace atompack::io::fetch::http {

// Used by the thread of the loop alone, but for make_target().
class RequestMaker {
 public:
  explicit RequestMaker(const HttpOptions& options) : options_(options) {}

  // Throws std::invalid_argument.
  static std::shared_ptr<Target> make_target(const std::string& url, const Query& query, const HttpOptions& options);

  // The same object for all ranges of one target, until its signature is a second old.
  std::shared_ptr<const Prepared> prepare(const Call& call, const std::shared_ptr<const Credentials>& credentials);

  // Takes the region from an answer that names another one than was tried. Returns false if it names none.
  bool learn_region(Target& target, const AnswerHead& head, std::string_view body);

  // Takes the region that another call has learned.
  void update_region(Target& target) const;

 private:
  std::shared_ptr<const Prepared> make(const Call& call, const std::shared_ptr<const Credentials>& credentials,
                                       std::chrono::system_clock::time_point now);

  const HttpOptions& options_;
  SigV4 sigv4_;
  std::map<std::string, std::string> regions_;  // of buckets
};

}  // namespace atompack::io::fetch::http
