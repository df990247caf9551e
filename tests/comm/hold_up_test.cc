#include "comm/hold_up.h"

#include <gtest/gtest.h>

#include <map>

namespace weft::comm {
namespace {

using Ranks = std::vector<int>;

Ranks Blamed(const std::map<int, Ranks>& waits) {
  std::vector<GiveUpNotice> notices;
  for (const auto& [rank, ranks] : waits) {
    notices.emplace_back().rank = rank;
    notices.back().SetWaits(ranks);
  }
  return WhoHoldsUp(notices);
}

TEST(HoldUp, TheRankThatWaitsForNobodyIsToBlame) {
  EXPECT_EQ(Blamed({{0, {3}}, {1, {3}}, {2, {3}}}), Ranks{3});
  // Halving: 0 waits for 2, and 2 for 3, who is silent.
  EXPECT_EQ(Blamed({{0, {2}}, {1, {3}}, {2, {3}}}), Ranks{3});
  // 3 came late and tells that it waited for nobody.
  EXPECT_EQ(Blamed({{0, {2}}, {2, {3}}, {3, {}}}), Ranks{3});
  EXPECT_EQ(Blamed({{0, {1, 2}}, {3, {1}}}), (Ranks{1, 2}));
  // Nobody answered: all that can be said is for whom this rank waited.
  EXPECT_EQ(Blamed({{0, {1}}}), Ranks{1});
}

TEST(HoldUp, ACircleBlamesNobody) {
  EXPECT_EQ(Blamed({{0, {1}}, {1, {0}}}), Ranks{});
  EXPECT_EQ(Blamed({{0, {}}}), Ranks{});
}

TEST(HoldUp, WhoComesWhenTheOthersGiveUpIsLate) {
  GiveUpNotice notice{.rank = 0, .waited_ns = 1000};
  notice.SetWaits(Ranks{1, 3});
  EXPECT_TRUE(CameLate(3, 100, {&notice, 1}));
  EXPECT_FALSE(CameLate(3, 900, {&notice, 1})) << "it has waited as long as they have";
  EXPECT_FALSE(CameLate(2, 100, {&notice, 1})) << "nobody waited for it";
  EXPECT_FALSE(CameLate(3, 100, {}));
}

TEST(HoldUp, TheReasonNamesWhoIsToBlame) {
  const device::WaitSite site{.step = 41, .what = "all_reduce"};
  const auto notice = [](int rank, const Ranks& waits) {
    GiveUpNotice out{.rank = rank, .waited_ns = 2'000'000'000};
    out.SetWaits(waits);
    return out;
  };
  const auto why = [&](const GiveUpNotice& mine, std::vector<GiveUpNotice> heard) {
    const Status status = WhyGivenUp(mine, heard, site);
    EXPECT_EQ(status.code(), StatusCode::kDeadline);
    return status.message();
  };
  EXPECT_EQ(why(notice(0, {3}), {}), "rank 0 waited 2.0 s for rank 3 at step 41 (all_reduce)");
  EXPECT_EQ(why(notice(0, {2}), {notice(2, {3})}),
            "rank 0 waited 2.0 s for rank 2, held up by rank 3 at step 41 (all_reduce)");
  EXPECT_EQ(
      why(notice(3, {}), {notice(1, {3}), notice(0, {3})}),
      "rank 3 came too late at step 41 (all_reduce): ranks 0 and 1 had given up waiting for it");
  EXPECT_EQ(why(notice(1, {}), {notice(0, {3})}),
            "rank 1 heard at step 41 (all_reduce) that rank 0 gave up waiting for rank 3");
  EXPECT_EQ(why(notice(0, {1}), {notice(1, {0})}),
            "rank 0 waited 2.0 s for rank 1 at step 41 (all_reduce)");

  GiveUpNotice failed{.rank = 2, .code = static_cast<int32_t>(StatusCode::kExhausted)};
  failed.SetText("no memory");
  const GiveUpNotice heard[] = {notice(1, {2}), failed};
  const Status status = WhyGivenUp(notice(0, {2}), heard, site);
  EXPECT_EQ(status.code(), StatusCode::kExhausted);
  EXPECT_EQ(status.message(), "rank 2: no memory");
}

TEST(HoldUp, NoticesHoldWhatFits) {
  GiveUpNotice notice;
  notice.SetText(std::string(1000, 'x'));
  EXPECT_EQ(std::string(notice.text.data()).size(), notice.text.size() - 1);
  notice.SetWaits(Ranks(100, 5));
  EXPECT_EQ(notice.wait_count, 32);
}

TEST(HoldUp, RanksAreNamedAndCounted) {
  EXPECT_EQ(RanksInWords(Ranks{}), "nobody");
  EXPECT_EQ(RanksInWords(Ranks{3}), "rank 3");
  EXPECT_EQ(RanksInWords(Ranks{1, 3}), "ranks 1 and 3");
  EXPECT_EQ(RanksInWords(Ranks{0, 1, 2, 3}), "ranks 0, 1, 2 and 3");
  EXPECT_EQ(RanksInWords(Ranks{0, 1, 2, 3, 4, 5}), "ranks 0, 1, 2, 3 and 2 more");
}

}  // namespace
}  // namespace weft::comm
