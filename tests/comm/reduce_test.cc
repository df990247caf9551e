// All-reduce and reduce-scatter: every method, every number of ranks, the same bits.
#include <gtest/gtest.h>

#include <numeric>

#include "comm/reference.h"
#include "reduce_case.h"

namespace weft::comm {
namespace {

std::string Name(const ReduceShape& s) {
  return fmt::format("ranks {} leaves {} rows {} cols {} {} offset {}", s.ranks, s.leaves, s.rows,
                     s.cols, NameOf(s.dtype), s.offset);
}

// Contract == tree over all leaves; each method that does not refuse == contract; counted bytes ==
// the method's formula == the closed form over all ranks. Returns how many methods ran.
int CheckAll(Collective kind, const ReduceShape& shape, Rng* rng) {
  const kernels::ScopedFlushDenormals flush;
  ReduceCase test(shape);
  const std::vector<ReduceArgs> members = test.Args(kind);
  test.Reset();
  kind == Collective::kAllReduce ? AllReduceRef(members) : ReduceScatterRef(members);
  const auto expected = test.Results();
  for (int rank = 0; rank < shape.ranks; ++rank) {
    EXPECT_EQ(expected[rank], test.Expected(kind, rank)) << "contract, rank " << rank;
  }
  const int64_t elements = shape.rows * shape.cols;
  const int64_t width = FactsOf(shape.dtype).block_bytes;
  int ran = 0;
  for (const auto* method :
       kind == Collective::kAllReduce ? AllReduceMethods() : ReduceScatterMethods()) {
    if (!method->refuse(members[0]).empty()) continue;
    ++ran;
    test.Reset();
    const std::vector<int64_t> bytes = RunShuffled(*method, members, rng);
    EXPECT_EQ(test.Results(), expected) << method->name << ' ' << Name(shape);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      EXPECT_EQ(bytes[rank], method->bytes(members[rank]))
          << method->name << " rank " << rank << ' ' << Name(shape);
    }
    // Over all ranks: each root of each element crosses to every member that finishes the element
    // and does not hold it; a rounded element crosses to the ranks - 1 others.
    int64_t finished = 0;
    if (method->name == "direct" && kind == Collective::kAllReduce) {
      finished = elements * test.layout().count() * (shape.ranks - 1) * 4;
    } else if (method->name == "halving") {
      finished = elements * (shape.ranks - 1) * 4;
    } else if (test.layout().count() == shape.ranks) {
      finished = elements * (shape.ranks - 1) * 4;  // one root each
    } else {
      continue;
    }
    const int64_t gathered = kind == Collective::kAllReduce && method->name != "direct"
                                 ? elements * (shape.ranks - 1) * width
                                 : 0;
    EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}), finished + gathered)
        << method->name << ' ' << Name(shape);
  }
  return ran;
}

TEST(AllReduce, EveryMethodGivesTheTreesBits) {
  Rng rng(11);
  int ran = 0, cases = 0;
  for (int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
    for (int leaves : {1, 2, 9, 12, 16}) {
      for (int64_t cols : {1, 7, 16, 1000, 4097}) {
        const int64_t rows = cols > 1000 ? 1 : 3;
        ran += CheckAll(Collective::kAllReduce,
                        {.ranks = ranks,
                         .leaves = leaves,
                         .rows = rows,
                         .cols = cols,
                         .dtype = rng.Below(2) ? DType::kBF16 : DType::kF32,
                         .bias = rng.Below(3) > 0,
                         .offset = static_cast<int>(rng.Below(4)),
                         .seed = rng.Next()},
                        &rng);
        ++cases;
      }
    }
  }
  // direct and two_shot never refuse; halving runs where 16 leaves meet 2, 4, 8 or 16 ranks, and
  // where 2 leaves meet 2 ranks.
  EXPECT_GE(ran, 2 * cases + 4 * 5 + 5);
}

TEST(ReduceScatter, EveryMethodGivesTheTreesBitsAtTheOwner) {
  Rng rng(12);
  for (int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
    for (int leaves : {1, 9, 16}) {
      for (int64_t rows : {0, 1, 7, 33}) {  // fewer rows than ranks: owners without rows
        for (int64_t cols : {1, 16, 200}) {
          ReduceShape shape{.ranks = ranks,
                            .leaves = leaves,
                            .rows = rows,
                            .cols = cols,
                            .dtype = rng.Below(2) ? DType::kBF16 : DType::kF32,
                            .bias = rng.Below(3) > 0,
                            .offset = static_cast<int>(rng.Below(4)),
                            .seed = rng.Next()};
          CheckAll(Collective::kReduceScatter, shape, &rng);
          // The v-form: any owners, as FC2's chunks are.
          shape.starts = {0};
          for (int i = 1; i < ranks; ++i) {
            shape.starts.push_back(static_cast<int64_t>(rng.Below(rows + 1)));
          }
          shape.starts.push_back(rows);
          std::sort(shape.starts.begin(), shape.starts.end());
          CheckAll(Collective::kReduceScatter, shape, &rng);
        }
      }
    }
  }
}

TEST(AllReduce, ResultsDoNotDependOnTheNumberOfRanks) {
  std::vector<std::byte> one;
  for (int ranks : {1, 2, 3, 4, 6, 8, 16}) {
    ReduceCase test({.ranks = ranks, .leaves = 16, .rows = 2, .cols = 100, .seed = 5});
    test.Reset();
    Rng rng(1);
    RunShuffled(*AllReduceMethods()[1], test.Args(Collective::kAllReduce), &rng);
    if (one.empty()) one = test.Results()[0];
    for (const auto& y : test.Results()) EXPECT_EQ(y, one) << ranks << " ranks";
  }
}

// Negative controls: what rule 6 forbids must be seen by the comparison above.
TEST(AllReduce, RoundingPartialsBeforeTheExchangeWouldShow) {
  ReduceCase test({.ranks = 4, .leaves = 16, .rows = 1, .cols = 1000});
  test.Reset();
  for (auto& plane : test.root_memory()) {
    for (float& x : plane) x = ToFloat(ToBf16(x));
  }
  Rng rng(1);
  RunShuffled(*AllReduceMethods()[0], test.Args(Collective::kAllReduce), &rng);
  EXPECT_NE(test.Results()[0], test.Expected(Collective::kAllReduce, 0));
}

TEST(AllReduce, AddingInRankOrderWouldShow) {
  ReduceCase test({.ranks = 4, .leaves = 16, .rows = 1, .cols = 1000, .dtype = DType::kF32});
  test.Reset();
  std::vector<ReduceArgs> members = test.Args(Collective::kAllReduce);
  const uint8_t in_rank_order[] = {0, 1, 1, 1};
  for (ReduceArgs& a : members) a.merges = in_rank_order;
  Rng rng(1);
  EXPECT_NE(AllReduceMethods()[2]->refuse(members[0]), "") << "halving adds by the tree only";
  RunShuffled(*AllReduceMethods()[0], members, &rng);
  EXPECT_NE(test.Results()[0], test.Expected(Collective::kAllReduce, 0));
}

TEST(Methods, RefuseWithTheNumberThatDecided) {
  const auto reason = [](int ranks, int leaves) {
    ReduceCase test({.ranks = ranks, .leaves = leaves});
    return AllReduceMethods()[2]->refuse(test.Args(Collective::kAllReduce)[0]);
  };
  EXPECT_EQ(reason(8, 16), "");
  EXPECT_NE(reason(6, 16).find("6 ranks"), std::string::npos) << reason(6, 16);
  EXPECT_NE(reason(4, 12).find("roots on 4 ranks"), std::string::npos) << reason(4, 12);
  EXPECT_NE(reason(4, 3).find("roots on 4 ranks"), std::string::npos) << reason(4, 3);
}

TEST(Methods, AreChosenByNameOrByOrder) {
  ReduceCase test({.ranks = 3, .leaves = 16});
  const ReduceArgs a = test.Args(Collective::kAllReduce)[0];
  EXPECT_EQ(Choose(AllReduceMethods(), a)->name, "direct");
  EXPECT_EQ(Choose(AllReduceMethods(), a, "two_shot")->name, "two_shot");
  EXPECT_EQ(Choose(AllReduceMethods(), a, "halving"), nullptr);
  EXPECT_EQ(Choose(AllReduceMethods(), a, "ring"), nullptr);
}

}  // namespace
}  // namespace weft::comm
