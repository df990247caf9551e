// Switches of a plan that are no pass of its graph: `--opt` and `weft bench waterfall` know them by
// these names.
#pragma once

#include <span>
#include <string_view>

#include "exec/model_instance.h"

namespace weft::cli {

struct PlanSwitch {
  std::string_view name;
  bool by_default;
  bool between_ranks;  // of no use on one
  void (*set)(exec::ExecConfig& config, bool on);
};

// In the order in which a plan is made.
std::span<const PlanSwitch> PlanSwitches();

}  // namespace weft::cli
