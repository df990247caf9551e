#include "cli/waterfall_report.h"

#include <gtest/gtest.h>

namespace weft::cli {
namespace {

SwitchPair PairOf(std::vector<double> without, std::vector<double> with) {
  SwitchPair pair;
  for (const double ms : without)
    pair.without.push_back(
        {.tpot_ms = ms, .tpot_p99_ms = 2 * ms, .ttft_ms = 3, .e2e_ms = 4, .tokens_per_step = 1});
  for (const double ms : with)
    pair.with.push_back(
        {.tpot_ms = ms, .tpot_p99_ms = 2 * ms, .ttft_ms = 3, .e2e_ms = 4, .tokens_per_step = 1.5});
  return pair;
}

TEST(WaterfallReport, AGainIsTakenPairByPairAndNotFromNoise) {
  // The machine is half as fast in the second pair.
  const SwitchPair gain = PairOf({10, 20, 10, 10}, {9, 18, 9, 9});
  EXPECT_NEAR(gain.Ratio(0.5), 0.9, 1e-9);
  EXPECT_EQ(VerdictOf(gain), "gain");
  EXPECT_EQ(VerdictOf(PairOf({9, 9, 9}, {10, 10, 10})), "loss");
  EXPECT_EQ(VerdictOf(PairOf({10, 10, 10, 10}, {9, 11, 9, 11})), "-");
}

TEST(WaterfallReport, TableJsonAndPictureSayTheSame) {
  Waterfall w{.concurrency = 4, .all = PairOf({20, 20, 20}, {10, 10, 10})};
  w.rows.push_back({.name = "fold_finish",
                    .rewrites = 12,
                    .full = PairOf({11, 11, 11}, {10, 10, 10}),
                    .bare = PairOf({20, 20, 20}, {18, 18, 18})});
  w.rows.push_back({.name = "fuse_x",
                    .on = false,
                    .rewrites = 3,
                    .full = PairOf({10, 10, 10}, {10.5, 10.5, 10.5}),
                    .bare = PairOf({20, 20, 20}, {20, 20, 20})});
  const std::string table = TableText(w);
  for (const char* text : {"4 requests at once", "fold_finish", "-9.1 %", "-10.0 %", "gain",
                           "fuse_x (off)", "+5.0 %", "loss", "-50.0 %", "1.50 tokens a step"}) {
    EXPECT_NE(table.find(text), std::string::npos) << text << "\n" << table;
  }
  const Json json = ToJson(w);
  EXPECT_EQ(json.Find("switches")->as_array().size(), 2u);
  EXPECT_NEAR(json.Find("switches")->as_array()[0].Find("among_all")->Find("ratio")->as_double(),
              10.0 / 11, 1e-9);
  const std::string svg = Svg({w, w}, "a model");
  EXPECT_TRUE(svg.starts_with("<svg")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* text : {"a model", "fold_finish", "fuse_x (off)", "-9.1 %", "all on"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
}

}  // namespace
}  // namespace weft::cli
