// Chat templates: the part of Jinja that model files use, run over a request's messages.
// The environment is the one that templates are written for: trim_blocks, lstrip_blocks, lenient
// undefined values, tojson as Python's json.dumps(ensure_ascii=False), break and continue,
// generation tags, raise_exception() and strftime_now().
// A template is a program from a file that nobody here has read, so it runs within limits and can
// reach data only: no import, no attribute beyond members and the listed methods, no I/O.
// Thread: immutable after Parse(); Render() may run on many threads at once.
// Errors: kInvalid or kUnsupported with the line from Parse(); from Render() kInvalid for what the
// template refuses or gets wrong, kExhausted for an exceeded limit.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace weft::text {

struct TemplateLimits {
  int64_t steps_max = 1'000'000;
  size_t output_bytes_max = 8 << 20;
  int depth_max = 64;
  int64_t range_max = 100'000;
};

struct RenderOptions {
  TemplateLimits limits;
  std::optional<std::tm> now;  // what strftime_now() formats; without it that is undefined
};

class ChatTemplate {
 public:
  static constexpr size_t kSourceBytesMax = 1 << 20;

  // Reads the template and renders short conversations with it.  A template that exceeds a limit
  // there is refused; one that raises or finds a value missing is kept, since the conversation is
  // not the one that it was made for.
  static Result<ChatTemplate> Parse(std::string_view source, const TemplateLimits& limits = {});

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `context`: an object with messages, tools, add_generation_prompt, bos_token, ..; strings in it
  // are valid UTF-8.
  Result<std::string> Render(const Json& context, const RenderOptions& options = {}) const;

  // Whether the template mentions this name, as "enable_thinking" or "tools".
  bool Uses(std::string_view name) const;
  // The names that it mentions: an allow-list for template arguments of requests.
  const std::vector<std::string>& names() const;

 private:
  struct Tree;
  explicit ChatTemplate(std::unique_ptr<const Tree> tree);

  std::unique_ptr<const Tree> tree_;
};

}  // namespace weft::text
