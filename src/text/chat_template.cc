#include "text/chat_template.h"

#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"
#include "text/utf8.h"

namespace weft::text {
namespace {

Json Message(const char* role, const char* content) {
  return Json(Json::Object{{"role", role}, {"content", content}});
}

Json DryRunContext(Json::Array messages) {
  return Json(Json::Object{{"messages", std::move(messages)},
                           {"add_generation_prompt", true},
                           {"bos_token", "<s>"},
                           {"eos_token", "</s>"}});
}

}  // namespace

struct ChatTemplate::Tree {
  jinja::Template body;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Tree> tree) : tree_(std::move(tree)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source, const TemplateLimits& limits) {
  if (source.size() > kSourceBytesMax) {
    return Status::Invalid("a chat template of {} bytes; at most {} are possible", source.size(),
                           kSourceBytesMax);
  }
  if (!IsValidUtf8(source)) return Status::Invalid("the chat template is no valid UTF-8");
  WEFT_ASSIGN_OR_RETURN(std::vector<jinja::Token> tokens, jinja::Tokenize(source));
  auto tree = std::make_unique<Tree>();
  WEFT_ASSIGN_OR_RETURN(tree->body, jinja::ParseTemplate(std::move(tokens), limits.depth_max));
  ChatTemplate made(std::move(tree));
  const Json::Array user{Message("user", "Hi")};
  const Json::Array talk{Message("system", "Be brief."), Message("user", "Hi"),
                         Message("assistant", "Hello"), Message("user", "Bye")};
  for (const Json::Array& messages : {user, talk}) {
    const auto rendered =
        made.Render(DryRunContext(messages), {.limits = limits, .now = std::tm{}});
    if (!rendered.ok() && rendered.status().code() == StatusCode::kExhausted) {
      return rendered.status().In("a first rendering of the chat template");
    }
  }
  return made;
}

Result<std::string> ChatTemplate::Render(const Json& context, const RenderOptions& options) const {
  const jinja::Limits limits{.steps_max = options.limits.steps_max,
                             .output_bytes_max = options.limits.output_bytes_max,
                             .depth_max = options.limits.depth_max,
                             .range_max = options.limits.range_max};
  return jinja::Interpreter(tree_->body, limits, options.now).Run(context);
}

bool ChatTemplate::Uses(std::string_view name) const {
  return std::find(names().begin(), names().end(), name) != names().end();
}

const std::vector<std::string>& ChatTemplate::names() const { return tree_->body.names; }

}  // namespace weft::text
