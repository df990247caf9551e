// WEFT_CHECK: always on, for what only we can do wrong. It prints the expression, the place and a
// message, and aborts. Anything that a file, a flag or a client can cause is a Status instead.
#pragma once

#include <fmt/core.h>

#include <string>

namespace weft {

[[noreturn]] void CheckFailed(const char* file, int line, const char* expression,
                              const std::string& message);

}  // namespace weft

#define WEFT_CHECK(condition, ...)                                                     \
  do {                                                                                 \
    if (!(condition)) [[unlikely]]                                                     \
      ::weft::CheckFailed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)

#ifdef NDEBUG
#define WEFT_DCHECK(condition, ...) \
  do {                              \
  } while (false && (condition))
#else
#define WEFT_DCHECK(condition, ...) WEFT_CHECK(condition, __VA_ARGS__)
#endif
