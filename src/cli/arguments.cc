#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>

#include "base/json.h"
#include "cli/upstream_config.h"

namespace weft::cli {
namespace {

// How many letters are wrong, missing, too many, or swapped with their neighbour.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

const CLI::App& Deepest(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : Deepest(*chosen.front());
}

std::string FullName(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : FullName(*app.get_parent()) + " " + app.get_name();
}

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::string DidYouMean(const std::string& near, const std::string& otherwise) {
  return near.empty() ? otherwise : fmt::format("did you mean {}?", near);
}

std::string Unexpected(const CLI::App& app, const std::string& word) {
  if (word.size() > 1 && word.starts_with("-")) {
    return fmt::format("unknown flag {}; {}", word.substr(0, word.find('=')),
                       DidYouMean(NearestFlag(app, word), "--help lists them"));
  }
  const std::vector<std::string> commands = CommandsOf(app);
  if (commands.empty()) {
    return fmt::format("'{}' is one argument too many; a text with spaces needs quotes", word);
  }
  return fmt::format(
      "unknown command '{}'; {}", word,
      DidYouMean(Nearest(word, commands), fmt::format("there are {}", fmt::join(commands, ", "))));
}

// "--port: Value" as CLI11 begins a message.
std::string FlagOf(std::string_view message) {
  return std::string(message.substr(0, message.find(':')));
}

CLI::Validator Number(double low, bool low_is_in, double high) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        double value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc() || end != text.data() + text.size()) {
          return fmt::format("'{}' is no number", text);
        }
        if (value <= high && (low_is_in ? value >= low : value > low)) return "";  // a NaN fails
        return low_is_in ? fmt::format("{} must be {} to {}", text, low, high)
                         : fmt::format("{} must be above {} and at most {}", text, low, high);
      },
      "");
}

// "--compilation-config" of "--compilation_config.pass_config.enable_sp", if that is a JSON option;
// or "".
std::string JsonOptionOf(const std::string& name) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return "";
  std::string base = name.substr(0, dot);
  if (base == "-cc" || base == "-O") return "--compilation-config";
  if (base == "-sc") return "--speculative-config";
  if (!base.starts_with("--")) return "";
  std::replace(base.begin() + 2, base.end(), '_', '-');
  const auto known = JsonOptions();
  return std::find(known.begin(), known.end(), base) == known.end() ? "" : base;
}

// The value as JSON if it is any, Python's True and False too, else as a string; with '+' behind
// the keys a list, cut at commas.
Json DottedValue(std::string_view text, bool list) {
  if (list) {
    Json out(Json::Array{});
    for (size_t i = 0; i <= text.size();) {
      const size_t end = std::min(text.find(',', i), text.size());
      out.Push(Json(text.substr(i, end - i)));
      i = end + 1;
    }
    return out;
  }
  if (text == "True" || text == "False") return Json(text == "True");
  Result<Json> json = ParseJson(text);
  return json.ok() ? std::move(json).value() : Json(text);
}

// {"a":{"b":value}} of ".a.b".
Json Nested(std::string_view keys, Json value) {
  while (!keys.empty()) {
    const size_t dot = keys.rfind('.');
    Json outer;
    outer.Set(keys.substr(dot + 1), std::move(value));
    value = std::move(outer);
    keys = keys.substr(0, dot);
  }
  return value;
}

}  // namespace

std::vector<std::string> Normalise(int argc, const char* const* argv) {
  // Short flags of vLLM that have more than one letter.
  const std::map<std::string, std::string> short_flags = {
      {"-tp", "--tensor-parallel-size"},  {"-tp-size", "--tensor-parallel-size"},
      {"--tp", "--tensor-parallel-size"}, {"-cc", "--compilation-config"},
      {"-sc", "--speculative-config"},    {"-ep", "--enable-expert-parallel"}};
  std::vector<std::string> out;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--") {
      for (; i < argc; ++i) out.emplace_back(argv[i]);
      break;
    }
    const size_t equals = arg.find('=');
    std::string name = arg.substr(0, equals);
    if (const std::string option = JsonOptionOf(name); !option.empty()) {
      out.push_back(option);
      std::string_view keys = std::string_view(name).substr(name.find('.'));
      const bool list = keys.ends_with('+');
      if (list) keys.remove_suffix(1);
      // Without a value the option stands alone, which is an error of its own.
      if (equals == std::string::npos && i + 1 == argc) continue;
      const std::string value = equals == std::string::npos ? argv[++i] : arg.substr(equals + 1);
      out.push_back(DumpJson(Nested(keys, DottedValue(value, list))));
      continue;
    }
    if (const auto known = short_flags.find(name); known != short_flags.end()) name = known->second;
    // A text that only begins like a flag ("--- a_b") is a value.
    if (name.starts_with("--") && name.find(' ') == std::string::npos) {
      std::replace(name.begin() + 2, name.end(), '_', '-');
    }
    out.push_back(equals == std::string::npos ? name : name + arg.substr(equals));
  }
  return out;
}

std::string Nearest(std::string_view word, std::span<const std::string> known) {
  std::string best;
  // Further away than half of its letters, nothing is a misspelling any more.
  size_t least = word.substr(std::min(word.find_first_not_of('-'), word.size())).size() / 2 + 1;
  for (const std::string& name : known) {
    if (const size_t d = Distance(word, name); d < least) least = d, best = name;
  }
  return best;
}

std::string NearestFlag(const CLI::App& app, std::string_view unknown) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  return Nearest(unknown.substr(0, unknown.find('=')), known);
}

std::string CheckCommand(const CLI::App& app, std::span<const std::string> words) {
  if (words.empty()) return "";
  const std::vector<std::string> commands = CommandsOf(app);
  const std::string& first = words.front();
  if (std::find(commands.begin(), commands.end(), first) != commands.end()) return "";
  for (const CLI::Option* option : app.get_options()) {
    if (option->check_name(first)) return "";
  }
  if (!first.starts_with("-")) return "weft: " + Unexpected(app, first);
  return fmt::format(
      "weft: {} stands before the command; say weft COMMAND {}, with a COMMAND of {}", first, first,
      fmt::join(commands, ", "));
}

std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& at = Deepest(app);
  const std::string who = FullName(at), what = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    for (const std::string& word : at.remaining(true))
      return fmt::format("{}: {}", who, Unexpected(at, word));
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const std::vector<std::string> commands = CommandsOf(at);
    const std::vector<std::string> rest = at.remaining(true);
    if (!rest.empty()) return fmt::format("{}: {}", who, Unexpected(at, rest.front()));
    return fmt::format("{}: a command is missing; there are {}", who, fmt::join(commands, ", "));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return fmt::format("{}: {} needs one value", who, FlagOf(what));
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    // "Could not convert: --top-k = x"
    const std::string_view text = what;
    const size_t flag = text.find("--"), equals = text.find(" = ");
    if (flag != std::string_view::npos && equals != std::string_view::npos && flag < equals) {
      return fmt::format("{}: {} '{}' is no number that it could take", who,
                         text.substr(flag, equals - flag), text.substr(equals + 3));
    }
  }
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) {
    const size_t colon = what.find(": ");
    if (colon != std::string::npos) {
      return fmt::format("{}: {} {}", who, what.substr(0, colon), what.substr(colon + 2));
    }
  }
  return fmt::format("{}: {}", who, what);
}

CLI::Validator Between(double low, double high) { return Number(low, true, high); }
CLI::Validator Above(double low, double high) { return Number(low, false, high); }
CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](std::string& text) { return text.empty() ? std::string("is empty") : std::string(); }, "");
}

}  // namespace weft::cli
