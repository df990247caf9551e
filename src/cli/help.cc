#include "cli/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace weft::cli {
namespace {

constexpr size_t kFlagColumn = 36;
constexpr size_t kLineWidth = 100;

// Words in lines of at most kLineWidth, all but the first behind the flags' column.
std::string Wrapped(const std::string& text) {
  std::string out;
  size_t used = 0;
  for (const std::string& word : CLI::detail::split(text, ' ')) {
    if (used > 0 && used + 1 + word.size() > kLineWidth - kFlagColumn) {
      out += "\n" + std::string(kFlagColumn, ' ');
      used = 0;
    } else if (used > 0) {
      out += " ";
      ++used;
    }
    out += word;
    used += word.size();
  }
  return out;
}

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string) const override {
    std::string name;
    for (const CLI::App* a = app; a != nullptr; a = a->get_parent()) {
      name = a->get_name() + (name.empty() ? "" : " ") + name;
    }
    const bool commands = !app->get_subcommands([](const CLI::App*) { return true; }).empty();
    const bool model =
        !app->get_options([](const CLI::Option* o) { return o->get_positional(); }).empty();
    return fmt::format("\nusage: {}{}\n", name,
                       commands ? " COMMAND [flags]"
                       : model  ? " [MODEL] [flags]"
                                : " [flags]");
  }
  // MODEL is the flag --model too and is told there.
  std::string make_positionals(const CLI::App*) const override { return ""; }
  std::string make_description(const CLI::App* app) const override {
    return app->get_description() + "\n";
  }
  std::string make_option(const CLI::Option* option, bool) const override {
    std::string flag = "  " + Name(option);
    if (option->get_type_size() != 0 && !option->get_type_name().empty()) {
      flag += " " + option->get_type_name();
    }
    std::string text = option->get_description();
    const std::string& normal = option->get_default_str();
    if (!normal.empty() && option->get_type_size() != 0) text += fmt::format(" [{}]", normal);
    const bool fits = flag.size() + 2 <= kFlagColumn;
    return fmt::format("{:<{}}{}\n", fits ? flag : flag + "\n" + std::string(kFlagColumn, ' '),
                       fits ? kFlagColumn : 0, Wrapped(text));
  }
  std::string make_group(std::string group, bool,
                         std::vector<const CLI::Option*> options) const override {
    std::string out = "\n" + get_label(group) + ":\n";
    for (const CLI::Option* option : options) out += make_option(option, false);
    return out;
  }
  // Without the empty lines that CLI11 puts between groups on top of ours.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    for (size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
    return text;
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    return fmt::format("  {:<10}{}\n", sub->get_name(), sub->get_description());
  }

 private:
  // --[no-]x for a switch that can be turned both ways; else the names, short ones first.
  static std::string Name(const CLI::Option* option) {
    const auto& names = option->get_lnames();
    if (names.size() == 2 && names[1] == "no-" + names[0]) return "--[no-]" + names[0];
    std::string out;
    for (const std::string& name : option->get_snames()) out += (out.empty() ? "-" : ", -") + name;
    for (const std::string& name : names) out += (out.empty() ? "--" : ", --") + name;
    return out;
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter() {
  auto formatter = std::make_shared<HelpFormatter>();
  formatter->label("Options", "General");
  return formatter;
}

}  // namespace weft::cli
