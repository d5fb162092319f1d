#include "io/fetch/http/range_body.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/fetch/http/failure.h"

namespace atompack::io::fetch::http {
namespace {

// Cheaper to receive in vain than a new connection.
constexpr uint64_t kMaxDrained = 64 * 1024;

[[noreturn]] void refuse(int code, std::string reason, bool may_retry = false) {
  throw AnswerError({.code = code, .reason = std::move(reason), .may_retry = may_retry, .error_code = {}});
}

}  // namespace

RangeBody::RangeBody(const RangeRequest& request, const ObjectVersion* version, uint64_t max_skip)
    : request_(request), length_(request.length()), max_skip_(max_skip), pinned_(version) {}

std::string RangeBody::wanted() const { return cat(request_.offset, "-", request_.offset + length_ - 1); }

void RangeBody::begin(const AnswerHead& head) {
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

void RangeBody::begin_part(const AnswerHead&, const ContentRange& range) {
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

void RangeBody::begin_whole(const AnswerHead& head) {
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
    refuse(EIO, cat("the answer was cut off: expected ", *n_expected_, " bytes, got ", n_received_), true);
  }
  if (!total_ && pinned_ == nullptr) {
    if (n_after_ > 0) refuse(EIO, "the server does not tell the size of the object");
    total_ = request_.offset - n_to_skip_ + n_received_;
  }
  found_.size = total_ ? *total_ : pinned_->size;
}

}  // namespace atompack::io::fetch::http
