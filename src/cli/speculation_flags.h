// Words about speculation, vLLM's, as one engine::SpeculationConfig. Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/upstream_config.h"
#include "engine/speculation/speculation.h"

namespace CLI {
class App;
}

namespace weft::cli {

struct SpeculationFlags {
  std::vector<std::string>
      config;  // --speculative-config, each a JSON object; the later goes over the earlier
  std::optional<std::string> method;  // --spec-method, over the object's key; likewise the next
  std::optional<int> tokens;          // --spec-tokens
};

void AddSpeculationFlags(CLI::App& app, SpeculationFlags* flags);

struct SpeculationChoice {
  engine::SpeculationConfig config;
  std::vector<Notice> notices;
};

// Errors: kInvalid naming the key, its value and what it takes; kUnsupported for a method of vLLM's
// that weft has not.
Result<SpeculationChoice> ChooseSpeculation(const SpeculationFlags& flags);

}  // namespace weft::cli
