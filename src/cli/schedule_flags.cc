#include "cli/schedule_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/arguments.h"

namespace weft::cli {

using plan::Schedule;

namespace {

constexpr std::string_view kFusePass = "fuse_matmul_all_reduce_norm";

bool HasFc2(Schedule s) { return s == Schedule::kFc2 || s == Schedule::kFc1Fc2; }
bool HasFc1(Schedule s) { return s == Schedule::kFc1 || s == Schedule::kFc1Fc2; }

// Whether nothing of `part` is missing in `whole`.
bool Contains(Schedule whole, Schedule part) {
  if (part == Schedule::kSp) return whole == Schedule::kSp || HasFc1(whole);
  return (!HasFc1(part) || HasFc1(whole)) && (!HasFc2(part) || HasFc2(whole));
}

// One choice in the making: what was asked, by whom, and what is told.
class Chooser {
 public:
  Chooser(const ScheduleFlags& flags, UpstreamConfig upstream, int ranks)
      : flags_(flags), upstream_(std::move(upstream)), ranks_(ranks) {
    choice_.notices = std::move(upstream_.notices);
  }

  Result<ScheduleChoice> Choose(std::span<const graph::Pass> passes) {
    WEFT_RETURN_IF_ERROR(ChooseName());
    WEFT_RETURN_IF_ERROR(ChooseSize());
    WEFT_RETURN_IF_ERROR(CheckFlashComm2());
    WEFT_RETURN_IF_ERROR(CheckLayerSharding());
    WEFT_RETURN_IF_ERROR(CheckRanks());
    ChooseThresholds();
    WishFusion(passes);
    const bool upstream_dp = upstream_.shared_expert_dp && upstream_.shared_expert_dp->value;
    choice_.whole_shared_expert = flags_.enable_shared_expert_dp || upstream_dp;
    if (upstream_.overlap_shared_expert)
      choice_.interleave = upstream_.overlap_shared_expert->value;
    if (upstream_.prefetch_weights) choice_.prefetch_weights = upstream_.prefetch_weights->value;
    return std::move(choice_);
  }

 private:
  plan::ScheduleConfig& config() { return choice_.config; }
  void Tell(LogLevel level, std::string text) {
    choice_.notices.push_back({level, std::move(text)});
  }
  // What upstream refuses and we do not.
  Status Policy(std::string text) {
    if (flags_.ascend_strict) return Status::Invalid("--ascend-strict: {}", text);
    Tell(LogLevel::kWarning, std::move(text));
    return Status::Ok();
  }

  // The schedule that upstream's words make up, and whose words they were.
  Schedule Upstream(std::vector<std::string>* by) const {
    const bool asked = upstream_.flashcomm1 && upstream_.flashcomm1->value;
    // Upstream's shared-expert DP turns FlashComm1 on: on own rows alone it spares something.
    const bool dp = upstream_.shared_expert_dp && upstream_.shared_expert_dp->value,
               fc1 = asked || dp;
    const bool fc2 =
        upstream_.flashcomm2_parallel_size && upstream_.flashcomm2_parallel_size->value > 0;
    const bool sp = upstream_.sequence_parallel && upstream_.sequence_parallel->value;
    if (fc1) by->push_back(asked ? upstream_.flashcomm1->by : upstream_.shared_expert_dp->by);
    if (fc2) by->push_back(upstream_.flashcomm2_parallel_size->by);
    if (sp && !fc1 && !fc2) by->push_back(upstream_.sequence_parallel->by);
    return fc1 && fc2 ? Schedule::kFc1Fc2
           : fc1      ? Schedule::kFc1
           : fc2      ? Schedule::kFc2
           : sp       ? Schedule::kSp
                      : Schedule::kPlain;
  }

  Status ChooseName() {
    if (!flags_.schedule) {
      TakeOwnSize();
      std::vector<std::string> by;
      config().schedule = Upstream(&by);
      TellSp();
      return Status::Ok();
    }
    const std::string& name = *flags_.schedule;
    const std::optional<Schedule> named = plan::ScheduleNamed(name);
    if (!named && name != "auto") {
      std::vector<std::string> names;
      for (Schedule s : plan::kSchedules) names.emplace_back(NameOf(s));
      names.emplace_back("auto");
      const std::string near = Nearest(name, names);
      return Status::Invalid("--schedule '{}': {}there are {}", name,
                             near.empty() ? "" : fmt::format("did you mean {}? ", near),
                             fmt::join(names, ", "));
    }
    config().automatic = !named;
    config().schedule = named.value_or(Schedule::kPlain);
    if (named && flags_.flashcomm2_parallel_size &&
        (*flags_.flashcomm2_parallel_size > 0) != HasFc2(*named)) {
      return Status::Invalid("--flashcomm2-parallel-size {} contradicts --schedule {}; {}",
                             *flags_.flashcomm2_parallel_size, name,
                             HasFc2(*named) ? "it is 1 or more where FlashComm2 is on"
                                            : "only fc2, fc1+fc2 and auto have a size");
    }
    std::vector<std::string> by;
    const Schedule wished = Upstream(&by);
    if (named ? !Contains(*named, wished) : wished != Schedule::kPlain) {
      Tell(LogLevel::kWarning, fmt::format("--schedule {} goes over {}, which would be {}", name,
                                           fmt::join(by, " and "), NameOf(wished)));
    }
    TakeOwnSize();
    return Status::Ok();
  }

  void TakeOwnSize() {
    auto& size = upstream_.flashcomm2_parallel_size;
    if (!flags_.flashcomm2_parallel_size) return;
    if (size && size->value != *flags_.flashcomm2_parallel_size) {
      Tell(LogLevel::kInfo, fmt::format("{} gives way to --flashcomm2-parallel-size", size->by));
    }
    size = {*flags_.flashcomm2_parallel_size, "--flashcomm2-parallel-size"};
  }

  // enable_sp beside a FlashComm.
  void TellSp() {
    if (!upstream_.sequence_parallel || !upstream_.sequence_parallel->value) return;
    if (config().schedule == Schedule::kFc2) {
      Tell(LogLevel::kWarning,
           fmt::format("{}: without effect beside FlashComm2 alone; with enable_flashcomm1 "
                       "(--schedule fc1+fc2) the norms are on a rank's own rows too",
                       upstream_.sequence_parallel->by));
    } else if (HasFc1(config().schedule)) {
      Tell(LogLevel::kInfo,
           fmt::format("{}: FlashComm1 contains it", upstream_.sequence_parallel->by));
    }
  }

  Status ChooseSize() {
    const auto& size = upstream_.flashcomm2_parallel_size;
    const bool named = size && size->value > 0;
    if (!config().automatic && !HasFc2(config().schedule)) return Status::Ok();
    config().otp = named ? size->value : 1;
    return plan::CheckSchedule(config(), ranks_)
        .In(named ? size->by : fmt::format("--schedule {}", *flags_.schedule));
  }

  Status CheckFlashComm2() {
    const auto& oproj = upstream_.oproj_tensor_parallel_size;
    if (!HasFc2(config().schedule)) {
      if (oproj && oproj->value > 0) {
        Tell(LogLevel::kWarning,
             fmt::format(
                 "{} {}: without effect: it cuts o_proj over data-parallel ranks, of which there "
                 "are none; FlashComm2 (--schedule fc2) cuts it over otp of the {} ranks",
                 oproj->by, oproj->value, ranks_));
      }
      return Status::Ok();
    }
    if (oproj && oproj->value > 0) {
      return Status::Invalid(
          "{} {} and FlashComm2 exclude each other: both regroup o_proj; set it to 0 or take "
          "FlashComm2 off",
          oproj->by, oproj->value);
    }
    if (upstream_.kv_role == "kv_consumer" || upstream_.kv_role == "kv_both") {
      WEFT_RETURN_IF_ERROR(
          Policy(fmt::format("FlashComm2 with kv_role {}: upstream refuses it on nodes that "
                             "decode; --fc2-min-token-num keeps it from small steps",
                             upstream_.kv_role)));
    }
    // Who chose the schedule by our name knows; the rest is upstream's advice.
    if (flags_.schedule && !flags_.ascend_strict) return Status::Ok();
    if (!HasFc1(config().schedule)) {
      Tell(LogLevel::kWarning,
           "FlashComm2 without FlashComm1: what o_proj has scattered is gathered at once; upstream "
           "recommends both (enable_flashcomm1, or --schedule fc1+fc2)");
    }
    if (!upstream_.kv_transfer) {
      Tell(LogLevel::kWarning,
           "FlashComm2 without --kv-transfer-config: upstream means it for prefill nodes; "
           "--fc2-min-token-num keeps it from small steps");
    }
    return Status::Ok();
  }

  Status CheckLayerSharding() {
    const std::vector<std::string>& names = upstream_.layer_sharding;
    if (names.empty()) return Status::Ok();
    const std::string where =
        fmt::format("--additional-config layer_sharding [{}]", fmt::join(names, ", "));
    const bool o_proj = names.size() == 1 && names[0] == "o_proj";
    if (HasFc2(config().schedule) && !o_proj) {
      return Status::Invalid("{}: with FlashComm2 it must be exactly [\"o_proj\"]", where);
    }
    if (!o_proj || !(HasFc2(config().schedule) || config().automatic)) {
      Tell(
          LogLevel::kWarning,
          fmt::format("{}: without effect: only o_proj with FlashComm2 is kept on one rank a layer",
                      where));
      return Status::Ok();
    }
    if (upstream_.kv_role != "kv_producer") {
      WEFT_RETURN_IF_ERROR(Policy(fmt::format(
          "{}: upstream wants a --kv-transfer-config with kv_role kv_producer, found {}", where,
          upstream_.kv_transfer ? fmt::format("'{}'", upstream_.kv_role) : "none")));
    }
    config().shard_o_proj = true;
    return Status::Ok();
  }

  // One rank: FlashComm2 has been refused (its size reaches the ranks); the others have nothing to
  // do.
  Status CheckRanks() {
    const Schedule asked = config().schedule;
    if (ranks_ > 1 || asked == Schedule::kPlain) return Status::Ok();
    if (flags_.ascend_strict && HasFc1(asked)) {
      return Status::Invalid(
          "--ascend-strict: FlashComm1 with --tensor-parallel-size 1: upstream wants more than one "
          "rank");
    }
    Tell(LogLevel::kInfo,
         fmt::format("schedule {}: --tensor-parallel-size 1: one rank has nothing to exchange",
                     NameOf(asked)));
    return Status::Ok();
  }

  bool Uses(Schedule part) const {
    const plan::ScheduleConfig& c = choice_.config;
    return c.automatic || c.schedule == part ||
           (c.schedule == Schedule::kFc1Fc2 && (part == Schedule::kFc1 || part == Schedule::kFc2));
  }

  void ChooseThresholds() {
    plan::ScheduleThresholds& t = choice_.thresholds;
    t = {.sp = flags_.sp_min_token_num,
         .fc1 = flags_.fc1_min_token_num,
         .fc2 = flags_.fc2_min_token_num,
         .gather = flags_.gather_min_token_num};
    const auto tell = [&](const std::optional<int32_t>& value, const std::string& by,
                          Schedule part) {
      if (!value || Uses(part)) return;
      Tell(LogLevel::kWarning, fmt::format("{} {}: without effect: the schedule is {}", by, *value,
                                           Describe(config())));
    };
    const auto& upstream = upstream_.sp_min_token_num;
    if (!t.sp && upstream) {
      t.sp = upstream->value;
      tell(t.sp, upstream->by, Schedule::kSp);
    } else {
      tell(t.sp, "--sp-min-token-num", Schedule::kSp);
    }
    tell(t.fc1, "--fc1-min-token-num", Schedule::kFc1);
    tell(t.fc2, "--fc2-min-token-num", Schedule::kFc2);
    tell(t.gather, "--gather-min-token-num", Schedule::kGather);
    SetThresholds(t, false, &config());
  }

  void WishFusion(std::span<const graph::Pass> passes) {
    const bool exists = std::any_of(passes.begin(), passes.end(),
                                    [](const graph::Pass& p) { return p.name == kFusePass; });
    for (const Asked<bool>& asked : upstream_.matmul_all_reduce) {
      if (exists) {
        choice_.switches[std::string(kFusePass)] = graph::Switch::kOn;
      } else {
        Tell(LogLevel::kWarning, fmt::format("{}: without effect: there is no pass {} in this "
                                             "build, so a matmul and its all-reduce stay two steps",
                                             asked.by, kFusePass));
      }
    }
  }

  const ScheduleFlags& flags_;
  UpstreamConfig upstream_;
  const int ranks_;
  ScheduleChoice choice_;
};

}  // namespace

void AddScheduleFlags(CLI::App& app, ScheduleFlags* f) {
  const char* group = "Exchanges between ranks (weft explain --schedules)";
  const auto add = [&](const char* name, auto* value, const char* takes, const char* text) {
    return app.add_option(name, *value, text)->type_name(takes)->group(group);
  };
  add("--schedule", &f->schedule, "NAME",
      "plain, sp, fc1, fc2, fc1+fc2, gather, or auto [what upstream's words below ask for, else "
      "plain]");
  add("--flashcomm2-parallel-size", &f->flashcomm2_parallel_size, "N",
      "FlashComm2: ranks that o_proj's weight is cut over, a divisor of -tp and below it; 0: off");
  const auto least = [&](const char* name, std::optional<int32_t>* value, const char* text) {
    add(name, value, "N", text)->check(Between(0, INT32_MAX));
  };
  least("--sp-min-token-num", &f->sp_min_token_num,
        "SP from so many tokens of a step on [1000; models with experts 1]");
  least("--fc1-min-token-num", &f->fc1_min_token_num,
        "likewise FlashComm1 [1001; models with experts 1]");
  least("--fc2-min-token-num", &f->fc2_min_token_num, "likewise FlashComm2 [1]");
  least("--gather-min-token-num", &f->gather_min_token_num, "likewise gather [1]");
  const auto json = [&](const char* name, std::vector<std::string>* value, const char* text) {
    add(name, value, "JSON", text)->allow_extra_args(false);
  };
  json("--compilation-config", &f->upstream.compilation_config,
       "vLLM's; pass_config.enable_sp and sp_min_token_num count. Also -cc, and with dots: "
       "--compilation-config.pass_config.enable_sp true");
  json("--additional-config", &f->upstream.additional_config,
       "vllm-ascend's; enable_flashcomm1, enable_flashcomm2_parallel_size, layer_sharding, "
       "enable_shared_expert_dp and enable_matmul_allreduce count [VLLM_ASCEND_ENABLE_FLASHCOMM1, "
       "...]");
  json("--kv-transfer-config", &f->upstream.kv_transfer_config,
       "vLLM's; only kv_role counts, for FlashComm2's rules");
  app.add_flag("--enable-shared-expert-dp", f->enable_shared_expert_dp,
               "a shared expert whole on every rank: under sp and fc1 it is walked on a rank's own "
               "rows and nothing of it crosses; vllm-ascend's key of that name also turns fc1 on")
      ->group(group);
  app.add_flag("--ascend-strict", f->ascend_strict,
               "refuse what vllm-ascend refuses, not only what cannot work")
      ->group(group);
}

Result<ScheduleChoice> ChooseSchedule(const ScheduleFlags& flags, int ranks,
                                      std::span<const graph::Pass> passes) {
  WEFT_ASSIGN_OR_RETURN(UpstreamConfig upstream, ReadUpstream(flags.upstream));
  return Chooser(flags, std::move(upstream), ranks).Choose(passes);
}

}  // namespace weft::cli
