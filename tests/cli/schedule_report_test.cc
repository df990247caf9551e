#include "cli/schedule_report.h"

#include <gtest/gtest.h>

namespace weft::cli {
namespace {

ScheduleResult RowOf(const std::string& schedule, std::vector<double> ns,
                     std::vector<double> plain_ns) {
  ScheduleResult row;
  row.schedule = schedule;
  row.taken = schedule.substr(0, schedule.find(' '));
  row.ns = std::move(ns);
  row.plain_ns = std::move(plain_ns);
  return row;
}

TEST(TimeOverPlain, IsTakenPairByPair) {
  // The machine is twice as slow in the second pair: of no consequence for the ratio.
  const ScheduleResult row = RowOf("sp", {90, 180, 80}, {100, 200, 100});
  EXPECT_DOUBLE_EQ(TimeOverPlain(row, 0.5), 0.9);
  EXPECT_DOUBLE_EQ(TimeOverPlain(row, 0), 0.8);
  EXPECT_DOUBLE_EQ(QuantileOf({3, 1, 2}, 0.5), 2);
}

TEST(WinnerOf, IsFasterThanPlainBeyondTheNoise) {
  const ScheduleResult plain = RowOf("plain", {100, 98, 102, 97, 101}, {100, 100, 100, 100, 100});
  const ScheduleResult sp = RowOf("sp", {95, 94, 96, 95, 97}, {100, 100, 100, 100, 100});
  const ScheduleResult fc2 = RowOf("fc2 otp=2", {90, 91, 92, 90, 91}, {100, 100, 100, 100, 100});
  EXPECT_EQ(WinnerOf({plain, sp}), "sp");
  EXPECT_EQ(WinnerOf({plain, sp, fc2}), "fc2 otp=2");
  EXPECT_EQ(WinnerOf({sp, fc2}), "fc2 otp=2");
  // Two of five pairs disagree.
  EXPECT_EQ(WinnerOf({plain, RowOf("sp", {80, 80, 80, 101, 102}, {100, 100, 100, 100, 100})}),
            "plain");
  // All pairs agree, but plain beside itself is as far off.
  EXPECT_EQ(WinnerOf({RowOf("plain", {90, 110, 90, 110, 90}, {100, 100, 100, 100, 100}), sp}),
            "plain");
  EXPECT_EQ(WinnerOf({plain}), "plain");
}

TEST(WinnerOf, AScheduleThatRunsPlainWinsNothing) {
  ScheduleResult automatic = RowOf("auto", {50, 50, 50}, {100, 100, 100});
  automatic.taken = "plain";
  EXPECT_EQ(WinnerOf({automatic}), "plain");
}

TEST(ScheduleReport, TellsWhatRanInstead) {
  ScheduleResult row = RowOf("sp", {100}, {100});
  row.taken = "plain";
  row.note = "rows 8 < 9";
  row.planned = 10;
  row.counted = 7;
  row.layer_planned = 32;
  testing::internal::CaptureStdout();
  Print({.name = "prefill:8", .rows = 8}, {row, RowOf("fc2 otp=1", {1}, {1})});
  const std::string out = testing::internal::GetCapturedStdout();
  for (const char* text : {"runs plain: rows 8 < 9\n", " 4.0 ", "-3 B", "winner"})
    EXPECT_NE(out.find(text), std::string::npos) << text << out;
  EXPECT_EQ(out.find("runs fc2"), std::string::npos) << out;
  const Json json = ToJson({.name = "prefill:8", .rows = 8}, {row});
  EXPECT_TRUE(
      json.Find("schedules")->as_array()[0].Find("bytes")->Find("layer_formula")->is_null());
  EXPECT_EQ(json.Find("winner")->as_string(), "plain");
}

}  // namespace
}  // namespace weft::cli
