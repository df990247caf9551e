#include "comm/parts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace weft::comm {
namespace {

// A matrix of bytes with a stride wider than its rows.
struct ByteMatrix {
  ByteMatrix(int64_t r, int64_t c, int first = 0, int64_t gap = 3)
      : rows(r), cols(c), stride(c + gap), bytes(static_cast<size_t>(r * stride) + 1, 0xEE) {
    for (int64_t i = 0; i < r; ++i) {
      for (int64_t j = 0; j < c; ++j) at(i, j) = static_cast<uint8_t>(first + i * c + j);
    }
  }
  uint8_t& at(int64_t i, int64_t j) { return bytes[static_cast<size_t>(i * stride + j)]; }
  View view() {
    return {
        .data = bytes.data(), .rows = rows, .cols = cols, .stride = stride, .dtype = DType::kU8};
  }

  int64_t rows, cols, stride;
  std::vector<uint8_t> bytes;
};

void Copy(std::span<const Part> parts, int count) {
  for (int p = 0; p < count; ++p) {
    const Part& part = parts[static_cast<size_t>(p)];
    for (int64_t r = 0; r < part.rows; ++r) {
      std::memcpy(static_cast<std::byte*>(part.to) + r * part.to_stride,
                  static_cast<const std::byte*>(part.data) + r * part.stride,
                  static_cast<size_t>(part.bytes));
    }
  }
}

TEST(Parts, GatherRowsPutsTheShardsUnderEachOther) {
  ByteMatrix a(2, 5, 10), none(0, 5), b(3, 5, 50), whole(5, 5);
  const View shards[] = {a.view(), none.view(), b.view()};
  std::vector<Part> parts(3);
  const int count = GatherRows(shards, whole.view(), parts);
  EXPECT_EQ(count, 2) << "an empty shard is no part";
  EXPECT_EQ(parts[1].from, 2);
  Copy(parts, count);
  for (int j = 0; j < 5; ++j) {
    EXPECT_EQ(whole.at(1, j), a.at(1, j));
    EXPECT_EQ(whole.at(4, j), b.at(2, j));
  }
  EXPECT_EQ(whole.bytes[5], 0xEE) << "nothing between the rows is written";
}

TEST(Parts, GatherColsPutsTheShardsSideBySide) {
  ByteMatrix a(3, 2, 10), b(3, 4, 50), whole(3, 6);
  const View shards[] = {a.view(), b.view()};
  std::vector<Part> parts(2);
  Copy(parts, GatherCols(shards, whole.view(), parts));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(whole.at(i, 1), a.at(i, 1));
    EXPECT_EQ(whole.at(i, 2), b.at(i, 0));
    EXPECT_EQ(whole.at(i, 5), b.at(i, 3));
  }
}

TEST(Parts, ExchangeChunksTakesItsRowsOfEverySource) {
  ByteMatrix a(6, 2, 10), b(6, 3, 100), mine(3, 5);
  const View sources[] = {a.view(), b.view()};
  const RowChunk chunks[] = {{1, 2}, {3, 3}, {4, 6}};
  std::vector<Part> parts(6);
  const int count = ExchangeChunks(sources, chunks, mine.view(), parts);
  EXPECT_EQ(count, 4) << "two sources, two chunks that are not empty";
  Copy(parts, count);
  const int rows[] = {1, 4, 5};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(mine.at(i, 0), a.at(rows[i], 0));
    EXPECT_EQ(mine.at(i, 4), b.at(rows[i], 2));
  }
}

TEST(Parts, WhatLiesInPlaceIsLeftOut) {
  ByteMatrix whole(4, 3), b(2, 3, 70);
  View first = whole.view();
  first.rows = 2;
  const View shards[] = {first, b.view()};
  std::vector<Part> parts(2);
  EXPECT_EQ(GatherRows(shards, whole.view(), parts), 1);
  EXPECT_EQ(parts[0].from, 1);
}

}  // namespace
}  // namespace weft::comm
