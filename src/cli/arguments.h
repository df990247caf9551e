// Words on the command line: the spellings that we take, and errors that a person can act on.
// Thread: main's, before anything else runs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class ParseError;
class Validator;
}  // namespace CLI

namespace weft::cli {

// argv as CLI11 likes it: dashes for underscores in flag names, -tp and its kind spelled out, JSON
// options with dots (--compilation-config.pass_config.enable_sp true) as JSON. What follows "--"
// stays as it is.
std::vector<std::string> Normalise(int argc, const char* const* argv);

// The known word that is nearest to an unknown one, or "" if none is near.
std::string Nearest(std::string_view word, std::span<const std::string> known);
std::string NearestFlag(const CLI::App& app, std::string_view unknown);

// One line for stderr: "weft run: --max-tokens 0: must be 1 to 2147483647". `app` is the root.
std::string Explain(const CLI::App& app, const CLI::ParseError& error);
// What is wrong with the first word, which must be a command or one of the root's own flags; or "".
std::string CheckCommand(const CLI::App& app, std::span<const std::string> words);

// Checks of one value; the message has the value and the bound, Explain() adds the flag.
CLI::Validator Between(double low, double high);
CLI::Validator Above(double low, double high);  // (low, high]
CLI::Validator NotEmpty();

}  // namespace weft::cli
