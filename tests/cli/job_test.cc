#include "cli/job.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace weft::cli {
namespace {

using ::testing::HasSubstr;

TEST(Job, AProcessThatNobodyStartedAsARankIsAlone) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) GTEST_SKIP() << "this test itself is a rank";
  }
  ModelFlags flags;
  NullLog log;
  auto job = Job::Join(&flags, &log);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->link(), nullptr);
  EXPECT_FALSE(job->follows());
  EXPECT_EQ(flags.tensor_parallel_size, 1);
  EXPECT_TRUE(job->Leave({}).ok());
  EXPECT_EQ(job->Leave(Status::Invalid("wrong")).message(), "wrong");
}

// Not as several servers that each hold everything.
TEST(Job, ARankWithoutMpiRefuses) {
  if (HasMpi()) GTEST_SKIP() << "this build has MPI";
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  ModelFlags flags;
  NullLog log;
  const auto job = Job::Join(&flags, &log);
  EXPECT_THAT(RefuseJob("weft bench schedules").message(),
              HasSubstr("weft bench schedules runs in one process"));
  unsetenv("OMPI_COMM_WORLD_SIZE");
  ASSERT_FALSE(job.ok());
  EXPECT_EQ(job.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(job.status().message(), HasSubstr("built without MPI (cmake -DWEFT_MPI=ON)"));
}

}  // namespace
}  // namespace weft::cli
