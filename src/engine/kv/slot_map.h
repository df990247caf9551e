// The block tables of the running sequences as the executor reads them, one row per seat.
//
// A row is rewritten only where it changed: (owner, generation, size) of the sequence's table say
// so exactly (checksums of rows, which one engine compares, collide). Thread: engine
// only. Invariant: entries behind a row's size are 0, the zero page; a vacated row is all zero.
// Nothing allocates after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/faults.h"
#include "engine/kv/kv_cache.h"

namespace weft::engine {

class SlotMap {
 public:
  SlotMap(int32_t seats, int32_t blocks_per_seat, int32_t page_tokens, const EngineFaults& faults);

  // A free seat; the lowest, so that few rows are touched. REQUIRES: fewer taken than seats.
  int32_t TakeSeat();
  void LeaveSeat(int32_t seat);

  // Makes the seat's row equal to `table`, which belongs to sequence `owner`.
  void Sync(int32_t seat, uint64_t owner, const BlockTable& table);

  const int32_t* pages(int32_t seat) const { return entries_.data() + seat * width_; }
  int32_t page_count(int32_t seat) const { return rows_[seat].size; }
  int64_t slot(int32_t seat, int32_t position) const {
    return static_cast<int64_t>(pages(seat)[position / page_tokens_]) * page_tokens_ +
           position % page_tokens_;
  }
  uint64_t entries_written() const { return entries_written_; }

 private:
  struct Row {
    bool taken = false;
    uint64_t owner = 0;
    uint64_t generation = 0;
    int32_t size = 0;
  };
  int64_t width_;
  int32_t page_tokens_;
  EngineFaults faults_;
  std::vector<Row> rows_;         // [seats]
  std::vector<int32_t> entries_;  // [seats, width]
  uint64_t entries_written_ = 0;
};

}  // namespace weft::engine
