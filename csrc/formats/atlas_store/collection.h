// Container file of a collection (FORMAT.md, "Collections"): datasets and their arrays in array files one after the
// other, written once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "codec/zstd_codec.h"
#include "formats/array_file/layer/footer.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/read/statistics.h"
#include "formats/atlas_store/metadata/metadata.h"
#include "io/open_file.h"

namespace atompack::atlas_store {

inline constexpr std::string_view kContainerName = "data.atlas", kMaskName = "deleted.mask";
inline constexpr std::string_view kCollectionMagic = "ATLS";  // at the beginning and the end
// Versions of the container: one segment for each dataset, or for each variable.
inline constexpr uint32_t kByDataset = 1, kByVariable = 8;

// Views of the metadata or of `owned`.
struct AttributeList {
  std::vector<array_file::Attribute> values;
  std::vector<std::string_view> in_doubt;  // keys whose value may be another's or is missing
  std::vector<std::vector<std::byte>> owned;
};

// Attributes and statistics of a dataset of version 1, encoded.
struct EncodedDataset {
  Bytes attributes, array_attributes, statistics;
};

// The open files of a collection, and what its footer says about values. Immutable.
struct Container {
  uint32_t version = 0;
  std::shared_ptr<const io::OpenFile> file, mask;  // mask: nullptr if nothing was ever deleted
  std::vector<io::ByteRange> segments;             // by dataset or by variable; of length 0 if there is none
  codec::DecodedContent footer;
  std::vector<std::string_view> keys;    // version 1
  std::vector<EncodedDataset> datasets;  // version 1

  const std::string& path() const { return file->path(); }
  std::shared_ptr<const io::ByteSource> bytes(array_file::Reading reading) const;
  // Version 1 only. `position`: of the array in its dataset; nullopt: attributes of the dataset itself.
  AttributeList attributes(uint32_t dataset, std::optional<uint64_t> position) const;
  std::optional<array_file::ArrayStatistics> statistics(uint32_t dataset, uint64_t position) const;
};

struct Collection {
  Metadata metadata;
  std::shared_ptr<const Container> container;
};

// The container at a path or in a folder; nullopt if there is none. In a remote store that cannot list folders it is
// looked up.
std::optional<io::Location> find_container(const io::Location& place);
// Path of the deletion mask of a container.
io::Location mask_of(const io::Location& container);

// Reads the footer and the mask: deleted datasets do not exist. Throws IoError; CorruptFileError, including when the
// footer has more than `max_metadata_bytes`; UnsupportedFormatError.
Collection read_collection(const io::Location& container, uint64_t max_metadata_bytes);

}  // namespace atompack::atlas_store
