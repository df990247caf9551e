#include "cli/schedule_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <functional>

namespace weft::cli {
namespace {

using plan::Schedule;
using testing::HasSubstr;
using Spoil = std::function<void(ScheduleFlags&)>;

Result<ScheduleChoice> Choose(const Spoil& set, int ranks = 4,
                              std::span<const graph::Pass> passes = graph::AllPasses()) {
  ScheduleFlags flags;
  set(flags);
  return ChooseSchedule(flags, ranks, passes);
}

ScheduleChoice Chosen(const Spoil& set, int ranks = 4) {
  Result<ScheduleChoice> choice = Choose(set, ranks);
  EXPECT_TRUE(choice.ok()) << choice.status().message();
  return choice.ok() ? std::move(choice).value() : ScheduleChoice();
}

// How many notices have that text.
int Told(const ScheduleChoice& choice, std::string_view text) {
  int n = 0;
  for (const Notice& notice : choice.notices)
    n += notice.text.find(text) != std::string::npos ? 1 : 0;
  return n;
}

std::string AllNotices(const ScheduleChoice& choice) {
  std::string out;
  for (const Notice& n : choice.notices) out += n.text + "\n";
  return out;
}

Spoil Additional(const std::string& json) {
  return [json](ScheduleFlags& f) { f.upstream.additional_config = {json}; };
}

TEST(ChooseSchedule, WithoutAWordItIsPlainAndSilent) {
  const ScheduleChoice choice = Chosen([](ScheduleFlags&) {});
  EXPECT_EQ(choice.config, plan::ScheduleConfig());
  EXPECT_TRUE(choice.switches.empty());
  EXPECT_TRUE(choice.notices.empty()) << AllNotices(choice);
}

TEST(ChooseSchedule, TakesEveryNameAndAuto) {
  for (const Schedule s : plan::kSchedules) {
    const ScheduleChoice choice = Chosen([&](ScheduleFlags& f) { f.schedule = NameOf(s); });
    EXPECT_EQ(choice.config.schedule, s);
    EXPECT_FALSE(choice.config.automatic);
    EXPECT_TRUE(choice.notices.empty()) << AllNotices(choice);
  }
  EXPECT_TRUE(Chosen([](ScheduleFlags& f) { f.schedule = "auto"; }).config.automatic);
}

// Upstream's key turns FlashComm1 on with it, our flag says that one thing.
TEST(ChooseSchedule, AWholeSharedExpertIsAskedForByEitherName) {
  EXPECT_FALSE(Chosen([](ScheduleFlags&) {}).whole_shared_expert);
  const ScheduleChoice own = Chosen([](ScheduleFlags& f) { f.enable_shared_expert_dp = true; });
  EXPECT_TRUE(own.whole_shared_expert);
  EXPECT_EQ(own.config.schedule, Schedule::kPlain);
  EXPECT_TRUE(own.notices.empty()) << AllNotices(own);
  EXPECT_TRUE(Chosen(Additional(R"({"enable_shared_expert_dp":true})")).whole_shared_expert);
  const ScheduleChoice named = Chosen([](ScheduleFlags& f) {
    f.schedule = "sp";
    f.upstream.additional_config = {R"({"enable_shared_expert_dp":true})"};
  });
  EXPECT_TRUE(named.whole_shared_expert);
  EXPECT_EQ(named.config.schedule, Schedule::kSp);
  EXPECT_EQ(Told(named,
                 "--schedule sp goes over --additional-config enable_shared_expert_dp, which would "
                 "be fc1"),
            1)
      << AllNotices(named);
}

// What upstream's words make together.
TEST(ChooseSchedule, UpstreamsWordsNameASchedule) {
  struct Row {
    const char *compilation, *additional;
    Schedule schedule;
    int otp;
  };
  const char *sp = R"({"pass_config":{"enable_sp":true}})", *no = "{}";
  for (const Row& row :
       {Row{no, no, Schedule::kPlain, 1}, Row{sp, no, Schedule::kSp, 1},
        Row{no, R"({"enable_flashcomm1":true})", Schedule::kFc1, 1},
        Row{sp, R"({"enable_flashcomm1":true})", Schedule::kFc1, 1},
        Row{no, R"({"flashcomm2_parallel_size":2})", Schedule::kFc2, 2},
        Row{no, R"({"enable_flashcomm1":true,"enable_flashcomm2_parallel_size":1})",
            Schedule::kFc1Fc2, 1},
        Row{no, R"({"enable_shared_expert_dp":true})", Schedule::kFc1, 1},
        Row{no, R"({"enable_shared_expert_dp":false})", Schedule::kPlain, 1},
        Row{no, R"({"enable_shared_expert_dp":true,"flashcomm2_parallel_size":2})",
            Schedule::kFc1Fc2, 2},
        Row{no, R"({"enable_flashcomm2_parallel_size":0})", Schedule::kPlain, 1},
        Row{no, R"({"enable_flashcomm2_parallel_size":-1})", Schedule::kPlain, 1},
        Row{sp, R"({"flashcomm2_parallel_size":2})", Schedule::kFc2, 2}}) {
    const ScheduleChoice choice = Chosen([&](ScheduleFlags& f) {
      f.upstream.compilation_config = {row.compilation};
      f.upstream.additional_config = {row.additional};
    });
    EXPECT_EQ(choice.config.schedule, row.schedule) << row.compilation << row.additional;
    EXPECT_EQ(choice.config.otp, row.otp) << row.additional;
  }
}

// The long line of both articles, word for word.
TEST(ChooseSchedule, ArticleBsLineWorksAsWritten) {
  const ScheduleChoice choice = Chosen([](ScheduleFlags& f) {
    f.upstream.environment = {{"VLLM_ASCEND_ENABLE_FLASHCOMM1", "1"},
                              {"VLLM_ASCEND_FLASHCOMM2_PARALLEL_SIZE", "2"}};
    f.upstream.additional_config = {R"({"layer_sharding":["o_proj"]})"};
  });
  EXPECT_EQ(choice.config.schedule, Schedule::kFc1Fc2);
  EXPECT_EQ(choice.config.otp, 2);
  EXPECT_TRUE(choice.config.shard_o_proj);
  EXPECT_EQ(Told(choice, "FlashComm2 without --kv-transfer-config"), 1);
  EXPECT_EQ(Told(choice, "layer_sharding [o_proj]: upstream wants"), 1);
  EXPECT_EQ(choice.notices.size(), 2u) << AllNotices(choice);
}

// Row 34 of the acceptance facts: 4 ranks, size 2, FlashComm1 on by additional_config.
TEST(ChooseSchedule, Row34FlashComm1IsRecommendedOnlyWhereItIsOff) {
  const ScheduleChoice both =
      Chosen(Additional(R"({"enable_flashcomm1":true,"enable_flashcomm2_parallel_size":2})"));
  EXPECT_EQ(both.config.otp, 2);
  EXPECT_EQ(Told(both, "upstream recommends both"), 0);
  const ScheduleChoice alone = Chosen(Additional(R"({"enable_flashcomm2_parallel_size":2})"));
  EXPECT_EQ(alone.config.otp, 2);
  EXPECT_EQ(Told(alone, "upstream recommends both"), 1);
}

// Row 35, with our own flags on top.
TEST(ChooseSchedule, Row35OursGoOverOptionsAndOptionsOverVariables) {
  struct Row {
    std::optional<std::string> own;
    std::optional<int32_t> own_size;
    const char *additional, *fc1, *fc2;
    Schedule schedule;
    int otp;
  };
  const char* off = R"({"enable_flashcomm1":false,"enable_flashcomm2_parallel_size":0})";
  for (const Row& row :
       {Row{{}, {}, "{}", "1", "2", Schedule::kFc1Fc2, 2},
        Row{{}, {}, off, "1", "2", Schedule::kPlain, 1},
        Row{{}, {}, R"({"enable_flashcomm1":true})", "0", "0", Schedule::kFc1, 1},
        Row{{}, 1, R"({"enable_flashcomm2_parallel_size":2})", "0", "0", Schedule::kFc2, 1},
        Row{{}, 0, R"({"enable_flashcomm2_parallel_size":2})", "1", "2", Schedule::kFc1, 1},
        Row{"sp", {}, R"({"enable_flashcomm1":true})", "1", "2", Schedule::kSp, 1},
        Row{"plain", {}, "{}", "1", "2", Schedule::kPlain, 1},
        Row{"fc2", {}, off, "1", "2", Schedule::kFc2, 1},
        Row{"fc2", {}, "{}", "0", "2", Schedule::kFc2, 2}}) {
    const ScheduleChoice choice = Chosen([&](ScheduleFlags& f) {
      f.schedule = row.own;
      f.flashcomm2_parallel_size = row.own_size;
      f.upstream.additional_config = {row.additional};
      f.upstream.environment = {{"VLLM_ASCEND_ENABLE_FLASHCOMM1", row.fc1},
                                {"VLLM_ASCEND_FLASHCOMM2_PARALLEL_SIZE", row.fc2}};
    });
    EXPECT_EQ(choice.config.schedule, row.schedule)
        << row.own.value_or("-") << " " << row.additional << row.fc1 << row.fc2;
    EXPECT_EQ(choice.config.otp, row.otp)
        << row.own.value_or("-") << " " << row.additional << row.fc1 << row.fc2;
  }
}

TEST(ChooseSchedule, WhatAScheduleContainsIsNotOverruled) {
  const char *fc1 = R"({"enable_flashcomm1":true})", *fc2 = R"({"flashcomm2_parallel_size":2})";
  struct Row {
    const char *name, *compilation, *additional;
    bool told;
  };
  const char* sp = R"({"pass_config":{"enable_sp":true}})";
  for (const Row& row :
       {Row{"fc1+fc2", "{}", fc1, false}, Row{"fc1+fc2", "{}", fc2, false},
        Row{"fc1", sp, "{}", false}, Row{"fc1+fc2", sp, "{}", false}, Row{"fc1", "{}", fc2, true},
        Row{"fc2", "{}", fc1, true}, Row{"fc2", sp, "{}", true}, Row{"gather", sp, "{}", true},
        Row{"plain", "{}", fc1, true}, Row{"auto", "{}", fc1, true},
        Row{"auto", "{}", "{}", false}}) {
    const ScheduleChoice choice = Chosen([&](ScheduleFlags& f) {
      f.schedule = row.name;
      f.upstream.compilation_config = {row.compilation};
      f.upstream.additional_config = {row.additional};
    });
    EXPECT_EQ(Told(choice, " goes over "), row.told ? 1 : 0)
        << row.name << row.compilation << row.additional;
  }
  const ScheduleChoice own = Chosen([](ScheduleFlags& f) {
    f.schedule = "fc1+fc2";
    f.flashcomm2_parallel_size = 2;
  });
  EXPECT_TRUE(own.notices.empty()) << AllNotices(own);
}

TEST(ChooseSchedule, WhoIsOverruledIsTold) {
  const ScheduleChoice size = Chosen([](ScheduleFlags& f) {
    f.flashcomm2_parallel_size = 1;
    f.upstream.additional_config = {R"({"flashcomm2_parallel_size":2})"};
  });
  EXPECT_EQ(Told(size, "flashcomm2_parallel_size gives way to --flashcomm2-parallel-size"), 1)
      << AllNotices(size);
  const ScheduleChoice choice = Chosen([](ScheduleFlags& f) {
    f.schedule = "sp";
    f.upstream.environment = {{"VLLM_ASCEND_ENABLE_FLASHCOMM1", "1"}};
  });
  EXPECT_EQ(
      Told(choice, "--schedule sp goes over VLLM_ASCEND_ENABLE_FLASHCOMM1=1, which would be fc1"),
      1)
      << AllNotices(choice);
}

// Row 32: layer sharding of o_proj is on if FlashComm2 is and "o_proj" is listed, and only then.
TEST(ChooseSchedule, Row32OProjIsShardedOnlyByBoth) {
  for (const bool fc2 : {false, true}) {
    for (const bool listed : {false, true}) {
      const ScheduleChoice choice = Chosen([&](ScheduleFlags& f) {
        if (fc2) f.flashcomm2_parallel_size = 2;
        if (listed) f.upstream.additional_config = {R"({"layer_sharding":["o_proj"]})"};
      });
      EXPECT_EQ(choice.config.shard_o_proj, fc2 && listed);
      EXPECT_EQ(Told(choice, "layer_sharding [o_proj]: without effect"), !fc2 && listed ? 1 : 0)
          << AllNotices(choice);
    }
  }
}

TEST(ChooseSchedule, ThresholdsAreOursThenVllmsThenTheModels) {
  const ScheduleChoice named = Chosen([](ScheduleFlags& f) {
    f.schedule = "auto";
    f.sp_min_token_num = 5;
    f.fc1_min_token_num = 6;
    f.fc2_min_token_num = 7;
    f.gather_min_token_num = 8;
    f.upstream.compilation_config = {R"({"pass_config":{"sp_min_token_num":99}})"};
  });
  EXPECT_EQ(named.config.sp_min_tokens, 5);
  EXPECT_EQ(named.config.fc1_min_tokens, 6);
  EXPECT_EQ(named.config.fc2_min_tokens, 7);
  EXPECT_EQ(named.config.gather_min_tokens, 8);

  // Upstream compares a dense model with 1000 whatever the user says (its issue #12760); here he is
  // heard.
  const ScheduleChoice vllm = Chosen([](ScheduleFlags& f) {
    f.upstream.compilation_config = {R"({"pass_config":{"enable_sp":true,"sp_min_token_num":10}})"};
  });
  EXPECT_EQ(vllm.config.sp_min_tokens, 10);
  plan::ScheduleConfig with_experts = vllm.config;
  SetThresholds(vllm.thresholds, true, &with_experts);
  EXPECT_EQ(with_experts.sp_min_tokens, 10);
  EXPECT_EQ(with_experts.fc1_min_tokens, 1);
}

TEST(ChooseSchedule, AThresholdOfAnotherScheduleIsTold) {
  const ScheduleChoice choice = Chosen([](ScheduleFlags& f) {
    f.schedule = "fc1";
    f.sp_min_token_num = 5;
    f.fc1_min_token_num = 6;
  });
  EXPECT_EQ(Told(choice, "--sp-min-token-num 5: without effect: the schedule is fc1"), 1)
      << AllNotices(choice);
  EXPECT_EQ(choice.notices.size(), 1u) << AllNotices(choice);
}

TEST(ChooseSchedule, WhatCannotWorkIsOneErrorWithValueBoundAndFlag) {
  const auto size = [](int32_t n) {
    return [n](ScheduleFlags& f) { f.flashcomm2_parallel_size = n; };
  };
  struct Row {
    int ranks;
    Spoil spoil;
    std::vector<const char*> parts;
  };
  const Row rows[] = {
      {4,
       size(3),
       {"--flashcomm2-parallel-size", "3 must be a divisor of --tensor-parallel-size 4"}},
      {4,
       size(4),
       {"--flashcomm2-parallel-size",
        "4 must be a divisor of --tensor-parallel-size 4 and less than it"}},
      {4, size(8), {"--flashcomm2-parallel-size", "8 must be"}},
      {1, size(1), {"--flashcomm2-parallel-size", "--tensor-parallel-size 1"}},
      {4,
       [](ScheduleFlags& f) {
         f.upstream.environment["VLLM_ASCEND_FLASHCOMM2_PARALLEL_SIZE"] = "3";
       },
       {"VLLM_ASCEND_FLASHCOMM2_PARALLEL_SIZE=3"}},
      {4,
       Additional(R"({"flashcomm2_parallel_size":3})"),
       {"--additional-config flashcomm2_parallel_size", "3 must be"}},
      {1,
       [](ScheduleFlags& f) { f.schedule = "fc2"; },
       {"--schedule fc2", "--tensor-parallel-size 1"}},
      {4,
       [](ScheduleFlags& f) { f.schedule = "auto", f.flashcomm2_parallel_size = 3; },
       {"3 must be a divisor"}},
      {4,
       Additional(
           R"({"flashcomm2_parallel_size":2,"finegrained_tp_config":{"oproj_tensor_parallel_size":2}})"),
       {"oproj_tensor_parallel_size 2", "exclude each other"}},
      {4,
       Additional(R"({"flashcomm2_parallel_size":2,"layer_sharding":["o_proj","q_b_proj"]})"),
       {"layer_sharding [o_proj, q_b_proj]", "exactly [\"o_proj\"]"}},
      {4,
       Additional(R"({"flashcomm2_parallel_size":2,"layer_sharding":["q_b_proj"]})"),
       {"layer_sharding [q_b_proj]"}},
      {4,
       [](ScheduleFlags& f) { f.schedule = "fc1", f.flashcomm2_parallel_size = 2; },
       {"--flashcomm2-parallel-size 2 contradicts --schedule fc1"}},
      {4,
       [](ScheduleFlags& f) { f.schedule = "fc2", f.flashcomm2_parallel_size = 0; },
       {"--flashcomm2-parallel-size 0 contradicts --schedule fc2"}},
      {4,
       [](ScheduleFlags& f) { f.schedule = "flashcomm1"; },
       {"--schedule 'flashcomm1'", "there are plain, sp, fc1, fc2, fc1+fc2, gather, auto"}},
      {4, [](ScheduleFlags& f) { f.schedule = "gathr"; }, {"did you mean gather?"}},
      {4, Additional(R"({"enable_flashcom1":true})"), {"did you mean 'enable_flashcomm1'?"}},
  };
  for (const Row& row : rows) {
    const Result<ScheduleChoice> choice = Choose(row.spoil, row.ranks);
    ASSERT_FALSE(choice.ok()) << row.parts[0];
    EXPECT_EQ(choice.status().code(), StatusCode::kInvalid);
    for (const char* part : row.parts) EXPECT_THAT(choice.status().message(), HasSubstr(part));
    EXPECT_EQ(choice.status().message().find('\n'), std::string::npos);
  }
}

TEST(ChooseSchedule, OneRankIsToldOnceAndQuietly) {
  for (const Spoil& ask :
       {Spoil([](ScheduleFlags& f) { f.schedule = "gather"; }),
        Additional(R"({"enable_flashcomm1":true})"), Spoil([](ScheduleFlags& f) {
          f.upstream.environment["VLLM_ASCEND_ENABLE_FLASHCOMM1"] = "1";
        }),
        Spoil([](ScheduleFlags& f) {
          f.upstream.compilation_config = {R"({"pass_config":{"enable_sp":true}})"};
        })}) {
    const ScheduleChoice choice = Chosen(ask, 1);
    ASSERT_EQ(choice.notices.size(), 1u) << AllNotices(choice);
    EXPECT_EQ(Told(choice, "--tensor-parallel-size 1: one rank has nothing to exchange"), 1);
    EXPECT_EQ(choice.notices[0].level, LogLevel::kInfo);
  }
}

// A policy is one notice; with --ascend-strict, what upstream forbids is an error and what it only
// advises stays a notice.
TEST(ChooseSchedule, PoliciesAreNoticesAndErrorsOnlyWhenStrict) {
  const auto json = [](const char* additional, const char* kv) {
    return [=](ScheduleFlags& f) {
      f.upstream.additional_config = {additional};
      if (*kv != '\0') f.upstream.kv_transfer_config = {kv};
    };
  };
  const char* both = R"({"enable_flashcomm1":true,"flashcomm2_parallel_size":2})";
  const char* sharded =
      R"({"enable_flashcomm1":true,"flashcomm2_parallel_size":2,"layer_sharding":["o_proj"]})";
  struct Row {
    Spoil ask;
    int ranks;
    const char* text;
    bool forbidden;
  };
  const Row rows[] = {
      {json(R"({"flashcomm2_parallel_size":2})", R"({"kv_role":"kv_producer"})"), 4,
       "FlashComm2 without FlashComm1", false},
      {json(both, ""), 4, "FlashComm2 without --kv-transfer-config", false},
      {json(both, R"({"kv_role":"kv_consumer"})"), 4, "FlashComm2 with kv_role kv_consumer", true},
      {json(both, R"({"kv_role":"kv_both"})"), 4, "FlashComm2 with kv_role kv_both", true},
      {json(sharded, ""), 4,
       "layer_sharding [o_proj]: upstream wants a --kv-transfer-config with kv_role kv_producer, "
       "found none",
       true},
      {json(sharded, R"({"kv_role":"kv_consumer"})"), 4, "found 'kv_consumer'", true},
  };
  for (const Row& row : rows) {
    const ScheduleChoice lenient = Chosen(row.ask, row.ranks);
    EXPECT_EQ(Told(lenient, row.text), 1) << row.text << "\n" << AllNotices(lenient);
    const Result<ScheduleChoice> strict =
        Choose([&](ScheduleFlags& f) { row.ask(f), f.ascend_strict = true; }, row.ranks);
    ASSERT_EQ(strict.ok(), !row.forbidden) << row.text;
    if (strict.ok()) {
      EXPECT_EQ(Told(*strict, row.text), 1) << row.text;
    } else {
      EXPECT_EQ(strict.status().code(), StatusCode::kInvalid);
      EXPECT_THAT(strict.status().message(), HasSubstr("--ascend-strict: "));
    }
  }
  const ScheduleChoice fine = Chosen(json(sharded, R"({"kv_role":"kv_producer"})"));
  EXPECT_EQ(fine.notices.size(), 1u)
      << "only that no KV cache is transferred: " << AllNotices(fine);
  EXPECT_TRUE(fine.config.shard_o_proj);
}

TEST(ChooseSchedule, StrictRefusesFlashComm1OnOneRankAsUpstreamDoes) {
  const auto ask = [](ScheduleFlags& f) { f.schedule = "fc1", f.ascend_strict = true; };
  EXPECT_FALSE(Choose(ask, 1).ok());
  EXPECT_TRUE(Choose(ask, 2).ok());
  EXPECT_TRUE(Choose([](ScheduleFlags& f) { f.schedule = "sp", f.ascend_strict = true; }, 1).ok());
}

TEST(ChooseSchedule, SpBesideAFlashCommSaysWhatBecomesOfIt) {
  const auto with = [](const char* additional) {
    return [=](ScheduleFlags& f) {
      f.upstream.compilation_config = {R"({"pass_config":{"enable_sp":true}})"};
      f.upstream.additional_config = {additional};
    };
  };
  EXPECT_EQ(
      Told(Chosen(with(R"({"enable_flashcomm1":true})")), "enable_sp: FlashComm1 contains it"), 1);
  EXPECT_EQ(Told(Chosen(with(R"({"flashcomm2_parallel_size":2})")),
                 "enable_sp: without effect beside FlashComm2 alone"),
            1);
}

TEST(ChooseSchedule, FinegrainedOProjWithoutFlashComm2IsTold) {
  const ScheduleChoice choice =
      Chosen(Additional(R"({"finegrained_tp_config":{"oproj_tensor_parallel_size":2}})"));
  EXPECT_EQ(Told(choice, "oproj_tensor_parallel_size 2: without effect"), 1) << AllNotices(choice);
}

// The fused matmul and all-reduce: a switch once there is such a pass, a line until then.
TEST(ChooseSchedule, AWishForTheFusedMatmulIsASwitchIfThePassExists) {
  const auto ask = [](ScheduleFlags& f) {
    f.upstream.environment = {{"VLLM_ASCEND_ENABLE_MATMUL_ALLREDUCE", "1"},
                              {"VLLM_ASCEND_FUSED_O_PROJ_AR", "1"}};
  };
  const graph::Pass pass{.name = "fuse_matmul_all_reduce_norm",
                         .numerics = graph::Numerics::kExact,
                         .summary = "",
                         .refuse = nullptr,
                         .run = nullptr};
  const Result<ScheduleChoice> there = Choose(ask, 4, {&pass, 1});
  ASSERT_TRUE(there.ok());
  EXPECT_EQ(there->switches.at("fuse_matmul_all_reduce_norm"), graph::Switch::kOn);
  EXPECT_TRUE(there->notices.empty());

  const Result<ScheduleChoice> absent = Choose(ask, 4, {});
  ASSERT_TRUE(absent.ok());
  EXPECT_TRUE(absent->switches.empty());
  EXPECT_EQ(Told(*absent,
                 "VLLM_ASCEND_ENABLE_MATMUL_ALLREDUCE=1: without effect: there is no pass "
                 "fuse_matmul_all_reduce_norm"),
            1);
  EXPECT_EQ(Told(*absent, "VLLM_ASCEND_FUSED_O_PROJ_AR=1: without effect"), 1);
}

TEST(AddScheduleFlags, EachOptionFindsItsField) {
  CLI::App app;
  ScheduleFlags f;
  std::string model;
  app.add_option("model", model);
  AddScheduleFlags(app, &f);
  std::vector<std::string> words = {"--schedule",
                                    "fc1+fc2",
                                    "--flashcomm2-parallel-size",
                                    "2",
                                    "--sp-min-token-num",
                                    "3",
                                    "--fc1-min-token-num",
                                    "4",
                                    "--fc2-min-token-num",
                                    "5",
                                    "--gather-min-token-num",
                                    "6",
                                    "--compilation-config",
                                    "{}",
                                    "--additional-config",
                                    R"({"refresh":true})",
                                    "--additional-config",
                                    "{}",
                                    "m.gguf",
                                    "--kv-transfer-config",
                                    R"({"kv_role":"kv_both"})",
                                    "--ascend-strict"};
  std::reverse(words.begin(), words.end());
  app.parse(words);
  EXPECT_EQ(f.schedule, "fc1+fc2");
  EXPECT_EQ(f.flashcomm2_parallel_size, 2);
  EXPECT_EQ(f.sp_min_token_num, 3);
  EXPECT_EQ(f.fc1_min_token_num, 4);
  EXPECT_EQ(f.fc2_min_token_num, 5);
  EXPECT_EQ(f.gather_min_token_num, 6);
  EXPECT_TRUE(f.ascend_strict);
  EXPECT_EQ(model, "m.gguf") << "a JSON option takes one value";
  ASSERT_EQ(f.upstream.additional_config.size(), 2u);
  EXPECT_EQ(f.upstream.additional_config[0], R"({"refresh":true})");
  ASSERT_EQ(f.upstream.kv_transfer_config.size(), 1u);
}

}  // namespace
}  // namespace weft::cli
