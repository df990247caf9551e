// Server-sent events, as OpenAI's streams use them: one "data:" line per event.
#pragma once

#include <string>
#include <string_view>

namespace weft::serve {

// REQUIRES: data has no line break (JSON on one line has none).
std::string SseEvent(std::string_view data);

inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
// A comment: clients skip it, proxies see life.
inline constexpr std::string_view kSsePing = ": ping\n\n";
inline constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";

}  // namespace weft::serve
