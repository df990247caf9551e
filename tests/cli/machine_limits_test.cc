#include "cli/machine_limits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace weft::cli {
namespace {

class MachineLimitsTest : public testing::Test {
 protected:
  std::string Write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  ~MachineLimitsTest() override { std::remove(path_.c_str()); }
  std::string path_ = testing::TempDir() + "weft_profile_" + std::to_string(getpid()) + ".json";
};

MachineLimits Sample() {
  MachineLimits m{"a cpu", "2 cores", "avx2", 2, {}};
  m.limits.push_back({"read", 1, 1 << 20, 60.5, 58.25, "GB/s", "loads"});
  m.limits.push_back({"read", 1, 1 << 29, 13.5, 13.25, "GB/s", "loads"});
  m.limits.push_back({"read", 2, 1 << 29, 24.5, 20.25, "GB/s", "loads"});
  m.limits.push_back({"bf16", 2, 0, 180.0, 170.0, "GFLOP/s", "fma"});
  return m;
}

TEST_F(MachineLimitsTest, AProfileReadsBackAsItWasWritten) {
  const MachineLimits sample = Sample();
  auto read = ReadProfile(Write(DumpJson(ToJson(sample), {.indent = 1})));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->cpu, "a cpu");
  EXPECT_EQ(read->cores, 2);
  ASSERT_EQ(read->limits.size(), sample.limits.size());
  for (size_t i = 0; i < sample.limits.size(); ++i) {
    EXPECT_EQ(read->limits[i].name, sample.limits[i].name);
    EXPECT_EQ(read->limits[i].threads, sample.limits[i].threads);
    EXPECT_EQ(read->limits[i].bytes, sample.limits[i].bytes);
    EXPECT_EQ(read->limits[i].value, sample.limits[i].value);
    EXPECT_EQ(read->limits[i].median, sample.limits[i].median);
    EXPECT_EQ(read->limits[i].unit, sample.limits[i].unit);
  }
}

TEST_F(MachineLimitsTest, MemoryIsTheLargestSetAndTheNearestThreadCountBelow) {
  const MachineLimits sample = Sample();
  EXPECT_EQ(sample.Memory(1)->value, 13.5);
  EXPECT_EQ(sample.Memory(3)->value, 24.5);
  EXPECT_EQ(sample.Find("bf16", 1), nullptr);
  EXPECT_EQ(sample.Find("bf16", 2)->value, 180.0);
}

TEST_F(MachineLimitsTest, TheCostTableIsMadeOfTheMedians) {
  MachineLimits sample = Sample();
  EXPECT_TRUE(CostTableOf(sample)->exchanges.empty()) << "older profiles have no exchanges";
  sample.limits.push_back({"barrier", 2, 0, 140, 150, "ns", "flags"});
  sample.limits.push_back({"all_reduce_phase", 2, 0, 400, 450, "ns", "direct"});
  sample.limits.push_back({"all_reduce_phase", 4, 0, 500, 550, "ns", "direct"});
  sample.limits.push_back({"all_reduce_kib", 2, 0, 30, 35, "ns/KiB", "direct"});
  EXPECT_FALSE(CostTableOf(sample).ok());
  EXPECT_EQ(CostTableOf(sample).status().message(),
            "limit \"all_reduce_kib\" of direct for 4 threads is missing");
  sample.limits.push_back({"all_reduce_kib", 4, 0, 40, 45, "ns/KiB", "direct"});
  const auto read = ReadProfile(Write(DumpJson(ToJson(sample))));
  ASSERT_TRUE(read.ok()) << read.status().message();
  const plan::CostTable costs = *CostTableOf(*read);
  EXPECT_EQ(costs.exchanges,
            (std::vector<plan::ExchangeCost>{{"all_reduce", "direct", 2, 450, 35},
                                             {"all_reduce", "direct", 4, 550, 45}}));
  EXPECT_EQ(costs.meetings, (std::vector<plan::MeetingCost>{{2, 150}}));
  EXPECT_DOUBLE_EQ(costs.weight_kib_ns, 1024 / sample.Memory(64)->median) << "of all threads";
  EXPECT_EQ(costs.walk_kib_ns, 0) << "older profiles have no walk";
}

TEST_F(MachineLimitsTest, OtherFilesAreRefusedByName) {
  for (const char* text :
       {"{}", "[]", "{\"schema\": \"weft-machine-1\"}", "nonsense",
        "{\"schema\": \"weft-machine-1\", \"limits\": [{\"name\": \"read\", \"value\": 0}]}"}) {
    const auto read = ReadProfile(Write(text));
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.status().message().find("--profile " + path_), std::string::npos)
        << read.status().message();
  }
  EXPECT_FALSE(ReadProfile("/no/such/profile.json").ok());
}

TEST(MachineLimits, AMeasurementHasEveryFigureAndIsPositive) {
  auto limits = MeasureMachine(
      {.threads = {1}, .seconds = 0.001, .bytes = 1 << 22, .caches = false, .exchange = false});
  ASSERT_TRUE(limits.ok()) << limits.status().message();
  for (const char* name : {"fp32", "bf16", "int8", "read", "copy"}) {
    const Limit* limit = limits->Find(name, 1);
    ASSERT_NE(limit, nullptr) << name;
    EXPECT_GT(limit->value, 0) << name;
    EXPECT_GE(limit->value, limit->median) << name;
  }
}

}  // namespace
}  // namespace weft::cli
