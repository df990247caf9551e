// libFuzzer: any bytes as a chat template. It is refused, or it ends within its limits, twice
// alike.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using weft::Json;
  const weft::text::TemplateLimits limits{.steps_max = 20'000, .output_bytes_max = 1 << 16};
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto made = weft::text::ChatTemplate::Parse(source, limits);
  if (!made.ok()) return 0;
  const auto context = weft::ParseJson(
      R"({"messages":[{"role":"user","content":"Hi é"},{"role":"assistant","content":null,)"
      R"("tool_calls":[{"name":"f","arguments":{"a":[1,2.5,"x"]}}]}],"tools":[{"name":"f"}],)"
      R"("l":[3,1,2],"s":"text","n":7,"add_generation_prompt":true})");
  const weft::text::RenderOptions options{.limits = limits, .now = std::tm{}};
  const auto first = made->Render(*context, options);
  const auto second = made->Render(*context, options);
  if (first.ok() != second.ok()) std::abort();
  if (first.ok() && (*first != *second || first->size() > limits.output_bytes_max)) std::abort();
  return 0;
}
