// The text of the exception that an action throws, so that tests compare type and message in one line.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "base/error.h"

namespace atompack::test {

template <typename Error, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return cat("an exception of another type: ", error.what());
  }
  return "nothing was thrown";
}

// True if the action throws such an error with these words.
template <typename Error, typename Action>
bool refuses(std::string_view words, const Action& action) {
  return message_of<Error>(action).find(words) != std::string::npos;
}

template <typename Action>
std::string data_error(const Action& action) {
  return message_of<DataError>(action);
}

template <typename Action>
std::string corrupt(const Action& action) {
  return message_of<CorruptFileError>(action);
}

template <typename Action>
std::string unsupported(const Action& action) {
  return message_of<UnsupportedFormatError>(action);
}

}  // namespace atompack::test
