#include "text/bpe.h"

#include <bit>
#include <functional>
#include <limits>
#include <queue>
#include <unordered_map>

#include "base/check.h"

namespace weft::text {
namespace {

// Below this many symbols looking at each pair again costs less than keeping a heap.
constexpr size_t kShortSymbols = 24;
// From this many on one heap for all pairs misses the cache at each step.
constexpr size_t kHeapSymbols = 4096;

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// Both queues give what was pushed in order of rank, of equal ranks in order of position.
struct Candidate {
  uint32_t rank;
  uint32_t at;
};

class HeapQueue {
 public:
  bool empty() const { return heap_.empty(); }
  void Push(Candidate c) { heap_.push(uint64_t{c.rank} << 32 | c.at); }
  Candidate Pop() {
    const uint64_t top = heap_.top();
    heap_.pop();
    return {static_cast<uint32_t>(top >> 32), static_cast<uint32_t>(top)};
  }

 private:
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap_;
};

// A row of positions per rank.  Positions nearly always come in increasing order, which makes push
// and pop an append and a step; the others go into a heap of that rank.
class RankQueue {
 public:
  bool empty() const { return ranks_.empty(); }

  void Push(Candidate c) {
    Row& row = RowOf(c.rank);
    if (row.empty()) ranks_.push(c.rank);
    if (row.sorted.empty() || row.sorted.back() <= c.at) {
      row.sorted.push_back(c.at);
    } else {
      row.late.push(c.at);
    }
  }

  Candidate Pop() {
    const uint32_t rank = ranks_.top();
    Row& row = RowOf(rank);
    uint32_t at;
    if (row.next < row.sorted.size() &&
        (row.late.empty() || row.sorted[row.next] <= row.late.top())) {
      at = row.sorted[row.next++];
    } else {
      at = row.late.top();
      row.late.pop();
    }
    if (row.empty()) {
      row.sorted.clear();
      row.next = 0;
      ranks_.pop();
    }
    return {rank, at};
  }

 private:
  template <typename T>
  using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;
  struct Row {
    std::vector<uint32_t> sorted;
    size_t next = 0;  // sorted[0, next) is popped
    MinHeap<uint32_t> late;
    bool empty() const { return next == sorted.size() && late.empty(); }
  };

  Row& RowOf(uint32_t rank) {
    if (!last_ || rank != last_rank_) {
      last_ = &rows_[rank];  // stays in place when the map grows
      last_rank_ = rank;
    }
    return *last_;
  }

  std::unordered_map<uint32_t, Row> rows_;
  MinHeap<uint32_t> ranks_;  // of the rows that are not empty, each once
  Row* last_ = nullptr;
  uint32_t last_rank_ = 0;
};

uint64_t PairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

uint64_t Mix(uint64_t key) {
  key ^= key >> 32;
  return key * 0x9e3779b97f4a7c15u;
}

}  // namespace

BpeMerger::BpeMerger(const std::vector<BpeMerge>& merges, const std::array<int32_t, 256>& byte_ids)
    : byte_ids_(byte_ids) {
  const size_t slots = std::bit_ceil(2 * merges.size() + 2);
  shift_ = 64 - std::countr_zero(slots);
  table_.resize(slots);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const BpeMerge& merge = merges[rank];
    const uint64_t key = PairKey(merge.left, merge.right);
    size_t slot = Mix(key) >> shift_;
    while (table_[slot].pair != kFree && table_[slot].pair != key) slot = (slot + 1) & (slots - 1);
    table_[slot] = {key, static_cast<uint32_t>(rank), merge.merged};
  }
}

const BpeMerger::Entry* BpeMerger::Find(int32_t left, int32_t right) const {
  const uint64_t key = PairKey(left, right);
  for (size_t slot = Mix(key) >> shift_;; slot = (slot + 1) & (table_.size() - 1)) {
    if (table_[slot].pair == key) return &table_[slot];
    if (table_[slot].pair == kFree) return nullptr;
  }
}

void BpeMerger::Encode(std::string_view word, std::vector<int32_t>& out) const {
  WEFT_CHECK(word.size() < size_t{std::numeric_limits<int32_t>::max()}, "a word of {} bytes",
             word.size());
  const size_t first = out.size();
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id != kNoToken) out.push_back(id);
  }
  if (out.size() - first <= kShortSymbols) {
    EncodeShort(out, first);
  } else if (out.size() - first <= kHeapSymbols) {
    EncodeLong<HeapQueue>(out, first);
  } else {
    EncodeLong<RankQueue>(out, first);
  }
}

// Ranks of all pairs are looked up once; a merge looks up its two new neighbours.
void BpeMerger::EncodeShort(std::vector<int32_t>& out, size_t first) const {
  constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
  size_t count = out.size() - first;
  int32_t* ids = out.data() + first;
  std::array<uint32_t, kShortSymbols> ranks;  // of the pair (i, i + 1)
  std::array<int32_t, kShortSymbols> merged;
  const auto look = [&](size_t i) {
    const Entry* entry = Find(ids[i], ids[i + 1]);
    ranks[i] = entry ? entry->rank : kNoRank;
    merged[i] = entry ? entry->merged : 0;
  };
  for (size_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoRank) break;
    ids[best] = merged[best];
    for (size_t i = best + 1; i + 1 < count; ++i) {
      ids[i] = ids[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    --count;
    if (best + 1 < count) look(best);
    if (best > 0) look(best - 1);
  }
  out.resize(first + count);
}

template <typename Queue>
void BpeMerger::EncodeLong(std::vector<int32_t>& out, size_t first) const {
  struct Symbol {
    int32_t id;  // kNoToken: merged into the one before
    uint32_t prev;
    uint32_t next;
  };
  const size_t count = out.size() - first;
  std::vector<Symbol> symbols(count);
  for (size_t i = 0; i < count; ++i) {
    symbols[i] = {out[first + i], i == 0 ? kNone : static_cast<uint32_t>(i - 1),
                  i + 1 == count ? kNone : static_cast<uint32_t>(i + 1)};
  }
  const auto pair_at = [&](uint32_t at) -> const Entry* {
    const uint32_t next = symbols[at].next;
    return next == kNone ? nullptr : Find(symbols[at].id, symbols[next].id);
  };
  Queue queue;
  const auto push = [&](uint32_t at) {
    if (const Entry* pair = pair_at(at)) queue.Push({pair->rank, at});
  };
  for (size_t i = 0; i + 1 < count; ++i) push(static_cast<uint32_t>(i));
  while (!queue.empty()) {
    const auto [rank, at] = queue.Pop();
    if (symbols[at].id == kNoToken) continue;
    // A candidate is stale when the pair at its position no longer has its rank; symbols only grow,
    // so that cannot be a different pair of equal rank.
    const Entry* pair = pair_at(at);
    if (!pair || pair->rank != rank) continue;
    const uint32_t next = symbols[at].next;
    symbols[at].id = pair->merged;
    symbols[at].next = symbols[next].next;
    symbols[next].id = kNoToken;
    if (symbols[at].next != kNone) symbols[symbols[at].next].prev = at;
    if (symbols[at].prev != kNone) push(symbols[at].prev);
    push(at);
  }
  size_t end = first;
  for (uint32_t i = 0; i != kNone; i = symbols[i].next) out[end++] = symbols[i].id;
  out.resize(end);
}

}  // namespace weft::text
