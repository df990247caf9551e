// Acceptance facts of upstream's own tests, by their rows in spec communication 7.
#include "plan/upstream_rules.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace weft::plan {
namespace {

// Two members: rank 0 keeps layers 0 and 2, rank 1 the others.
TEST(LayerSharding, Row28LayersAreDealtOutInTurn) {
  for (int layer = 0; layer < 4; ++layer)
    EXPECT_EQ(LayerOwner(layer, 2), layer % 2 == 0 ? 0 : 1) << layer;
  // 61 layers over 16 members: four at most on one.
  std::vector<int> kept(16, 0);
  for (int layer = 0; layer < 61; ++layer) ++kept[LayerOwner(layer, 16)];
  EXPECT_EQ(*std::max_element(kept.begin(), kept.end()), 4);
  EXPECT_EQ(std::accumulate(kept.begin(), kept.end(), 0), 61);
}

TEST(LayerSharding, Row31OnlyHiddenLayersAreDealtOut) {
  struct Row {
    int layer;
    bool hidden;
  };
  for (const Row& row : {Row{0, true}, Row{10, true}, Row{31, true}, Row{32, false}, Row{40, false},
                         Row{-1, false}}) {
    EXPECT_EQ(IsDealtOut(row.layer, 32), row.hidden) << row.layer;
  }
}

TEST(Padding, Row41FiveTokensOnFourRanksAreEightRows) {
  struct Row {
    int64_t rows;
    int ranks;
    int64_t padded;
  };
  for (const Row& row :
       {Row{5, 4, 8}, Row{8, 4, 8}, Row{1, 8, 8}, Row{0, 4, 0}, Row{7, 1, 7}, Row{13, 6, 18}}) {
    EXPECT_EQ(PaddedRows(row.rows, row.ranks), row.padded) << row.rows << " on " << row.ranks;
  }
}

// Section 2.2: with data parallelism every replica pads to the largest one.
TEST(Padding, ReplicasPadToTheLargestOne) {
  EXPECT_EQ(PaddedRows(3, 4, 9), 12);
  EXPECT_EQ(PaddedRows(9, 4, 3), 12);
  EXPECT_EQ(PaddedRows(0, 4, 9), 12);
  EXPECT_EQ(PaddedShare(3, 1, 4, 9), (RowShare{3, 6}));
}

// Two ranks, rank 1; no and five tokens.
TEST(Padding, Row46ALocalSplitAndItsWayBack) {
  EXPECT_EQ(PaddedRows(0, 2) - 0, 0);
  EXPECT_EQ(PaddedShare(0, 1, 2).size(), 0);
  EXPECT_EQ(PaddedRows(5, 2) - 5, 1);
  EXPECT_EQ(PaddedShare(5, 1, 2), (RowShare{3, 6}));
  for (const int ranks : {1, 2, 3, 4, 6, 8, 12, 16}) {
    for (const int rows : {0, 1, 5, 16, 100}) {
      std::vector<int> values(rows), gathered;
      std::iota(values.begin(), values.end(), 100);
      std::vector<int> padded = values;
      padded.resize(PaddedRows(rows, ranks), 0);
      for (int r = 0; r < ranks; ++r) {
        const RowShare share = PaddedShare(rows, r, ranks);
        EXPECT_EQ(share.size(), PaddedShare(rows, 0, ranks).size());
        gathered.insert(gathered.end(), padded.begin() + share.begin, padded.begin() + share.end);
      }
      gathered.resize(rows);
      EXPECT_EQ(gathered, values) << rows << " on " << ranks;
    }
  }
}

// Three tokens and one of padding on two ranks: four zero-padded rows into the reduce-scatter, two
// out.
TEST(Padding, Row47TheReduceScatterTakesFourRowsAndGivesTwo) {
  EXPECT_EQ(PaddedRows(3, 2), 4);
  for (const int rank : {0, 1}) EXPECT_EQ(PaddedShare(3, rank, 2).size(), 2);
  EXPECT_EQ(PaddedShare(3, 1, 2), (RowShare{2, 4}));  // its second row is padding
}

TEST(CudaSp, Row50EightMebibytesForEachRank) {
  struct Row {
    int capability;
    int64_t hidden;
    int ranks, element_bytes;
    std::optional<int64_t> tokens;
  };
  for (const Row& row :
       {Row{90, 8192, 1, 2, 512}, Row{90, 16384, 1, 2, 256}, Row{90, 8192, 2, 2, 1024},
        Row{90, 8192, 4, 2, 2048}, Row{90, 8192, 2, 4, 512}, Row{90, 4096, 1, 2, {}},
        Row{80, 8192, 1, 2, {}}, Row{0, 8192, 1, 2, {}}}) {
    EXPECT_EQ(CudaSpMinTokens(row.capability, row.hidden, row.ranks, row.element_bytes), row.tokens)
        << row.capability << " " << row.hidden << " " << row.ranks << " " << row.element_bytes;
  }
}

// Spec, communication 4.1: a row of its table each.
TEST(UpstreamRules, HowRowsGoToExperts) {
  using enum MoeComm;
  struct Row {
    MoeComm wants;
    MoeCommAsk ask;
  };
  const std::vector<Row> rows{
      {kNone, {.experts = 0, .expert_ranks = 16}},
      {kAllGather, {.experts = 256, .expert_ranks = 1, .capacity = 64}},
      {kAllGather, {.soc = Soc::k310P, .experts = 256, .expert_ranks = 16, .capacity = 64}},
      {kMc2, {.soc = Soc::kA2, .experts = 384, .expert_ranks = 16, .tokens = 64, .capacity = 64}},
      {kAllGather,
       {.soc = Soc::kA2, .experts = 400, .expert_ranks = 16, .tokens = 64, .capacity = 64}},
      {kAllGather,
       {.soc = Soc::kA2, .experts = 64, .expert_ranks = 8, .tokens = 64, .capacity = 64}},
      {kAllGather,
       {.soc = Soc::kA2, .experts = 384, .expert_ranks = 16, .tokens = 65, .capacity = 64}},
      {kMc2, {.experts = 256, .expert_ranks = 16, .tokens = 64, .capacity = 64}},
      {kAllToAll, {.experts = 256, .expert_ranks = 16, .tokens = 65, .capacity = 64}},
      {kFusedMc2, {.experts = 256, .expert_ranks = 32, .tokens = 65, .capacity = 64, .fused = 1}},
      {kAllToAll, {.experts = 256, .expert_ranks = 64, .tokens = 65, .capacity = 64, .fused = 1}},
      {kMc2, {.experts = 256, .expert_ranks = 64, .tokens = 64, .capacity = 64, .fused = 1}},
      {kFusedMc2,
       {.experts = 256,
        .expert_ranks = 16,
        .tokens = 64,
        .capacity = 64,
        .fused = 2,
        .w8a8_dynamic = true}},
      {kMc2, {.experts = 256, .expert_ranks = 16, .tokens = 64, .capacity = 64, .fused = 2}},
      {kMc2,
       {.experts = 256,
        .expert_ranks = 16,
        .tokens = 64,
        .capacity = 64,
        .fused = 2,
        .w8a8_dynamic = true,
        .draft_allows = false}},
      {kAllToAll,
       {.experts = 256,
        .expert_ranks = 16,
        .tokens = 65,
        .capacity = 64,
        .fused = 2,
        .w8a8_dynamic = true}},
      {kMc2,
       {.soc = Soc::kA5,
        .experts = 256,
        .expert_ranks = 4,
        .world = 4,
        .top_k = 8,
        .tokens = 64,
        .capacity = 64}},
      {kAllGather,
       {.soc = Soc::kA5,
        .experts = 256,
        .expert_ranks = 8,
        .world = 8,
        .top_k = 8,
        .tokens = 65,
        .capacity = 64}},
      {kAllToAll,
       {.soc = Soc::kA5,
        .experts = 256,
        .expert_ranks = 16,
        .world = 16,
        .top_k = 8,
        .tokens = 65,
        .capacity = 64}},
  };
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(MoeCommOf(rows[i].ask), rows[i].wants) << "row " << i;
}

TEST(UpstreamRules, CapacityOfMc2) {
  EXPECT_EQ(Mc2Capacity({.ranks = 16, .batched_tokens_max = 16384, .capture_max = 128}), 128);
  EXPECT_EQ(Mc2Capacity({.ranks = 16, .batched_tokens_max = 16384, .capture_max = 120}), 128)
      << "whole rows a rank";
  EXPECT_EQ(Mc2Capacity({.ranks = 4, .seqs_max = 24, .draft_tokens = 4}), 120);
  EXPECT_EQ(Mc2Capacity({.ranks = 4, .batched_tokens_max = 16384, .prefill_mc2 = true}), 2048)
      << "512 a rank";
  EXPECT_EQ(Mc2Capacity({.ranks = 4, .batched_tokens_max = 1000, .prefill_mc2 = true}), 1000);
}

}  // namespace
}  // namespace weft::plan
