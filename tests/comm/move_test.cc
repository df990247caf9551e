// All-gather, all-to-all and max-pair against their contracts; FlashComm2's path from end to end.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "comm/parts.h"
#include "comm/reference.h"
#include "window_case.h"

namespace weft::comm {
namespace {

// A matrix in memory of its own, with padded rows, an odd start, and a pattern in the padding.
struct Matrix {
  Matrix(int64_t rows, int64_t cols, DType dtype, int offset, Rng* rng = nullptr)
      : memory((rows * (cols + offset) + offset + 1) * FactsOf(dtype).block_bytes,
               std::byte{0xEE}) {
    if (rng != nullptr) {
      for (std::byte& b : memory) b = static_cast<std::byte>(rng->Next());
    }
    view = {.data = memory.data() + BytesOf(dtype, offset),
            .rows = rows,
            .cols = cols,
            .stride = cols + offset,
            .dtype = dtype};
  }
  std::vector<std::byte> memory;
  View view;
};

std::vector<int64_t> Starts(int64_t n, int parts, Rng* rng) {
  std::vector<int64_t> starts{0};
  for (int i = 1; i < parts; ++i) starts.push_back(static_cast<int64_t>(rng->Below(n + 1)));
  starts.push_back(n);
  std::sort(starts.begin(), starts.end());
  return starts;
}

TEST(AllGather, GathersUnevenRowsAndColumnsOfEveryType) {
  Rng rng(21);
  for (int ranks : {1, 2, 3, 5, 8, 16}) {
    for (int64_t n : {1, 7, 16, 1000, 4097}) {
      for (int dim : {0, 1}) {
        for (DType dtype : {DType::kBF16, DType::kF32, DType::kI8}) {
          const int64_t other = n > 100 ? 3 : 40;
          const std::vector<int64_t> starts = Starts(n, ranks, &rng);
          const int offset = static_cast<int>(rng.Below(4));
          std::vector<Matrix> shards, got, expected;
          std::vector<View> shard_views, expected_views;
          for (int i = 0; i < ranks; ++i) {
            const int64_t own = starts[i + 1] - starts[i];
            shards.emplace_back(dim == 0 ? own : other, dim == 0 ? other : own, dtype, offset,
                                &rng);
            got.emplace_back(dim == 0 ? n : other, dim == 0 ? other : n, dtype, offset);
          }
          expected = got;
          for (int i = 0; i < ranks; ++i) {
            shard_views.push_back(shards[i].view);
            expected[i].view.data = expected[i].memory.data() + BytesOf(dtype, offset);
            expected_views.push_back(expected[i].view);
          }
          AllGatherRef(shard_views, dim, expected_views);
          std::vector<std::vector<Part>> parts(ranks, std::vector<Part>(ranks));
          std::vector<MoveArgs> members;
          for (int i = 0; i < ranks; ++i) {
            const int count = dim == 0 ? GatherRows(shard_views, got[i].view, parts[i])
                                       : GatherCols(shard_views, got[i].view, parts[i]);
            members.push_back({.rank = i, .parts = parts[i].data(), .count = count});
          }
          const auto bytes = RunShuffled(*AllGatherMethods()[0], members, &rng);
          for (int i = 0; i < ranks; ++i) {
            ASSERT_EQ(got[i].memory, expected[i].memory)
                << "rank " << i << " of " << ranks << " n " << n << " dim " << dim;
            const int64_t from_peers = (n - (starts[i + 1] - starts[i])) * other;
            EXPECT_EQ(bytes[i], BytesOf(dtype, from_peers));
            EXPECT_EQ(AllGatherMethods()[0]->bytes(members[i]), bytes[i]);
          }
        }
      }
    }
  }
}

// Row 25 of the acceptance facts (spec/communication.md 7): shapes of a gather along the rows.
TEST(AllGather, Row25ShapesAlongTheRows) {
  struct Row {
    std::vector<int64_t> rows;  // of each rank's shard
    int64_t cols, gathered;
  };
  Rng rng(25);
  for (const Row& row : {Row{{8, 8, 8, 8}, 16, 32}, Row{{8}, 16, 8}, Row{{2, 2, 2, 2}, 16, 8}}) {
    std::vector<Matrix> shards;
    std::vector<View> views;
    for (int64_t n : row.rows) shards.emplace_back(n, row.cols, DType::kBF16, 0, &rng);
    for (const Matrix& shard : shards) views.push_back(shard.view);
    Matrix whole(row.gathered, row.cols, DType::kBF16, 0);
    AllGatherRef(views, 0, {&whole.view, 1});
    int64_t at = 0;
    for (const View& shard : views) {
      for (int64_t r = 0; r < shard.rows; ++r, ++at) {
        EXPECT_TRUE(std::equal(shard.row<uint16_t>(r), shard.row<uint16_t>(r) + row.cols,
                               whole.view.row<uint16_t>(at)));
      }
    }
    EXPECT_EQ(at, row.gathered);
  }
}

TEST(AllGather, AShardThatIsInPlaceIsNotCopied) {
  Rng rng(3);
  Matrix whole(4, 8, DType::kBF16, 0, &rng), peer(2, 8, DType::kBF16, 0, &rng);
  View own = whole.view;
  own.rows = 2;
  const View shards[] = {own, peer.view};
  Part parts[2];
  ASSERT_EQ(GatherRows(shards, whole.view, parts), 1);
  EXPECT_EQ(parts[0].from, 1);
}

TEST(PairMax, EveryRankGetsTheLargestWithTheLowestId) {
  Rng rng(31);
  for (int ranks : {1, 2, 3, 8, 16}) {
    for (int64_t rows : {0, 1, 7, 64}) {
      std::vector<std::vector<kernels::ValueIndex>> shards(ranks), got(ranks), expected(ranks);
      std::vector<const kernels::ValueIndex*> peers;
      for (int r = 0; r < ranks; ++r) {
        for (int64_t row = 0; row < rows; ++row) {
          // Few values, so that ties between ranks are common; some shards empty, some with NaN.
          shards[r].push_back(
              {.value = static_cast<float>(rng.Below(3)) - 1,
               .index = rng.Below(8) == 0 ? -1 : r * 100 + static_cast<int>(rng.Below(5)),
               .has_nan = rng.Below(20) == 0});
        }
        got[r].resize(rows);
        expected[r].resize(rows);
        peers.push_back(shards[r].data());
      }
      std::vector<PairMaxArgs> to_got, to_expected;
      for (int r = 0; r < ranks; ++r) {
        PairMaxArgs a{.rank = r, .ranks = ranks, .rows = rows, .peers = peers.data()};
        a.out = got[r].data();
        to_got.push_back(a);
        a.out = expected[r].data();
        to_expected.push_back(a);
      }
      PairMaxRef(to_expected);
      const auto bytes = RunShuffled(*PairMaxMethods()[0], to_got, &rng);
      for (int r = 0; r < ranks; ++r) {
        EXPECT_EQ(bytes[r], rows * (ranks - 1) * 12);
        EXPECT_EQ(PairMaxMethods()[0]->bytes(to_got[r]), bytes[r]);
        for (int64_t row = 0; row < rows; ++row) {
          EXPECT_EQ(got[r][row].index, expected[r][row].index);
          EXPECT_EQ(got[r][row].value, expected[r][row].value);
          EXPECT_EQ(got[r][row].has_nan, expected[r][row].has_nan);
        }
      }
    }
  }
}

// Who asks before the routes are known hears the most that can be; afterwards what it is. A row
// that meets two experts of a member crosses once.
TEST(DispatchRows, BytesAreThoseOfTheRowsThatAreMet) {
  std::vector<std::byte> rows(4 * 8), out(4 * 8);
  const std::vector<int32_t> ids{0, 1, 2, 3, 0, 3, 1, 2},
      place{0, 1, -1, -1, 2, -1, 3, -1};  // 4 tokens, member 0 has experts 0 and 1
  const HeldRows held[] = {{.from = 0, .begin = 0, .end = 1, .planes = {{rows.data(), 8}}},
                           {.from = 1, .begin = 1, .end = 4, .planes = {{rows.data() + 8, 8}}}};
  DispatchRowsArgs a{.rank = 0,
                     .tokens = 4,
                     .top_k = 2,
                     .first = 0,
                     .count = 2,
                     .place = place.data(),
                     .held = held,
                     .held_count = 2};
  a.bytes[0] = a.to_stride[0] = 8;
  a.to[0] = out.data();
  const Method<DispatchRowsArgs>& direct = *DispatchRowsMethods()[0];
  EXPECT_EQ(direct.bytes(a), 3 * 8);
  a.ids = ids.data();
  EXPECT_EQ(direct.bytes(a), 2 * 8) << "token 1 meets nobody here";
  EXPECT_EQ(direct.run(a, 0, {0, direct.units(a, 0)}), 2 * 8);
  a.count = 0;
  EXPECT_EQ(direct.bytes(a), 0);
  EXPECT_EQ(direct.units(a, 0), 0) << "a member without experts";
}

// Negative control: a row out of another owner's window is not what the contract gives.
TEST(DispatchRows, ARowOfTheWrongOwnerShows) {
  Rng rng(77);
  DispatchCase test(
      DispatchRowsMethods()[0],
      {.tokens = {0, 3, 6}, .experts = {0, 2, 4}, .top_k = 2, .bytes = {64}, .seed = 5});
  std::vector<std::vector<std::byte>> windows;
  std::vector<std::byte*> seen;
  for (int m = 0; m < 2; ++m) {
    test.Fill(m, windows.emplace_back(test.WindowBytes(m)).data());
    seen.push_back(windows[m].data());
  }
  const auto result = [&] {
    test.Run(0, 0, {0, test.Units(0, 0)});
    const auto at = windows[0].begin() + test.ResultOf(0).begin;
    return std::vector<std::byte>(at, at + test.ResultOf(0).bytes);
  };
  test.See(seen);
  EXPECT_EQ(result(), test.Expected(0));
  std::vector<HeldRows> swapped(test.args()[0].held, test.args()[0].held + 2);
  std::swap(swapped[0].planes[0], swapped[1].planes[0]);
  DispatchRowsArgs wrong = test.args()[0];
  wrong.held = swapped.data();
  DispatchRowsMethods()[0]->run(wrong, 0, {0, test.Units(0, 0)});
  const auto at = windows[0].begin() + test.ResultOf(0).begin;
  EXPECT_NE(std::vector<std::byte>(at, at + test.ResultOf(0).bytes), test.Expected(0));
}

// Features cut over all ranks -> all-to-all on odp -> [own chunks, features of the otp member] ->
// reduce-scatter on otp over the rows of the chunks -> row chunk r at rank r. Spec 3.3, uneven
// rows.
TEST(FlashComm2, AllToAllThenReduceScatterEndsInFlashComm1sLayout) {
  Rng rng(41);
  const std::vector<int> otp_axis{0}, odp_axis{1}, order{0, 1};
  for (auto [ranks, otp] : {std::pair{4, 2}, {4, 1}, {8, 2}, {8, 4}, {6, 3}, {6, 2}, {12, 4}}) {
    const Mesh mesh = std::move(Mesh::OtpOdp(ranks, otp).value());
    constexpr int64_t kRows = 13;
    constexpr int64_t kCols = 5;  // per rank
    // x[t][f] over all features, so that what arrives where can be told from its value.
    const auto value = [](int64_t t, int64_t f) { return static_cast<int32_t>(t * 1000 + f); };
    std::vector<Matrix> slices;
    for (int r = 0; r < ranks; ++r) {
      slices.emplace_back(kRows, kCols, DType::kI32, 1);
      for (int64_t t = 0; t < kRows; ++t) {
        for (int64_t f = 0; f < kCols; ++f) {
          slices[r].view.row<int32_t>(t)[f] = value(t, r * kCols + f);
        }
      }
    }
    for (int r = 0; r < ranks; ++r) {
      const std::vector<int> group = mesh.GroupOf(r, odp_axis);
      std::vector<RowChunk> chunks;
      int64_t rows = 0;
      for (int chunk : mesh.ChunksOf(r, order, odp_axis)) {
        chunks.push_back({OwnedBegin(kRows, chunk, ranks), OwnedBegin(kRows, chunk + 1, ranks)});
        rows += chunks.back().end - chunks.back().begin;
      }
      std::vector<View> sources;
      for (int member : group) sources.push_back(slices[member].view);
      Matrix mine(rows, kCols * static_cast<int64_t>(group.size()), DType::kI32, 2);
      Matrix contract = mine;
      contract.view.data = contract.memory.data() + 8;
      std::vector<Part> parts(group.size() * chunks.size());
      const int count = ExchangeChunks(sources, chunks, mine.view, parts);
      const std::vector<MoveArgs> me{
          {.rank = mesh.PlaceOf(r, odp_axis), .parts = parts.data(), .count = count}};
      const auto bytes = RunShuffled(*AllToAllMethods()[0], me, &rng);
      // (Q-1)/Q of what a rank ends up with came from its peers.
      EXPECT_EQ(bytes[0], rows * kCols * 4 * static_cast<int64_t>(group.size() - 1));
      const std::span<const RowChunk> spans[] = {chunks};
      AllToAllRef(sources, spans, {&contract.view, 1});
      EXPECT_EQ(mine.memory, contract.memory);

      // Features are those of otp member j, side by side: weight slice j.
      const int j = mesh.PlaceOf(r, otp_axis);
      int64_t row = 0;
      for (size_t c = 0; c < chunks.size(); ++c) {
        for (int64_t t = chunks[c].begin; t < chunks[c].end; ++t, ++row) {
          for (int64_t f = 0; f < mine.view.cols; ++f) {
            ASSERT_EQ(mine.view.row<int32_t>(row)[f], value(t, j * mine.view.cols + f));
          }
        }
      }
      // The reduce-scatter on otp hands its j-th chunk to member j, and that is chunk r.
      EXPECT_EQ(mesh.ChunksOf(r, order, odp_axis)[j], r);
    }
  }
}

}  // namespace
}  // namespace weft::comm
