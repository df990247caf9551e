#include "engine/kv/slot_map.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

TEST(SlotMap, ASlotIsThePageAndTheOffset) {
  SlotMap map(2, 4, 16, {});
  const int32_t seat = map.TakeSeat();
  map.Sync(seat, 1, {.blocks = {7, 3}});
  EXPECT_EQ(map.slot(seat, 0), 7 * 16);
  EXPECT_EQ(map.slot(seat, 15), 7 * 16 + 15);
  EXPECT_EQ(map.slot(seat, 16), 3 * 16);
}

TEST(SlotMap, RewritesOnlyWhatChanged) {
  SlotMap map(2, 4, 16, {});
  const int32_t seat = map.TakeSeat();
  BlockTable table{.blocks = {7, 3}};
  map.Sync(seat, 1, table);
  EXPECT_EQ(map.entries_written(), 2u);
  map.Sync(seat, 1, table);
  EXPECT_EQ(map.entries_written(), 2u) << "nothing changed";
  table.blocks.push_back(9);
  map.Sync(seat, 1, table);
  EXPECT_EQ(map.entries_written(), 3u) << "one was appended";
  table.blocks[0] = 5;
  ++table.generation;
  map.Sync(seat, 1, table);
  EXPECT_EQ(map.entries_written(), 6u) << "an old entry changed: all are written";
  EXPECT_EQ(map.pages(seat)[0], 5);
}

TEST(SlotMap, TheSameGenerationOfAnotherOwnerIsAnotherTable) {
  SlotMap map(1, 4, 16, {});
  const int32_t seat = map.TakeSeat();
  map.Sync(seat, 1, {.blocks = {7, 3}});
  map.Sync(seat, 2, {.blocks = {4, 5}});
  EXPECT_EQ(map.pages(seat)[0], 4);
}

TEST(SlotMap, AVacatedRowIsTheZeroPage) {
  SlotMap map(1, 4, 16, {});
  const int32_t seat = map.TakeSeat();
  map.Sync(seat, 1, {.blocks = {7, 3, 2}});
  map.LeaveSeat(seat);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(map.pages(seat)[i], 0);
  EXPECT_EQ(map.TakeSeat(), seat);
}

TEST(SlotMap, AShrunkTableLeavesNoOldEntryBehind) {
  SlotMap map(1, 4, 16, {});
  const int32_t seat = map.TakeSeat();
  map.Sync(seat, 1, {.blocks = {7, 3, 2}});
  map.Sync(seat, 1, {.blocks = {7}, .generation = 1});
  EXPECT_EQ(map.page_count(seat), 1);
  EXPECT_EQ(map.pages(seat)[1], 0);
  EXPECT_EQ(map.pages(seat)[2], 0);
}

}  // namespace
}  // namespace weft::engine
