// Communication schedules: which rewrites the plan of a bucket gets, and on which mesh. A schedule
// is no mode of the engine: it is a row of the table in docs/architecture.md, a name for a few
// switches.
//
//   plain     all-reduce on both row-parallel outputs
//   sp        reduce-scatter, residual and norms on the rank's token rows, gather right after the norm
//   fc1       sp, and the gather sinks to where its bytes are least (FlashComm1)
//   fc2       o_proj regrouped on the mesh tp = otp x odp: an all-to-all before it (FlashComm2)
//   fc1+fc2   both
//   gather    weights cut by outputs, activations gathered, nothing reduced
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/passes/pass.h"
#include "plan/bucket.h"

namespace weft::plan {

enum class Schedule : uint8_t { kPlain, kSp, kFc1, kFc2, kFc1Fc2, kGather };
inline constexpr Schedule kSchedules[] = {Schedule::kPlain, Schedule::kSp,     Schedule::kFc1,
                                          Schedule::kFc2,   Schedule::kFc1Fc2, Schedule::kGather};

std::string_view NameOf(Schedule schedule);  // "fc1+fc2"
std::optional<Schedule> ScheduleNamed(std::string_view name);

// What the deployment asked for.
struct ScheduleConfig {
  Schedule schedule = Schedule::kPlain;
  bool automatic = false;  // the cheapest of those that the laws allow, for each bucket
  int otp = 1;             // flashcomm2_parallel_size: |otp|, a divisor of the ranks and below them
  // A bucket gets the rewrite if all of its row counts reach the threshold; the ladder is cut
  // there. Upstream's defaults for dense models: SP from 1000 rows on (>=), FlashComm1 above 1000
  // (>).
  int32_t sp_min_tokens = 1000;
  int32_t fc1_min_tokens = 1001;
  int32_t fc2_min_tokens = 1;
  int32_t gather_min_tokens = 1;
  bool shard_o_proj = false;  // layer_sharding ["o_proj"]: o_proj of a layer lives on one rank
  friend bool operator==(const ScheduleConfig&, const ScheduleConfig&) = default;
};

// "plain", "fc1+fc2 otp=2", "auto": for logs and reports.
std::string Describe(const ScheduleConfig& config);

// Least rows that the user named; those that he left open follow the model.
struct ScheduleThresholds {
  std::optional<int32_t> sp, fc1, fc2, gather;
};
// Upstream's defaults where nothing is named: a dense model takes SP from 1000 rows on and
// FlashComm1 above 1000, a model with experts takes both from its first row on (vllm-ascend 0.23).
// FlashComm2 and gather have no threshold upstream.
void SetThresholds(const ScheduleThresholds& named, bool experts, ScheduleConfig* config);

// What one bucket gets.
struct BucketSchedule {
  Schedule schedule = Schedule::kPlain;
  std::string reason;  // why it is not what was asked for, "" if it is
  graph::Mesh mesh;
  std::map<std::string, graph::Switch, std::less<>> switches;  // of the schedule's passes
};

// What `auto` compares for a bucket: every schedule at every divisor, whatever the thresholds,
// plain first.
std::vector<BucketSchedule> CandidatesFor(int ranks);

// Row counts at which the ladder of bodies is cut so that no bucket lies on both sides of a
// threshold.
std::vector<int32_t> LadderCuts(const ScheduleConfig& config);

// Errors: kInvalid naming value, bound and flag: an otp that does not divide the ranks or reaches
// them. `automatic` looks at otp too, except at 1, which every number of ranks has.
Status CheckSchedule(const ScheduleConfig& config, int ranks);
// REQUIRES: CheckSchedule(config, ranks) is ok.
BucketSchedule ScheduleFor(const ScheduleConfig& config, int ranks, const Bucket& bucket);

}  // namespace weft::plan
