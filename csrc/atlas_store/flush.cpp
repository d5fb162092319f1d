#include "atlas_store/flush.h"

#include "io/file.h"

namespace atompack::atlas_store {

Flush::Flush(std::string store, io::FileSystem& files, Form form, std::optional<Fingerprint> before)
    : store_(std::move(store)), files_(files), form_(form) {
  intent_.before = std::move(before);
}

void Flush::prepare(const std::vector<Touched>& variables, Bytes document) {
  for (const Touched& variable : variables) stage(variable);
  intent_.after = fingerprint_of(document);
  metadata_ = files_.create(path_of(store_, form_));
  metadata_->write_at(0, document);
  metadata_->sync();
}

void Flush::stage(const Touched& variable) {
  if (!variable.writer->stage()) return;
  intent_.layers.push_back({variable.variable, variable.writer->staged_number(), variable.writer->staged_digest()});
  staged_.push_back(variable.writer);
}

void Flush::run() {
  if (!promised_) promise();
  publish();
  tidy();
}

// New metadata alone takes one rename, of which nobody needs to be told.
void Flush::promise() {
  if (!staged_.empty()) replace_file(files_, intent_path(store_), as_bytes(encode_intent(intent_)));
  promised_ = true;
}

// The metadata is what tells that all is there, so it comes last. Where it is the same as before it cannot tell; then
// the record does.
void Flush::publish() {
  for (; n_published_ < staged_.size(); ++n_published_) staged_[n_published_]->publish();
  metadata_->publish(true);
  if (staged_.empty() || intent_.complete || intent_.before != intent_.after) return;
  Intent complete = intent_;
  complete.complete = true;
  replace_file(files_, intent_path(store_), as_bytes(encode_intent(complete)));
  intent_.complete = true;
}

void Flush::tidy() {
  for (array_format::Writer* const writer : staged_) writer->write_statistics();
  files_.remove(intent_path(store_));
  for (size_t i = 0; i < kFileNames.size(); ++i) {
    const std::string other = path_of(store_, static_cast<Form>(i));
    if (static_cast<Form>(i) != form_ && io::exists(other)) files_.remove(other);
  }
}

}  // namespace atompack::atlas_store
