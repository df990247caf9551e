#include "plan/schedule.h"

#include <gtest/gtest.h>

namespace weft::plan {
namespace {

Bucket Body(int32_t min, int32_t max) { return {Bucket::Kind::kBody, min, max, HeadMode::kGreedy, false}; }

TEST(Schedule, NamesGoBothWays) {
  for (Schedule s : kSchedules) EXPECT_EQ(ScheduleNamed(NameOf(s)), s);
  EXPECT_EQ(ScheduleNamed("fc3"), std::nullopt);
}

// spec/communication 7, row 43, and the two comparisons: SP from 1000 rows on, FlashComm1 above 1000.
TEST(Schedule, ADenseModelTakesSpFrom1000AndFlashComm1Above) {
  struct Row { Schedule schedule; int32_t rows; bool on; };
  for (const Row& row : {Row{Schedule::kSp, 999, false}, Row{Schedule::kSp, 1000, true}, Row{Schedule::kFc1, 1000, false},
                         Row{Schedule::kFc1, 1001, true}}) {
    ScheduleConfig config;
    config.schedule = row.schedule;
    const BucketSchedule got = ScheduleFor(config, 4, Body(row.rows, row.rows));
    EXPECT_EQ(got.schedule, row.on ? row.schedule : Schedule::kPlain) << NameOf(row.schedule) << " " << row.rows;
    EXPECT_EQ(got.reason.empty(), row.on) << got.reason;
    EXPECT_EQ(got.switches.count("sequence_parallel"), row.on ? 1u : 0u);
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
    EXPECT_NE(status.message().find("flashcomm2_parallel_size " + std::to_string(otp)), std::string::npos) << status.message();
  }
  ScheduleConfig config;
  config.schedule = Schedule::kFc1Fc2;
  for (const int otp : {1, 2}) {
    config.otp = otp;
    EXPECT_TRUE(CheckSchedule(config, 4).ok()) << otp;
  }
}

}  // namespace
}  // namespace weft::plan
