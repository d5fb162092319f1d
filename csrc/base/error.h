// The errors of the core. Each becomes one Python exception in bindings/errors.cpp.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace atompack {

// Joins its arguments to one string, as a stream would print them.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

// Something about the data is wrong. Inner layers say what and at which offset; each outer layer adds the place it
// knows (field, molecule, file) while the exception passes, the innermost statement of a place wins:
//   <path>: <what>: expected <x>, got <y> (molecule <i>, field '<f>', offset <o>)
class DataError : public std::exception {
 public:
  explicit DataError(std::string what, std::optional<uint64_t> offset = std::nullopt)
      : what_(std::move(what)), offset_(offset) {
    render();
  }

  DataError& in_file(const std::string& path) {
    if (path_.empty()) path_ = path;
    return render();
  }
  DataError& at_molecule(int64_t molecule) {
    if (!molecule_) molecule_ = molecule;
    return render();
  }
  // Numbers of inner layers count from the first of the molecules they were given.
  DataError& shift_molecule(int64_t base) {
    if (molecule_) *molecule_ += base;
    return render();
  }
  DataError& at_field(const std::string& field) {
    if (!field_) field_ = field;
    return render();
  }
  // For what was found wrong at no single byte: the place where it begins.
  DataError& at_offset(uint64_t offset) {
    if (!offset_) offset_ = offset;
    return render();
  }
  // Offsets of inner layers count from the start of the bytes they were given; `base` is where those begin.
  // Bytes that were decompressed have no place in the file: `of` then names what the offset counts from.
  DataError& shift_offset(uint64_t base, const std::string& of = "") {
    if (offset_) *offset_ += base;
    if (offset_of_.empty()) offset_of_ = of;
    return render();
  }

  const char* what() const noexcept override { return text_.c_str(); }

 protected:
  // Only whole errors are copied, and so thrown: `throw` of a mere DataError& would lose the kind.
  DataError(const DataError&) = default;
  DataError& operator=(const DataError&) = default;

 private:
  DataError& render() {
    std::ostringstream place;
    const char* separator = " (";
    const auto add = [&](const auto&... parts) {
      place << separator;
      (place << ... << parts);
      separator = ", ";
    };
    if (molecule_) add("molecule ", *molecule_);
    if (field_) add("field '", printable(*field_), "'");
    if (offset_) add("offset ", *offset_, offset_of_);
    if (*separator == ',') place << ')';
    text_ = cat(path_, path_.empty() ? "" : ": ", what_, place.str());
    return *this;
  }

  // Keys come from files and may hold NUL and line breaks, which would cut or break the message.
  static std::string printable(const std::string& key) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const char byte : key) {
      const auto code = static_cast<unsigned char>(byte);
      if (code >= 0x20 && code != 0x7F) {
        text += byte;
      } else {
        text += {'\\', 'x', kDigits[code >> 4], kDigits[code & 15]};
      }
    }
    return text;
  }

  std::string what_, path_, offset_of_, text_;
  std::optional<uint64_t> offset_;
  std::optional<int64_t> molecule_;
  std::optional<std::string> field_;
};

// Keeps the type of what it is called on: `throw FieldError(...).at_field(...)` throws a FieldError.
template <typename Kind>
class KindOfDataError : public DataError {
 public:
  using DataError::DataError;
  Kind& in_file(const std::string& path) { return static_cast<Kind&>(DataError::in_file(path)); }
  Kind& at_molecule(int64_t molecule) { return static_cast<Kind&>(DataError::at_molecule(molecule)); }
  Kind& at_field(const std::string& field) { return static_cast<Kind&>(DataError::at_field(field)); }
};

// Bytes contradict the format: checksum, bounds, tags, counts.
class CorruptFileError : public KindOfDataError<CorruptFileError> {
 public:
  using KindOfDataError::KindOfDataError;
};

// The format is valid, but of a version, codec or type that is not read here.
class UnsupportedFormatError : public KindOfDataError<UnsupportedFormatError> {
 public:
  using KindOfDataError::KindOfDataError;
};

// A field is absent, or its type or shape differs where it must not.
class FieldError : public KindOfDataError<FieldError> {
 public:
  using KindOfDataError::KindOfDataError;
};

// A pickle holds more than plain data; what it names is neither imported nor called.
class UnsafePickleError : public KindOfDataError<UnsafePickleError> {
 public:
  using KindOfDataError::KindOfDataError;
};

// The system refused; carries errno so that Python raises FileNotFoundError and its like.
class IoError : public std::runtime_error {
 public:
  IoError(int code, const std::string& what, std::string path)
      : std::runtime_error(cat(path, ": ", what)), code_(code), reason_(what), path_(std::move(path)) {}
  int code() const { return code_; }
  const std::string& reason() const { return reason_; }
  const std::string& path() const { return path_; }

 private:
  int code_;
  std::string reason_, path_;
};

// Another writer has the file open.
class LockedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A promise inside this library was broken.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace atompack
