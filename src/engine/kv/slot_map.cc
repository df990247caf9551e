#include "engine/kv/slot_map.h"

#include <algorithm>

#include "base/check.h"

namespace weft::engine {

SlotMap::SlotMap(int32_t seats, int32_t blocks_per_seat, int32_t page_tokens,
                 const EngineFaults& faults)
    : width_(blocks_per_seat),
      page_tokens_(page_tokens),
      faults_(faults),
      rows_(seats),
      entries_(static_cast<size_t>(seats) * blocks_per_seat, 0) {}

int32_t SlotMap::TakeSeat() {
  const auto row = std::find_if(rows_.begin(), rows_.end(), [](const Row& r) { return !r.taken; });
  WEFT_CHECK(row != rows_.end(), "all {} seats are taken", rows_.size());
  *row = Row{.taken = true};
  return static_cast<int32_t>(row - rows_.begin());
}

void SlotMap::LeaveSeat(int32_t seat) {
  Row& row = rows_[seat];
  WEFT_CHECK(row.taken, "seat {} is left but was not taken", seat);
  std::fill_n(entries_.begin() + seat * width_, row.size, 0);
  row = Row{};
}

void SlotMap::Sync(int32_t seat, uint64_t owner, const BlockTable& table) {
  Row& row = rows_[seat];
  const auto size = static_cast<int32_t>(table.blocks.size());
  WEFT_CHECK(row.taken && size <= width_, "seat {}: {} blocks, room for {}", seat, size, width_);
  const bool same = row.owner == owner && row.generation == table.generation;
  const int32_t from = same ? row.size : 0;
  if (same && size == row.size) return;
  int32_t* entries = entries_.data() + seat * width_;
  std::copy(table.blocks.begin() + from, table.blocks.end(), entries + from);
  if (faults_.stale_page && same && from > 0) entries[from] = entries[from - 1];
  if (size < row.size) std::fill(entries + size, entries + row.size, 0);
  entries_written_ += size - from;
  row = Row{.taken = true, .owner = owner, .generation = table.generation, .size = size};
}

}  // namespace weft::engine
