// One line for a person or an operator. The sink is handed down by main(); no room logs on its own.
// Thread: a sink may be called from any thread.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace weft {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Write(LogLevel level, std::string_view line) = 0;

  template <typename... Args>
  void Debug(fmt::format_string<Args...> f, Args&&... args) {
    Write(LogLevel::kDebug, fmt::format(f, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void Info(fmt::format_string<Args...> f, Args&&... args) {
    Write(LogLevel::kInfo, fmt::format(f, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void Warning(fmt::format_string<Args...> f, Args&&... args) {
    Write(LogLevel::kWarning, fmt::format(f, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void Error(fmt::format_string<Args...> f, Args&&... args) {
    Write(LogLevel::kError, fmt::format(f, std::forward<Args>(args)...));
  }
};

// Discards everything; for tests and for library users who want no log.
class NullLog final : public LogSink {
 public:
  void Write(LogLevel, std::string_view) override {}
};

}  // namespace weft
