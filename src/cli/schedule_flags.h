// Words about communication schedules, ours and upstream's, as one plan::ScheduleConfig, and what
// to tell about them.
//
// Precedence: --schedule, --flashcomm2-parallel-size and --...-min-token-num, then vLLM's JSON
// options, then environment variables. Upstream's rules are of two kinds: what cannot work is an
// error; what upstream only advises or forbids as a policy is one notice. --ascend-strict makes
// errors of the policies that upstream forbids. Source: vllm-ascend 0.23,
// get_flashcomm2_config_and_validate and its neighbours. Thread: pure functions; the environment is
// read by options.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/upstream_config.h"
#include "graph/passes/pass.h"
#include "plan/schedule.h"

namespace CLI {
class App;
}

namespace weft::cli {

struct ScheduleFlags {
  std::optional<std::string> schedule;  // a name of plan::kSchedules, or auto
  std::optional<int32_t> sp_min_token_num, fc1_min_token_num, fc2_min_token_num,
      gather_min_token_num;
  std::optional<int32_t> flashcomm2_parallel_size;
  bool enable_shared_expert_dp = false;
  bool ascend_strict = false;
  UpstreamWords upstream;
};

void AddScheduleFlags(CLI::App& app, ScheduleFlags* flags);

struct ScheduleChoice {
  plan::ScheduleConfig config;  // with a dense model's thresholds
  plan::ScheduleThresholds
      thresholds;  // those that were named; SetThresholds() fits the rest to a model
  std::map<std::string, graph::Switch, std::less<>>
      switches;  // of passes that upstream's words wish for
  std::optional<bool>
      interleave;  // multistream_overlap_shared_expert: lanes, as --opt interleave_lanes
  std::optional<bool> prefetch_weights;  // weight_prefetch_config: as --opt prefetch_weights
  bool whole_shared_expert = false;      // on every rank
  std::vector<Notice> notices;
};

// `passes`: graph::AllPasses(). Errors: kInvalid naming value, bound and flag.
Result<ScheduleChoice> ChooseSchedule(const ScheduleFlags& flags, int ranks,
                                      std::span<const graph::Pass> passes);

}  // namespace weft::cli
