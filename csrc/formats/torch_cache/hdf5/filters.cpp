#include "formats/torch_cache/hdf5/filters.h"

namespace atompack::torch_cache {
namespace {

constexpr int kFirstOfOthers = 256;  // ids from here on have a label in version 2

Filter read_filter(MetadataCursor& cursor, int version) {
  Filter filter;
  filter.id = cursor.read<uint16_t>();
  uint64_t label_bytes = version == 1 || filter.id >= kFirstOfOthers ? cursor.read<uint16_t>() : 0;
  cursor.take(2);
  const int n_parameters = cursor.read<uint16_t>();
  if (version == 1) label_bytes = (label_bytes + 7) / 8 * 8;
  const std::string_view label = as_text(cursor.take(label_bytes));
  filter.label = label.substr(0, label.find('\0'));
  for (int i = 0; i < n_parameters; ++i) filter.parameters.push_back(cursor.read<uint32_t>());
  if (version == 1 && n_parameters % 2 != 0) cursor.take(4);
  return filter;
}

}  // namespace

std::vector<Filter> read_filters(MetadataCursor cursor) {
  const int version = cursor.read<uint8_t>();
  const int count = cursor.read<uint8_t>();
  if (version != 1 && version != 2) {
    throw UnsupportedFormatError(cat("filters: expected version 1 or 2, got ", version), cursor.offset() - 2);
  }
  if (version == 1) cursor.take(6);
  std::vector<Filter> filters;
  for (int i = 0; i < count; ++i) filters.push_back(read_filter(cursor, version));
  return filters;
}

}  // namespace atompack::torch_cache
