// Covers src/fused/matmul_all_reduce_norm.cc src/fused/matmul_reduce_scatter.cc
// Fused steps on real threads, more of them than this machine has cores: the bits of their chains.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "device/team.h"
#include "fused_case.h"
#include "tensor/fused_limits.h"

namespace weft::fused {
namespace {

using Shapes = std::vector<FusedShape>;

struct Outcome {
  std::vector<Status> statuses;
  int64_t bytes = 0;
};

// `steps` times on all workers; what they read of a step's results is compared by the caller.
template <typename Step>
Outcome OnThreads(const FusedShape& shape, int steps, int64_t timeout_ns, const Step& step) {
  TileFlags flags({.workers = std::vector<int>(shape.ranks, shape.workers), .spin_ns = 0});
  device::Barrier barrier(shape.ranks * shape.workers, {.spin_ns = 0});
  auto team = device::Team::Create({.workers = shape.ranks * shape.workers, .spin_ns = 0});
  EXPECT_TRUE(team.ok());
  Outcome run{std::vector<Status>(shape.ranks * shape.workers), 0};
  std::vector<FusedWork> work(run.statuses.size());
  for (int i = 0; i < steps; ++i) {
    auto job = [&](int who) {
      const device::WaitSite site{SteadyNowNs() + timeout_ns, 3, "step"};
      run.statuses[who] =
          step(flags, barrier, who / shape.workers, who % shape.workers, site, &work[who]);
    };
    (*team)->RunEach(job);
  }
  for (const FusedWork& w : work) run.bytes += w.bytes;
  return run;
}

void ExpectOk(const Outcome& run) {
  for (const Status& s : run.statuses) EXPECT_TRUE(s.ok()) << s.message();
}

constexpr int64_t kPatience = 60 * kNsPerSecond;

std::string NameOf(const FusedShape& s) {
  return fmt::format("{} ranks x {}, {} rows of {}, {} leaves, {}, {}{}{}", s.ranks, s.workers,
                     s.rows, s.n, s.leaves.count(), weft::NameOf(s.weight), s.method,
                     s.each ? ", each" : "", s.in_place ? "" : ", moved");
}

void CheckNorm(const FusedShape& shape) {
  SCOPED_TRACE(NameOf(shape));
  FusedCase test(shape);
  ExpectOk(OnThreads(shape, 1, kPatience,
                     [&](TileFlags&, device::Barrier& barrier, int rank, int worker,
                         const device::WaitSite&, FusedWork*) {
                       test.RunNormChain(rank, worker, [&] {
                         EXPECT_TRUE(barrier.Wait(rank * shape.workers + worker).ok());
                       });
                       return Status::Ok();
                     }));
  const auto expected = test.Results();
  EXPECT_EQ(std::count(expected.begin(), expected.end(), expected[0]),
            static_cast<int64_t>(expected.size()) / 2)
      << "all ranks have the same";

  test.Reset();
  const Outcome run = OnThreads(shape, 1, kPatience,
                                [&](TileFlags& flags, device::Barrier&, int rank, int worker,
                                    const device::WaitSite& site, FusedWork* work) {
                                  return RunMatmulAllReduceNorm(test.NormStep(rank, worker), flags,
                                                                site, work, nullptr);
                                });
  ExpectOk(run);
  EXPECT_TRUE(test.Results() == expected);

  // As the reference walks it: stage by stage, rank by rank, in one thread.
  test.Reset();
  int64_t bytes = 0;
  for (int stage = 0; stage < StagesOf(test.NormStep(0, 0)); ++stage) {
    for (int r = 0; r < shape.ranks; ++r) {
      for (int w = 0; w < shape.workers; ++w) bytes += RunStage(test.NormStep(r, w), stage).bytes;
    }
  }
  EXPECT_TRUE(test.Results() == expected) << "in one thread";
  EXPECT_EQ(bytes, run.bytes);
}

TEST(MatmulAllReduceNorm, GivesTheBitsOfItsSteps) {
  for (const int ranks : {2, 3, 4, 6, 8}) {
    for (const char* method : {"direct", "two_shot"}) {
      for (const int64_t rows : {1, 2, 3, 5, 8, 17, 40}) {
        for (const int workers : {1, 2}) {
          CheckNorm({.ranks = ranks,
                     .workers = workers,
                     .rows = rows,
                     .n = 96,
                     .leaves = LeafTable::Make(288, 32),
                     .method = method,
                     .seed = static_cast<uint32_t>(rows)});
        }
      }
    }
  }
}

// One row of a wide model is cut into tiles, whose last is uneven; ranks without a leaf still
// finish.
TEST(MatmulAllReduceNorm, OfOddShapes) {
  EXPECT_EQ(TilesOf(1, 1160), 2);
  for (const DType weight : {DType::kBF16, DType::kF32, DType::kQ4_1}) {
    const DType dtype = weight == DType::kF32 ? DType::kF32 : DType::kBF16;
    for (const char* method : {"direct", "two_shot"}) {
      for (const int workers : {1, 2}) {
        for (const bool in_place : {true, false}) {
          const FusedShape shape{.ranks = 3,
                                 .workers = workers,
                                 .rows = 1,
                                 .n = 1160,
                                 .leaves = LeafTable::Make(224, 32),
                                 .weight = weight,
                                 .dtype = dtype,
                                 .bias = in_place,
                                 .in_place = in_place,
                                 .method = method};
          CheckNorm(shape);
          FusedShape few = shape;
          few.leaves = LeafTable::Make(64, 32);
          few.rows = 7;
          few.n = 30;
          CheckNorm(few);
          if (std::string_view(method) != "direct") continue;
          few.each = true;
          CheckNorm(few);
        }
      }
    }
  }
}

// Window after window without a meeting between: a rank may be a whole step ahead.
TEST(MatmulAllReduceNorm, StepsFollowOneAnother) {
  const FusedShape shape{.ranks = 3, .rows = 2, .n = 64, .leaves = LeafTable::Make(96, 32)};
  std::vector<std::unique_ptr<FusedCase>> windows;
  for (uint32_t i = 0; i < 2; ++i) {
    FusedShape one = shape;
    one.seed = i + 5;
    windows.push_back(std::make_unique<FusedCase>(one));
  }
  ExpectOk(OnThreads(shape, 1, kPatience,
                     [&](TileFlags&, device::Barrier& barrier, int rank, int worker,
                         const device::WaitSite&, FusedWork*) {
                       for (const auto& window : windows) {
                         for (int i = 0; i < 20; ++i)
                           window->RunNormChain(rank, worker,
                                                [&] { EXPECT_TRUE(barrier.Wait(rank).ok()); });
                       }
                       return Status::Ok();
                     }));
  const auto first = windows[0]->Results(), second = windows[1]->Results();
  for (const auto& window : windows) window->Reset();
  ExpectOk(OnThreads(shape, 1, kPatience,
                     [&](TileFlags& flags, device::Barrier&, int rank, int worker,
                         const device::WaitSite& site, FusedWork* work) {
                       for (int i = 0; i < 20; ++i) {
                         for (const auto& window : windows)
                           WEFT_RETURN_IF_ERROR(RunMatmulAllReduceNorm(
                               window->NormStep(rank, worker), flags, site, work, nullptr));
                       }
                       return Status::Ok();
                     }));
  EXPECT_TRUE(windows[0]->Results() == first);
  EXPECT_TRUE(windows[1]->Results() == second);
}

TEST(MatmulAllReduceNorm, NamesTheRankThatStalls) {
  const FusedShape shape{.ranks = 3, .rows = 2, .n = 64, .leaves = LeafTable::Make(96, 32)};
  FusedCase test(shape);
  const Outcome run = OnThreads(shape, 1, 100 * kNsPerMs,
                                [&](TileFlags& flags, device::Barrier&, int rank, int worker,
                                    const device::WaitSite& site, FusedWork* work) {
                                  if (rank == 1) return Status::Ok();
                                  return RunMatmulAllReduceNorm(test.NormStep(rank, worker), flags,
                                                                site, work, nullptr);
                                });
  for (const int rank : {0, 2}) {
    EXPECT_EQ(run.statuses[rank].code(), StatusCode::kDeadline);
    EXPECT_NE(run.statuses[rank].message().find("for tile 1 of rank 1 at step 3 (step)"),
              std::string::npos)
        << run.statuses[rank].message();
  }
}

TEST(MatmulAllReduceNorm, RefusesByShape) {
  EXPECT_EQ(RefuseMatmulAllReduceNorm(kFusedNormRowsMax, 2), "");
  EXPECT_EQ(RefuseMatmulAllReduceNorm(kFusedNormRowsMax + 1, 2), "rows 41 > 40");
  EXPECT_EQ(RefuseMatmulAllReduceNorm(1, 1), "one rank has nothing to exchange");
}

void CheckScatter(const FusedShape& shape) {
  SCOPED_TRACE(NameOf(shape));
  FusedCase test(shape);
  ExpectOk(OnThreads(shape, 1, kPatience,
                     [&](TileFlags&, device::Barrier& barrier, int rank, int worker,
                         const device::WaitSite&, FusedWork*) {
                       test.RunScatterChain(rank, worker, [&] {
                         EXPECT_TRUE(barrier.Wait(rank * shape.workers + worker).ok());
                       });
                       return Status::Ok();
                     }));
  const auto expected = test.Sums();
  test.Reset();
  ExpectOk(OnThreads(shape, 1, kPatience,
                     [&](TileFlags& flags, device::Barrier&, int rank, int worker,
                         const device::WaitSite& site, FusedWork* work) {
                       return RunMatmulReduceScatter(test.ScatterStep(rank, worker), flags, site,
                                                     work, nullptr);
                     }));
  EXPECT_TRUE(test.Sums() == expected);
  test.Reset();
  for (int stage = 0; stage < kScatterStages; ++stage) {
    for (int r = 0; r < shape.ranks; ++r) {
      for (int w = 0; w < shape.workers; ++w) RunStage(test.ScatterStep(r, w), stage);
    }
  }
  EXPECT_TRUE(test.Sums() == expected) << "in one thread";
}

TEST(MatmulReduceScatter, GivesTheBitsOfItsSteps) {
  for (const int ranks : {2, 3, 4, 6, 8}) {
    for (const int64_t rows : {1, 5, 31, 40, 128}) {
      for (const int workers : {1, 2}) {
        CheckScatter({.ranks = ranks,
                      .workers = workers,
                      .rows = rows,
                      .n = 48,
                      .leaves = LeafTable::Make(288, 32),
                      .seed = static_cast<uint32_t>(rows)});
      }
    }
  }
  for (const int64_t rows : {999, 1000, 1001}) {
    CheckScatter({.ranks = 3,
                  .workers = 2,
                  .rows = rows,
                  .n = 30,
                  .leaves = LeafTable::Make(64, 32),
                  .weight = DType::kQ4_1});
    CheckScatter({.ranks = 2,
                  .rows = rows,
                  .n = 48,
                  .leaves = LeafTable::Make(96, 32),
                  .weight = DType::kF32,
                  .dtype = DType::kF32});
  }
}

TEST(MatmulReduceScatter, NamesTheRankThatStallsAndRefusesByShape) {
  const FusedShape shape{.ranks = 2, .rows = 8, .n = 48, .leaves = LeafTable::Make(96, 32)};
  FusedCase test(shape);
  const Outcome run = OnThreads(shape, 1, 100 * kNsPerMs,
                                [&](TileFlags& flags, device::Barrier&, int rank, int worker,
                                    const device::WaitSite& site, FusedWork* work) {
                                  if (rank == 1) return Status::Ok();
                                  return RunMatmulReduceScatter(test.ScatterStep(rank, worker),
                                                                flags, site, work, nullptr);
                                });
  EXPECT_NE(run.statuses[0].message().find("rank 0 waited 0.1 s for tile 1 of rank 1"),
            std::string::npos)
      << run.statuses[0].message();
  EXPECT_EQ(RefuseMatmulReduceScatter(kFusedScatterRowsMin - 1, 2), "rows 127 < 128");
  EXPECT_EQ(RefuseMatmulReduceScatter(kFusedScatterRowsMin, 2), "");
}

}  // namespace
}  // namespace weft::fused
