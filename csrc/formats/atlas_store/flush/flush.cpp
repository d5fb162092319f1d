#include "formats/atlas_store/flush/flush.h"

#include "io/file.h"
#include "threads/parallel_for_each.h"

namespace atompack::atlas_store {

Flush::Flush(std::string store, io::FileSystem& files, Form form, std::optional<Fingerprint> before, unsigned n_threads)
    : store_(std::move(store)), files_(files), form_(form), n_threads_(n_threads) {
  intent_.before = std::move(before);
}

void Flush::prepare(const std::vector<ChangedVariable>& variables, Bytes document) {
  intent_.layers.resize(variables.size());
  parallel_for_each(variables.size(), n_threads_, [&](size_t i) {
    const auto& [variable, writer] = variables[i];
    writer->stage();
    intent_.layers[i] = {variable, writer->staged_number(), writer->staged_digest()};
  });
  for (const ChangedVariable& variable : variables) staged_.push_back({variable.writer});
  intent_.after = fingerprint_of(document);
  metadata_ = files_.create(path_of(store_, form_));
  metadata_->write_at(0, document);
  metadata_->sync();
}

void Flush::run() {
  if (!intent_written_) write_intent();
  publish();
  clean_up();
}

// New metadata alone takes one rename, which needs no record.
void Flush::write_intent() {
  if (!staged_.empty()) replace_file(files_, intent_path(store_), as_bytes(encode_intent(intent_)));
  intent_written_ = true;
}

// Metadata is published last, since it marks the flush as complete. If it did not change, the record marks it.
void Flush::publish() {
  parallel_for_each(staged_.size(), n_threads_, [&](size_t i) {
    if (!staged_[i].published) staged_[i].writer->publish();
    staged_[i].published = true;
  });
  metadata_->publish(true);
  if (staged_.empty() || intent_.complete || intent_.before != intent_.after) return;
  Intent complete = intent_;
  complete.complete = true;
  replace_file(files_, intent_path(store_), as_bytes(encode_intent(complete)));
  intent_.complete = true;
}

void Flush::clean_up() {
  parallel_for_each(staged_.size(), n_threads_, [&](size_t i) { staged_[i].writer->write_statistics(); });
  files_.remove(intent_path(store_));
  for (size_t i = 0; i < kFileNames.size(); ++i) {
    const std::string other = path_of(store_, static_cast<Form>(i));
    if (static_cast<Form>(i) != form_ && io::exists(other)) files_.remove(other);
  }
}

}  // namespace atompack::atlas_store
