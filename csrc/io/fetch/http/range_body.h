// The part of an answer that carries a range of an object.
#pragma once

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "io/fetch/http/answer_head.h"
#include "io/fetch/range_reader.h"

namespace atompack::io::fetch::http {

// Checks that an answer carries the range that was asked for, and copies the bytes to where they belong, never more.
// All calls throw AnswerError.
class RangeBody {
 public:
  // `version`: of the object, or nullptr if it is not known yet; then the range may be shorter.
  RangeBody(const RangeRequest& request, const ObjectVersion* version, uint64_t max_skip);

  void begin(const AnswerHead& head);
  // Returns false if no more bytes are needed, although more may come.
  bool take(Bytes bytes);
  void end();

  // After end():
  const ObjectVersion& version() const { return found_; }
  uint64_t n_received() const { return n_received_; }

 private:
  void begin_part(const AnswerHead& head, const ContentRange& range);
  void begin_whole(const AnswerHead& head);
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

}  // namespace atompack::io::fetch::http
