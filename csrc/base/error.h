// Errors of the core. Each becomes one Python exception in bindings/errors.cpp.
#pragma once

#include <cerrno>
#include <cstdint>
#include <exception>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/ascii.h"

namespace atompack {

// Concatenates its arguments as a stream would print them.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

// Invalid data. Inner layers state the problem and its offset; each outer layer adds the context it knows (field,
// molecule, file) as the exception passes. A context set by an inner layer is kept.
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
  // Inner layers count molecules from the first one they were given; `base` is its number.
  DataError& shift_molecule(int64_t base) {
    if (molecule_) *molecule_ += base;
    return render();
  }
  DataError& at_field(std::string_view field) {
    if (!field_) field_ = field;
    return render();
  }
  // For errors that concern no single byte: the offset where the faulty structure begins.
  DataError& at_offset(uint64_t offset) {
    if (!offset_) offset_ = offset;
    return render();
  }
  // Inner layers count offsets from the start of the bytes they were given; `base` is the offset of that start.
  // Decompressed bytes have no offset in the file: `of` then names what the offset counts from.
  DataError& shift_offset(uint64_t base, const std::string& of = "") {
    if (offset_) *offset_ += base;
    if (offset_of_.empty()) offset_of_ = of;
    return render();
  }

  const char* what() const noexcept override { return text_.c_str(); }

 protected:
  // Protected, so that only complete error types are copied and thrown: `throw` of a DataError& would slice the type.
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

  // Keys come from files and may contain NUL and line breaks, which would truncate or break the message.
  static std::string printable(const std::string& key) {
    std::string text;
    for (const char c : key) text += is_control(c) ? "\\x" + hex_digits({&c, 1}) : std::string(1, c);
    return text;
  }

  std::string what_, path_, offset_of_, text_;
  std::optional<uint64_t> offset_;
  std::optional<int64_t> molecule_;
  std::optional<std::string> field_;
};

// Returns the derived type from each setter: `throw FieldError(...).at_field(...)` throws a FieldError.
template <typename Kind>
class KindOfDataError : public DataError {
 public:
  using DataError::DataError;
  Kind& in_file(const std::string& path) { return static_cast<Kind&>(DataError::in_file(path)); }
  Kind& at_molecule(int64_t molecule) { return static_cast<Kind&>(DataError::at_molecule(molecule)); }
  Kind& at_field(std::string_view field) { return static_cast<Kind&>(DataError::at_field(field)); }
};

// Bytes that contradict the format: checksum, bounds, tags, counts.
class CorruptFileError : public KindOfDataError<CorruptFileError> {
 public:
  using KindOfDataError::KindOfDataError;
};

// Throws one whose message are these parts.
template <typename... Parts>
[[noreturn]] void throw_corrupt(const Parts&... parts) {
  throw CorruptFileError(cat(parts...));
}

// A valid file whose version, codec or type is not supported.
class UnsupportedFormatError : public KindOfDataError<UnsupportedFormatError> {
 public:
  using KindOfDataError::KindOfDataError;
};

// A missing field, or one with an unexpected type or shape.
class FieldError : public KindOfDataError<FieldError> {
 public:
  using KindOfDataError::KindOfDataError;
};

// A pickle that contains more than plain data; the names in it are neither imported nor called.
class UnsafePickleError : public KindOfDataError<UnsafePickleError> {
 public:
  using KindOfDataError::KindOfDataError;
};

// A failed system call; carries errno so that Python raises FileNotFoundError and similar.
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

// Runs `action`; returns an empty result if it needs a file that does not exist.
template <typename Action>
auto if_present(const Action& action) -> decltype(action()) {
  try {
    return action();
  } catch (const IoError& error) {
    if (error.code() != ENOENT) throw;
    return {};
  }
}

// The file is open in another writer.
class LockedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An argument of a type that is not accepted.
class TypeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A broken invariant of this library.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Runs `action`; data errors get from `add` what the caller knows.
template <typename Add, typename Action>
decltype(auto) with_context(const Add& add, const Action& action) {
  try {
    return action();
  } catch (DataError& error) {
    add(error);
    throw;
  }
}

// Runs `action`; data errors that do not name a file yet get this path.
template <typename Action>
decltype(auto) in_file(const std::string& path, const Action& action) {
  return with_context([&](DataError& error) { error.in_file(path); }, action);
}

// The same for the name of a field.
template <typename Action>
decltype(auto) at_field(std::string_view field, const Action& action) {
  return with_context([&](DataError& error) { error.at_field(field); }, action);
}

// The same for the number of a molecule.
template <typename Action>
decltype(auto) at_molecule(int64_t molecule, const Action& action) {
  return with_context([&](DataError& error) { error.at_molecule(molecule); }, action);
}

// Runs `action`; offsets in its data errors count from `base`: see DataError::shift_offset().
template <typename Action>
decltype(auto) shift_offset(uint64_t base, std::string_view of, const Action& action) {
  return with_context([&](DataError& error) { error.shift_offset(base, std::string(of)); }, action);
}

}  // namespace atompack
