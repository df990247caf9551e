#include "device/topology.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <map>
#include <thread>

namespace weft::device {
namespace {

Topology Make(const std::string& description) {
  Result<Topology> topology = SyntheticTopology(description);
  EXPECT_TRUE(topology.ok()) << topology.status().message();
  return std::move(topology.value());
}

TEST(Topology, ThisMachineHasWhatTheAffinityMaskAllows) {
  Result<Topology> all = DetectTopology();
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_GE(all->cores.size(), 1u);
  // A thread that may run on one CPU sees one core.
  std::thread narrow([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(all->cores.back().cpu, &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    Result<Topology> one = DetectTopology();
    ASSERT_TRUE(one.ok());
    ASSERT_EQ(one->cores.size(), 1u);
    EXPECT_EQ(one->cores[0].cpu, all->cores.back().cpu);
  });
  narrow.join();
}

TEST(Topology, CountsCoresNotHardwareThreads) {
  const Topology t = Make("numa:2 l3:2 core:4 pu:2");
  EXPECT_EQ(t.cores.size(), 16u);
  EXPECT_EQ(t.nodes, (std::vector<int>{0, 1}));
  EXPECT_EQ(t.l3_count, 4);
  EXPECT_EQ(t.cores[1].cpu, 2);
  EXPECT_EQ(t.cores[1].siblings, std::vector<int>{3});
  EXPECT_EQ(t.cores[8].node, 1);
}

TEST(Topology, NonsenseIsRefused) {
  EXPECT_EQ(SyntheticTopology("a large one").status().code(), StatusCode::kInvalid);
}

// Every core at most once unless shared, groups contiguous, no rank across nodes.
TEST(AssignCores, RanksStayInsideANodeWhereTheyCan) {
  for (const char* machine : {"numa:1 core:2 pu:1", "numa:2 core:4 pu:1", "numa:2 core:3 pu:2",
                              "numa:4 core:5 pu:1", "numa:1 core:16 pu:1"}) {
    const Topology t = Make(machine);
    std::map<int, int> node_of, index_of;
    for (size_t i = 0; i < t.cores.size(); ++i) {
      node_of[t.cores[i].cpu] = t.cores[i].node;
      index_of[t.cores[i].cpu] = static_cast<int>(i);
    }
    for (int ranks = static_cast<int>(t.nodes.size()); ranks <= 20; ++ranks) {
      const CoreAssignment a = std::move(AssignCores(t, ranks, 0).value());
      ASSERT_EQ(static_cast<int>(a.ranks.size()), ranks);
      std::map<int, int> uses;
      for (const RankCores& rank : a.ranks) {
        ASSERT_FALSE(rank.cpus.empty());
        for (size_t w = 0; w < rank.cpus.size(); ++w) {
          EXPECT_EQ(node_of[rank.cpus[w]], rank.node);
          EXPECT_EQ(index_of[rank.cpus[w]], index_of[rank.cpus[0]] + static_cast<int>(w));
          ++uses[rank.cpus[w]];
        }
      }
      bool shared = false;
      for (auto [cpu, n] : uses) shared |= n > 1;
      EXPECT_EQ(a.oversubscribed, shared) << machine << " ranks " << ranks << ": " << a.Describe();
      if (ranks <= static_cast<int>(t.cores.size()) && ranks % t.nodes.size() == 0) {
        EXPECT_FALSE(a.oversubscribed) << machine << " ranks " << ranks;
        EXPECT_EQ(uses.size(), t.cores.size()) << "a core is left idle";
      }
    }
  }
}

TEST(AssignCores, FewerRanksThanNodesTakeWholeNodes) {
  const CoreAssignment a = std::move(AssignCores(Make("numa:4 core:2 pu:1"), 2, 0).value());
  EXPECT_EQ(a.Describe(), "rank 0: node 0, CPUs 0-3; rank 1: node 2, CPUs 4-7");
}

TEST(AssignCores, WorkersPerRankBoundsAndShares) {
  const Topology two = Make("numa:1 core:2 pu:1");
  EXPECT_EQ(AssignCores(two, 2, 1)->Describe(), "rank 0: node 0, CPUs 0; rank 1: node 0, CPUs 1");
  EXPECT_EQ(AssignCores(two, 1, 1)->workers(), 1);
  const CoreAssignment four = std::move(AssignCores(two, 4, 1).value());
  EXPECT_TRUE(four.oversubscribed);
  EXPECT_EQ(four.workers(), 4);
  EXPECT_TRUE(AssignCores(two, 1, 3)->oversubscribed);
}

TEST(AssignCores, RefusesCountsThatMakeNoSense) {
  const Topology two = Make("numa:1 core:2 pu:1");
  for (int ranks : {0, -1, 65}) EXPECT_FALSE(AssignCores(two, ranks, 0).ok());
  EXPECT_FALSE(AssignCores(two, 1, -1).ok());
  EXPECT_NE(AssignCores(two, 99, 0).status().message().find("--tensor-parallel-size"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::device
