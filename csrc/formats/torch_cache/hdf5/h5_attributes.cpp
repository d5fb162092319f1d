// Implementation of read_attributes() of h5_file.h.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "formats/torch_cache/hdf5/h5_file.h"

namespace atompack::torch_cache {
namespace {

// Attributes of this format are short; longer ones are refused.
constexpr size_t kMaxTextBytes = 16 << 20;

std::string_view name_of(H5T_class_t type) {
  switch (type) {
    case H5T_INTEGER:
      return "an integer";
    case H5T_FLOAT:
      return "a number";
    case H5T_STRING:
      return "text";
    case H5T_BITFIELD:
      return "a bit field";
    case H5T_ENUM:
      return "an enumeration";
    default:
      return "a value of another type";
  }
}

class AttributeReader {
 public:
  AttributeReader(hid_t object, std::string name)
      : name_("attribute '" + name + "'"),
        attribute_(own(H5Aopen(object, name.c_str(), H5P_DEFAULT), name_)),
        type_(own(H5Aget_type(attribute_.get()), name_)),
        class_(H5Tget_class(type_.get())) {
    const H5Handle space = own(H5Aget_space(attribute_.get()), name_);
    n_values_ = require_h5(H5Sget_simple_extent_npoints(space.get()), name_);
    if (n_values_ > 1) throw CorruptFileError(cat(name_, ": expected one value, got ", n_values_));
  }

  AttributeValue read(AttributeKind kind) const {
    switch (kind) {
      case AttributeKind::flag:
        return flag();
      case AttributeKind::integer:
        return integer();
      case AttributeKind::number:
        return number();
      case AttributeKind::text:
        return text();
    }
    throw InternalError("an attribute of no kind");
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    throw CorruptFileError(cat(name_, ": expected ", expected, ", got ", name_of(class_)));
  }
  void read_into(hid_t memory_type, void* to) const {
    if (n_values_ == 0) throw CorruptFileError(cat(name_, ": expected a value, got none"));
    require_h5(H5Aread(attribute_.get(), memory_type, to), name_);
  }

  // Some programs store bool as an enumeration, which the original always reads as false. Both its value and false
  // would be wrong for someone, so it is refused.
  bool flag() const {
    if (class_ == H5T_ENUM) {
      throw UnsupportedFormatError(cat(name_, ": expected a bit field or an integer, got an enumeration"));
    }
    if (class_ == H5T_INTEGER) return integer() != 0;
    if (class_ != H5T_BITFIELD || H5Tget_size(type_.get()) != 1) fail("a bit field of 8 bits or an integer");
    uint8_t value = 0;
    read_into(H5T_NATIVE_B8, &value);
    return value != 0;
  }

  int64_t integer() const {
    if (class_ != H5T_INTEGER) fail("an integer");
    int64_t value = 0;
    read_into(H5T_NATIVE_INT64, &value);
    return value;
  }

  double number() const {
    if (class_ != H5T_FLOAT && class_ != H5T_INTEGER) fail("a number");
    double value = 0;
    read_into(H5T_NATIVE_DOUBLE, &value);
    return value;
  }

  std::string text() const {
    if (class_ != H5T_STRING) fail("text");
    if (n_values_ == 0) return {};  // an empty string is stored like this
    return require_h5(H5Tis_variable_str(type_.get()), name_) != 0 ? variable_text() : fixed_text();
  }

  std::string fixed_text() const {
    const size_t size = H5Tget_size(type_.get());
    if (size == 0 || size > kMaxTextBytes) {
      throw CorruptFileError(cat(name_, ": expected at most ", kMaxTextBytes, " bytes, got ", size));
    }
    std::string text(size, '\0');
    read_into(type_.get(), text.data());
    const H5T_str_t pad = H5Tget_strpad(type_.get());
    if (pad == H5T_STR_NULLTERM) text.resize(std::min(text.find('\0'), text.size()));
    const char filler = pad == H5T_STR_SPACEPAD ? ' ' : '\0';
    text.resize(text.find_last_not_of(filler) + 1);
    return text;
  }

  std::string variable_text() const {
    const H5Handle memory = own(H5Tcopy(H5T_C_S1), name_);
    require_h5(H5Tset_size(memory.get(), H5T_VARIABLE), name_);
    require_h5(H5Tset_cset(memory.get(), H5Tget_cset(type_.get())), name_);
    char* found = nullptr;
    read_into(memory.get(), &found);
    if (found == nullptr) return {};
    std::string text = found;
    H5free_memory(found);
    return text;
  }

  std::string name_;
  H5Handle attribute_, type_;
  H5T_class_t class_;
  hssize_t n_values_ = 0;
};

}  // namespace

Attributes read_attributes(hid_t object, std::span<const AttributeName> names) {
  Attributes found;
  for (const auto& [name, kind] : names) {
    const std::string text(name);
    if (require_h5(H5Aexists(object, text.c_str()), cat("attribute '", name, "'")) == 0) continue;
    found.push_back({text, AttributeReader(object, text).read(kind)});
  }
  return found;
}

}  // namespace atompack::torch_cache
