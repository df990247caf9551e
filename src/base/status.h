// What the world can do wrong, as a value.
// A Status is either ok or a code with a message for a person; the message names the value, the
// bound and the flag that moves it. We do not throw; a library's exceptions become a Status at the
// call. What only we can do wrong is WEFT_CHECK (check.h).
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace weft {

enum class StatusCode {
  kOk,
  kInvalid,      // the caller's argument, file or request is wrong
  kNotFound,     // a named thing does not exist
  kUnsupported,  // well-formed, but this build, machine or model cannot do it
  kExhausted,    // a bounded resource is used up; nothing was changed
  kUnavailable,  // shutting down or not ready
  kDeadline,     // a wait ended before what it waited for
  kCancelled,    // the client or the engine gave up on it
  kInternal,     // a fault of ours that was contained
};

std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return Status(); }

#define WEFT_STATUS_FACTORY(Name)                                                         \
  template <typename... Args>                                                             \
  static Status Name(fmt::format_string<Args...> format, Args&&... args) {                \
    return Status(StatusCode::k##Name, fmt::format(format, std::forward<Args>(args)...)); \
  }
  WEFT_STATUS_FACTORY(Invalid)
  WEFT_STATUS_FACTORY(NotFound)
  WEFT_STATUS_FACTORY(Unsupported)
  WEFT_STATUS_FACTORY(Exhausted)
  WEFT_STATUS_FACTORY(Unavailable)
  WEFT_STATUS_FACTORY(Deadline)
  WEFT_STATUS_FACTORY(Cancelled)
  WEFT_STATUS_FACTORY(Internal)
#undef WEFT_STATUS_FACTORY

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error, told with its surroundings in front: "model.gguf: tensor 'a': ...".
  Status In(std::string_view where) const {
    return ok() ? *this : Status(code_, fmt::format("{}: {}", where, message_));
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

}  // namespace weft

#define WEFT_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                 \
    if (::weft::Status weft_status_ = (expr); !weft_status_.ok()) return weft_status_; \
  } while (false)
