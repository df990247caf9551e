#include "cli/bench_machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/machine_limits.h"

namespace weft::cli {
namespace {

TEST(BenchMachine, WritesAProfileThatLatencyCanRead) {
  const std::string path =
      testing::TempDir() + "weft_machine_" + std::to_string(getpid()) + ".json";
  CLI::App app;
  const Command run = AddBenchMachine(app);
  app.parse("--threads 1 --seconds 0.01 --bytes 1048576 --output " + path);
  EXPECT_EQ(run(), 0);
  auto limits = ReadProfile(path);
  ASSERT_TRUE(limits.ok()) << limits.status().message();
  EXPECT_NE(limits->Memory(1), nullptr);
  std::remove(path.c_str());
}

TEST(BenchMachine, MoreThreadsThanCoresAreRefused) {
  CLI::App app;
  const Command run = AddBenchMachine(app);
  app.parse("--threads 100000 --seconds 0.01 --bytes 1048576");
  EXPECT_EQ(run(), 1);
}

}  // namespace
}  // namespace weft::cli
