#include "formats/atlas_store/verification.h"

#include "base/excerpt.h"
#include "formats/array_file/read/reader.h"

namespace atompack::atlas_store {

Verification::Verification(std::shared_ptr<const Store> store)
    : store_(std::move(store)), readers_(store_->metadata().n_variables()) {}

// The store's own reader is not used, since it is a mapping.
void Verification::check(uint32_t variable, uint32_t dataset) {
  const Metadata& metadata = store_->metadata();
  const std::string_view name = metadata.dataset_name(dataset);
  const std::optional<uint32_t> schema = metadata.schema_number(dataset, variable);
  if (!schema) {
    throw FieldError(cat("dataset ", excerpt(name), ": no array ", excerpt(metadata.variable_name(variable))))
        .in_file(store_->path());
  }
  auto& reader = readers_[variable];
  if (!reader) reader = store_->open_reader(variable, array_file::Reading::by_pread);
  try {
    if (!reader->contains(name)) throw CorruptFileError("no such array");
    const array_file::Array array = reader->array(name);
    const Schema& told = metadata.schema(*schema);
    if (told.dtype.type() != array.type || told.shape != array.shape) {
      throw CorruptFileError("array: expected type and shape as in the metadata, got others");
    }
    array_file::verify_array(*reader, name, last_);
  } catch (DataError& error) {
    error.at_field(std::string(name));
    error.in_file(reader->layers().layer(0).path());
    throw;
  }
}

}  // namespace atompack::atlas_store
