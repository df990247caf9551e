// Covers src/cli/machine_bench.h
#include "cli/exchange_limits.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <map>
#include <set>

#include "device/topology.h"

namespace weft::cli {
namespace {

TEST(FitExchange, FindsTheLineThatThePointsLieOn) {
  std::vector<ExchangePoint> points;
  for (const double kib : {1.0, 4.0, 16.0, 256.0}) points.push_back({2, kib, 2 * 300 + kib * 25});
  const ExchangeFit fit = FitExchange(points);
  EXPECT_NEAR(fit.phase_ns, 300, 1e-6);
  EXPECT_NEAR(fit.kib_ns, 25, 1e-6);
}

TEST(FitExchange, SmallSizesCountAsMuchAsLargeOnes) {
  // Ten percent too much at 1 MiB, exact below: the phase must not move by more.
  const ExchangeFit fit = FitExchange(
      std::vector<ExchangePoint>{{1, 1, 125}, {1, 2, 150}, {1, 4, 200}, {1, 1024, 1.1 * 25700}});
  EXPECT_NEAR(fit.phase_ns, 100, 10);
  EXPECT_NEAR(fit.kib_ns, 26, 1.5);
}

TEST(FitExchange, NeitherPartIsNegative) {
  const ExchangeFit steep =
      FitExchange(std::vector<ExchangePoint>{{1, 1, 10}, {1, 10, 200}, {1, 100, 9000}});
  EXPECT_EQ(steep.phase_ns, 0);
  EXPECT_GT(steep.kib_ns, 0);
  const ExchangeFit falling =
      FitExchange(std::vector<ExchangePoint>{{1, 1, 300}, {1, 10, 200}, {1, 100, 100}});
  EXPECT_EQ(falling.kib_ns, 0);
  EXPECT_GT(falling.phase_ns, 0);
}

TEST(MeasureExchanges, EveryMethodThatWorksOnSoManyRanksHasBothFigures) {
  // A command that ran before in this process may have pinned the thread to one core.
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (int c = 0; c < CPU_SETSIZE; ++c) CPU_SET(c, &cpus);
  ASSERT_EQ(sched_setaffinity(0, sizeof cpus, &cpus), 0);
  auto topology = device::DetectTopology();
  ASSERT_TRUE(topology.ok());
  if (topology->cores.size() < 2) GTEST_SKIP() << "one core: nobody to exchange with";
  auto bench = MachineBench::Create(*topology, 2, 0.001);
  ASSERT_TRUE(bench.ok()) << bench.status().message();
  std::map<std::string, std::set<std::string>> methods;
  for (const Limit& limit : MeasureExchanges(**bench)) {
    methods[limit.name].insert(limit.how);
    EXPECT_EQ(limit.threads, 2);
    EXPECT_GT(limit.value, 0);
    EXPECT_GT(limit.median, 0);
    EXPECT_EQ(limit.unit, limit.name.ends_with("_kib") ? "ns/KiB" : "ns");
  }
  const std::pair<std::string, std::set<std::string>> expected[] = {
      {"all_reduce", {"direct", "two_shot", "halving"}},
      {"reduce_scatter", {"direct", "halving"}},
      {"all_gather", {"direct"}},
      {"all_to_all", {"direct"}},
      {"pair_max", {"direct"}}};
  EXPECT_EQ(methods.size(), 2 * std::size(expected));
  for (const auto& [collective, names] : expected) {
    EXPECT_EQ(methods[collective + "_phase"], names) << collective;
    EXPECT_EQ(methods[collective + "_kib"], names) << collective;
  }
}

}  // namespace
}  // namespace weft::cli
