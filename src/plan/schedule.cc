#include "plan/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace weft::plan {

using graph::Switch;

namespace {

bool HasFc2(Schedule s) { return s == Schedule::kFc2 || s == Schedule::kFc1Fc2; }

struct Threshold {
  int32_t rows;
  std::string_view flag;
};

Threshold ThresholdOf(const ScheduleConfig& c, Schedule s) {
  switch (s) {
    case Schedule::kPlain: return {1, ""};
    case Schedule::kSp: return {c.sp_min_tokens, "--sp-min-token-num"};
    case Schedule::kFc1: return {c.fc1_min_tokens, "--fc1-min-token-num"};
    case Schedule::kFc2: return {c.fc2_min_tokens, "--fc2-min-token-num"};
    // Its parts have thresholds of their own: ScheduleFor.
    case Schedule::kFc1Fc2: return {std::min(c.fc1_min_tokens, c.fc2_min_tokens), ""};
    case Schedule::kGather: return {c.gather_min_tokens, "--gather-min-token-num"};
  }
  return {1, ""};
}

}  // namespace

std::string_view NameOf(Schedule schedule) {
  switch (schedule) {
    case Schedule::kPlain: return "plain";
    case Schedule::kSp: return "sp";
    case Schedule::kFc1: return "fc1";
    case Schedule::kFc2: return "fc2";
    case Schedule::kFc1Fc2: return "fc1+fc2";
    case Schedule::kGather: return "gather";
  }
  return "unknown";
}

std::optional<Schedule> ScheduleNamed(std::string_view name) {
  for (Schedule s : kSchedules) {
    if (NameOf(s) == name) return s;
  }
  return std::nullopt;
}

std::vector<int32_t> LadderCuts(const ScheduleConfig& config) {
  std::vector<int32_t> cuts;
  for (Schedule s : kSchedules) {
    const bool part =
        config.schedule == Schedule::kFc1Fc2 && (s == Schedule::kFc1 || s == Schedule::kFc2);
    if (config.automatic) continue;  // it compares costs, and costs have no thresholds
    if (s == config.schedule || part) cuts.push_back(ThresholdOf(config, s).rows);
  }
  return cuts;
}

std::string Describe(const ScheduleConfig& config) {
  if (config.automatic) return "auto";
  std::string out(NameOf(config.schedule));
  if (HasFc2(config.schedule)) out += fmt::format(" otp={}", config.otp);
  if (HasFc2(config.schedule) && config.shard_o_proj) out += " layer_sharding";
  return out;
}

void SetThresholds(const ScheduleThresholds& named, bool experts, ScheduleConfig* config) {
  const ScheduleConfig dense;
  config->sp_min_tokens = named.sp.value_or(experts ? 1 : dense.sp_min_tokens);
  config->fc1_min_tokens = named.fc1.value_or(experts ? 1 : dense.fc1_min_tokens);
  config->fc2_min_tokens = named.fc2.value_or(dense.fc2_min_tokens);
  config->gather_min_tokens = named.gather.value_or(dense.gather_min_tokens);
}

Status CheckSchedule(const ScheduleConfig& config, int ranks) {
  if (!HasFc2(config.schedule) && !(config.automatic && config.otp != 1)) return Status::Ok();
  if (config.otp < 1 || config.otp >= ranks || ranks % config.otp != 0) {
    return Status::Invalid(
        "flashcomm2_parallel_size {} must be a divisor of --tensor-parallel-size {} and less than "
        "it "
        "(attention's output weight is cut over that many ranks; all of them is plain tensor "
        "parallelism)",
        config.otp, ranks);
  }
  return Status::Ok();
}

namespace {

// Mesh and switches of a schedule that applies.
BucketSchedule RowOf(Schedule schedule, int ranks, int otp) {
  BucketSchedule out;
  out.schedule = schedule;
  out.mesh = graph::Mesh::Tp(ranks);
  const bool both = schedule == Schedule::kFc1Fc2, fc1 = both || schedule == Schedule::kFc1;
  if (HasFc2(schedule)) {
    out.mesh = graph::Mesh{{{"otp", otp}, {"odp", ranks / otp}}};
    out.switches["regroup_o_proj"] = Switch::kOn;
  }
  if (fc1 || schedule == Schedule::kSp) out.switches["sequence_parallel"] = Switch::kOn;
  if (fc1) out.switches["defer_gather"] = Switch::kOn;
  if (schedule == Schedule::kGather) out.switches["gather_columns"] = Switch::kOn;
  return out;
}

}  // namespace

std::vector<BucketSchedule> CandidatesFor(int ranks) {
  std::vector<BucketSchedule> out{RowOf(Schedule::kPlain, ranks, 1)};
  if (ranks == 1) return out;
  for (Schedule s : {Schedule::kSp, Schedule::kFc1, Schedule::kGather})
    out.push_back(RowOf(s, ranks, 1));
  for (int otp = 1; otp < ranks; ++otp) {
    if (ranks % otp != 0) continue;
    for (Schedule s : {Schedule::kFc2, Schedule::kFc1Fc2}) out.push_back(RowOf(s, ranks, otp));
  }
  return out;
}

BucketSchedule ScheduleFor(const ScheduleConfig& config, int ranks, const Bucket& bucket) {
  BucketSchedule out;
  out.mesh = graph::Mesh::Tp(ranks);
  if (config.schedule == Schedule::kPlain) return out;
  if (ranks == 1) {
    out.reason = "one rank: nothing crosses";
    return out;
  }
  const auto reaches = [&](Schedule s) { return bucket.rows_min >= ThresholdOf(config, s).rows; };
  Schedule wanted = config.schedule;
  if (wanted == Schedule::kFc1Fc2) {
    const bool fc1 = reaches(Schedule::kFc1), fc2 = reaches(Schedule::kFc2);
    if (!fc1 || !fc2) wanted = fc1 ? Schedule::kFc1 : Schedule::kFc2;
  }
  if (const Threshold least = ThresholdOf(config, wanted); bucket.rows_min < least.rows) {
    out.reason = fmt::format("rows {} < {} ({})", bucket.rows_max, least.rows, least.flag);
    return out;
  }
  if (wanted != config.schedule) {
    const Schedule left = wanted == Schedule::kFc1 ? Schedule::kFc2 : Schedule::kFc1;
    const Threshold least = ThresholdOf(config, left);
    out.reason = fmt::format("without {}: rows {} < {} ({})", NameOf(left), bucket.rows_max,
                             least.rows, least.flag);
  }
  BucketSchedule row = RowOf(wanted, ranks, config.otp);
  if (HasFc2(wanted) && config.shard_o_proj) row.switches["shard_layers"] = Switch::kOn;
  row.reason = std::move(out.reason);
  return row;
}

}  // namespace weft::plan
