#include "comm/byte_stream.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace weft::comm {
namespace {

// Rectangles of all shapes in one block of memory, in the order of their addresses.
std::vector<Read> RandomReads(const std::byte* memory, Rng* rng) {
  std::vector<Read> reads;
  for (int i = 0; i < 6; ++i) {
    const auto rows = static_cast<int64_t>(rng->Below(4)),
               bytes = static_cast<int64_t>(rng->Below(9));
    const int64_t stride = bytes + (rng->Below(2) == 0 ? 0 : static_cast<int64_t>(rng->Below(5)));
    reads.push_back({.rows = rows, .bytes = bytes, .data = memory, .stride = stride});
    memory += rows * stride + bytes + static_cast<int64_t>(rng->Below(3));
  }
  return reads;
}

TEST(ByteStream, PiecesOfAnySizeCarryTheRectanglesAndNothingElse) {
  Rng rng(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> here(512), there(512, std::byte{0xEE});
    for (std::byte& b : here) b = std::byte(rng.Next());
    const uint64_t seed = rng.Next();
    Rng same_here(seed), same_there(seed);
    ByteStream out, in;
    std::vector<std::byte> expected = there;
    for (const Read& r : RandomReads(here.data(), &same_here)) {
      out.Add(r);
      for (int64_t row = 0; row < r.rows; ++row) {
        const int64_t at = r.data - here.data() + row * r.stride;
        std::copy_n(here.begin() + at, r.bytes, expected.begin() + at);
      }
    }
    for (const Read& r : RandomReads(there.data(), &same_there)) in.Add(r);
    ASSERT_EQ(out.bytes(), in.bytes());
    for (int64_t at = 0; at < out.bytes();) {
      std::vector<std::byte> message(1 + rng.Below(static_cast<uint64_t>(out.bytes() - at)));
      out.Pack(at, message);
      in.Unpack(at, message);
      at += static_cast<int64_t>(message.size());
    }
    ASSERT_EQ(there, expected);
  }
}

TEST(ByteStream, IsEmptyAgainAfterClear) {
  std::byte memory[8]{};
  ByteStream stream;
  stream.Add(memory);
  stream.Add({.rows = 0, .bytes = 8, .data = memory, .stride = 8});
  EXPECT_EQ(stream.bytes(), 8);
  stream.Clear();
  EXPECT_EQ(stream.bytes(), 0);
  stream.Pack(0, {});
}

}  // namespace
}  // namespace weft::comm
