#include "cli/plan_switches.h"

namespace weft::cli {
namespace {

void ChainSteps(exec::ExecConfig& config, bool on) {
  config.each_rows_max = on ? exec::ExecConfig{}.each_rows_max : 0;
}
void InterleaveLanes(exec::ExecConfig& config, bool on) { config.compile.interleave = on; }
void PostExchanges(exec::ExecConfig& config, bool on) { config.compile.post_exchanges = on; }
void PrefetchWeights(exec::ExecConfig& config, bool on) { config.compile.prefetch_weights = on; }

constexpr PlanSwitch kSwitches[] = {
    {"chain_steps", true, false, ChainSteps},
    {"interleave_lanes", true, false, InterleaveLanes},
    {"post_exchanges", true, true, PostExchanges},
    {"prefetch_weights", false, false, PrefetchWeights},
};

}  // namespace

std::span<const PlanSwitch> PlanSwitches() { return kSwitches; }

}  // namespace weft::cli
