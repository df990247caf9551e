#include "plan/schedule.h"

#include <gtest/gtest.h>

namespace weft::plan {
namespace {

Bucket Body(int32_t min, int32_t max) {
  return {Bucket::Kind::kBody, min, max, HeadMode::kGreedy, false};
}

TEST(Schedule, NamesGoBothWays) {
  for (Schedule s : kSchedules) EXPECT_EQ(ScheduleNamed(NameOf(s)), s);
  EXPECT_EQ(ScheduleNamed("fc3"), std::nullopt);
}

// spec/communication 7, row 43, and the two comparisons: SP from 1000 rows on, FlashComm1 above
// 1000.
TEST(Schedule, ADenseModelTakesSpFrom1000AndFlashComm1Above) {
  struct Row {
    Schedule schedule;
    int32_t rows;
    bool on;
  };
  for (const Row& row : {Row{Schedule::kSp, 999, false}, Row{Schedule::kSp, 1000, true},
                         Row{Schedule::kFc1, 1000, false}, Row{Schedule::kFc1, 1001, true}}) {
    ScheduleConfig config;
    config.schedule = row.schedule;
    const BucketSchedule got = ScheduleFor(config, 4, Body(row.rows, row.rows));
    EXPECT_EQ(got.schedule, row.on ? row.schedule : Schedule::kPlain)
        << NameOf(row.schedule) << " " << row.rows;
    EXPECT_EQ(got.reason.empty(), row.on) << got.reason;
    EXPECT_EQ(got.switches.count("sequence_parallel"), row.on ? 1u : 0u);
  }
}

// Row 43 of the acceptance facts: FlashComm1 is off for a dense model at 1000 rows, on at 1001, and
// on for a model with experts at 1. SP's own bounds are in the text of section 1.6.
TEST(Schedule, Row43TheThresholdsFollowTheModelUnlessTheyAreNamed) {
  struct Row {
    bool experts;
    Schedule schedule;
    int32_t rows;
    bool on;
  };
  for (const Row& row :
       {Row{false, Schedule::kFc1, 1000, false}, Row{false, Schedule::kFc1, 1001, true},
        Row{true, Schedule::kFc1, 1, true}, Row{false, Schedule::kSp, 999, false},
        Row{false, Schedule::kSp, 1000, true}, Row{true, Schedule::kSp, 1, true}}) {
    ScheduleConfig config;
    config.schedule = row.schedule;
    SetThresholds({}, row.experts, &config);
    const bool on = ScheduleFor(config, 4, Body(row.rows, row.rows)).schedule == row.schedule;
    EXPECT_EQ(on, row.on) << (row.experts ? "experts " : "dense ") << NameOf(row.schedule) << " "
                          << row.rows;
  }
  for (const bool experts : {false, true}) {
    ScheduleConfig config;
    SetThresholds({.sp = 7, .fc1 = 8, .fc2 = 9, .gather = 10}, experts, &config);
    EXPECT_EQ(config.sp_min_tokens, 7);
    EXPECT_EQ(config.fc1_min_tokens, 8);
    EXPECT_EQ(config.fc2_min_tokens, 9);
    EXPECT_EQ(config.gather_min_tokens, 10);
  }
}

TEST(Schedule, NoBucketLiesOnBothSidesOfAThreshold) {
  ScheduleConfig config;
  config.schedule = Schedule::kFc1Fc2;
  config.otp = 2;
  config.fc1_min_tokens = 100;
  config.fc2_min_tokens = 20;
  int kinds = 0;
  Schedule last = Schedule::kPlain;
  for (const Bucket& b : Ladder(Bucket::Kind::kBody, 2048, LadderCuts(config))) {
    const Schedule low = ScheduleFor(config, 4, Body(b.rows_min, b.rows_min)).schedule;
    EXPECT_EQ(low, ScheduleFor(config, 4, Body(b.rows_max, b.rows_max)).schedule) << ToString(b);
    EXPECT_EQ(low, ScheduleFor(config, 4, b).schedule) << ToString(b);
    if (low != last) ++kinds;
    last = low;
  }
  EXPECT_EQ(kinds, 2);  // plain, then FC2 from 20 on, then both from 100 on
  EXPECT_EQ(last, Schedule::kFc1Fc2);
}

TEST(Schedule, TheReasonNamesRowsBoundAndFlag) {
  ScheduleConfig config;
  config.schedule = Schedule::kFc1;
  EXPECT_EQ(ScheduleFor(config, 2, Body(5, 5)).reason, "rows 5 < 1001 (--fc1-min-token-num)");
  config.fc1_min_tokens = 1;
  EXPECT_EQ(ScheduleFor(config, 1, Body(5, 5)).reason, "one rank: nothing crosses");
}

TEST(Schedule, FlashComm2StandsOnItsMesh) {
  ScheduleConfig config;
  config.schedule = Schedule::kFc2;
  config.otp = 2;
  const BucketSchedule got = ScheduleFor(config, 6, Body(1, 1));
  EXPECT_EQ(got.mesh, (graph::Mesh{{{"otp", 2}, {"odp", 3}}}));
  EXPECT_EQ(got.switches.count("regroup_o_proj"), 1u);
  EXPECT_EQ(got.switches.count("sequence_parallel"), 0u);
}

// spec/communication 3.1, conditions 6 and 7: the size reaches the ranks, or does not divide them.
TEST(Schedule, ASizeThatCannotWorkIsRefusedByName) {
  for (const int otp : {0, 3, 4, 5}) {
    ScheduleConfig config;
    config.schedule = Schedule::kFc2;
    config.otp = otp;
    const Status status = CheckSchedule(config, 4);
    ASSERT_FALSE(status.ok()) << otp;
    EXPECT_NE(status.message().find("flashcomm2_parallel_size " + std::to_string(otp)),
              std::string::npos)
        << status.message();
  }
  ScheduleConfig config;
  config.schedule = Schedule::kFc1Fc2;
  for (const int otp : {1, 2}) {
    config.otp = otp;
    EXPECT_TRUE(CheckSchedule(config, 4).ok()) << otp;
  }
}

TEST(Schedule, AutomaticLooksAtASizeThatWasNamed) {
  ScheduleConfig config;
  config.automatic = true;
  EXPECT_TRUE(CheckSchedule(config, 1).ok());
  config.otp = 2;
  EXPECT_TRUE(CheckSchedule(config, 4).ok());
  config.otp = 3;
  EXPECT_FALSE(CheckSchedule(config, 4).ok());
}

TEST(Schedule, DescribeSaysWhatALogNeeds) {
  ScheduleConfig config;
  EXPECT_EQ(Describe(config), "plain");
  config.schedule = Schedule::kFc1Fc2;
  config.otp = 2;
  EXPECT_EQ(Describe(config), "fc1+fc2 otp=2");
  config.shard_o_proj = true;
  EXPECT_EQ(Describe(config), "fc1+fc2 otp=2 layer_sharding");
  config.automatic = true;
  EXPECT_EQ(Describe(config), "auto");
}

}  // namespace
}  // namespace weft::plan
