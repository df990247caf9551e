#include "device/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace weft::device {
namespace {

TEST(Memory, IsAlignedZeroAndWritableToItsLastByte) {
  for (int64_t bytes : {int64_t{1}, kHugePageBytes - 1, kHugePageBytes, kHugePageBytes + 1}) {
    Result<Memory> memory = Memory::Allocate(bytes, kAnyNode, "test");
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % kHugePageBytes, 0u);
    EXPECT_EQ(memory->bytes(), bytes);
    EXPECT_EQ(memory->data()[bytes - 1], std::byte{0});
    memory->data()[bytes - 1] = std::byte{1};
    memory->data()[memory->mapped_bytes() - 1] = std::byte{1};
  }
}

TEST(Memory, MovesItsRegion) {
  Memory a = std::move(Memory::Allocate(100, kAnyNode, "a").value());
  std::byte* const data = a.data();
  Memory b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.data(), nullptr);
  b = Memory();
  EXPECT_EQ(b.bytes(), 0);
}

TEST(Memory, DroppedPagesReadAsZeroAndNeighboursKeepTheirBytes) {
  Memory memory = std::move(Memory::Allocate(64 << 10, kAnyNode, "drop").value());
  for (int64_t i = 0; i < memory.bytes(); ++i) memory.data()[i] = std::byte{7};
  memory.Drop(4097, 12289);  // only [8192, 12288) is whole
  EXPECT_EQ(memory.data()[8191], std::byte{7});
  EXPECT_EQ(memory.data()[8192], std::byte{0});
  EXPECT_EQ(memory.data()[12287], std::byte{0});
  EXPECT_EQ(memory.data()[12288], std::byte{7});
}

TEST(Memory, RefusalsNameTheRegionAndTheSize) {
  const Result<Memory> negative = Memory::Allocate(-1, kAnyNode, "kv pool");
  EXPECT_EQ(negative.status().code(), StatusCode::kInvalid);
  const Result<Memory> huge = Memory::Allocate(int64_t{1} << 60, kAnyNode, "kv pool");
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.status().code(), StatusCode::kExhausted);
  EXPECT_NE(huge.status().message().find("kv pool"), std::string::npos);
  EXPECT_NE(huge.status().message().find("TiB"), std::string::npos) << huge.status().message();
}

TEST(Memory, MissingNodeIsANoteNotAFailure) {
  Result<Memory> memory = Memory::Allocate(4096, 777, "weights of rank 0");
  ASSERT_TRUE(memory.ok());
  EXPECT_NE(memory->note().find("777"), std::string::npos);
  memory->data()[0] = std::byte{1};
  EXPECT_NE(memory->Describe().find("weights of rank 0: 4.0 KiB"), std::string::npos)
      << memory->Describe();
}

TEST(FormatBytes, RoundsToOneDigit) {
  EXPECT_EQ(FormatBytes(37), "37 B");
  EXPECT_EQ(FormatBytes(4096), "4.0 KiB");
  EXPECT_EQ(FormatBytes(int64_t{3} << 29), "1.5 GiB");
}

}  // namespace
}  // namespace weft::device
