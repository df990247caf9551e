// Combining routed rows by who owns their token: every member reads what experts have made of its
// tokens where it stands. An all-to-all whose counts nobody sends, and whose rows are added as they
// come. Unit: kCombineColumns of a token.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "comm/method.h"
#include "comm/rectangles.h"
#include "kernels/moe/route.h"

namespace weft::comm {
namespace {

using kernels::kCombineColumns;

std::string Refuse(const CombineRowsArgs&) { return {}; }

int Phases(const CombineRowsArgs&) { return 1; }

int64_t OwnTokens(const CombineRowsArgs& a) {
  int64_t tokens = 0;
  for (int i = 0; i < a.own_count; ++i) tokens += a.own[i].end - a.own[i].begin;
  return tokens;
}

int32_t ExpertsOf(const CombineRowsArgs& a) {
  const HeldExperts& last = a.held[a.held_count - 1];
  return last.first + last.count;
}

int64_t RowBytes(const CombineRowsArgs& a) {
  return BytesOf(a.combine.rows.dtype, a.combine.rows.cols);
}

const HeldExperts& HolderOf(const CombineRowsArgs& a, int32_t expert) {
  const HeldExperts* held = std::find_if(a.held, a.held + a.held_count, [&](const HeldExperts& h) {
    return expert < h.first + h.count;
  });
  WEFT_DCHECK(held != a.held + a.held_count, "nobody has expert {}", expert);
  return *held;
}

int64_t Units(const CombineRowsArgs& a, int) {
  return OwnTokens(a) * BlocksOf(a.combine.rows.cols, kCombineColumns);
}

// Before a step nobody knows the routes: then as many experts elsewhere as a token can meet.
int64_t Bytes(const CombineRowsArgs& a) {
  const int64_t top_k = a.combine.top_k;
  if (a.ids == nullptr) {
    int64_t elsewhere = 0;
    for (int h = 0; h < a.held_count; ++h)
      elsewhere += a.held[h].from == a.rank ? 0 : a.held[h].count;
    return OwnTokens(a) * std::min(top_k, elsewhere) * RowBytes(a);
  }
  int64_t rows = 0;
  for (int i = 0; i < a.own_count; ++i) {
    rows += std::count_if(a.ids + a.own[i].begin * top_k, a.ids + a.own[i].end * top_k,
                          [&](int32_t id) { return HolderOf(a, id).from != a.rank; });
  }
  return rows * RowBytes(a);
}

// Walks the routes in order, counting where each one's row is among those of who has its expert.
class Places {
 public:
  explicit Places(const CombineRowsArgs& a) : a_(a) {
    std::fill_n(next_, ExpertsOf(a), 0);
    for (int64_t route = 0; route < a.tokens * a.combine.top_k; ++route) ++next_[a.ids[route]];
    for (int h = 0; h < a.held_count; ++h) {
      int32_t at = 0;
      for (int32_t e = a.held[h].first; e < a.held[h].first + a.held[h].count; ++e)
        at += std::exchange(next_[e], at);
    }
  }
  // Past all routes of the tokens before. REQUIRES: not behind there.
  void SkipTo(int64_t token) {
    while (route_ < token * a_.combine.top_k) Take();
  }
  // Of the next route.
  int32_t Take() { return next_[a_.ids[route_++]]++; }
  // Of the next route to this expert.
  int32_t at(int32_t expert) const { return next_[expert]; }

 private:
  const CombineRowsArgs& a_;
  int64_t route_ = 0;
  int32_t next_[kernels::kExpertsMax];
};

// Rows lie by token, so what some tokens in a row have from one expert is one run.
void Reads(const CombineRowsArgs& a, int, ReadVisit visit) {
  Places places(a);
  for (int i = 0; i < a.own_count; ++i) {
    places.SkipTo(a.own[i].begin);
    const Places before = places;
    places.SkipTo(a.own[i].end);
    for (int h = 0; h < a.held_count; ++h) {
      const HeldExperts& held = a.held[h];
      for (int32_t e = held.first; held.from != a.rank && e < held.first + held.count; ++e) {
        const int32_t first = before.at(e), last = places.at(e);
        if (first == last) continue;
        visit({.from = held.from,
               .rows = last - first,
               .bytes = RowBytes(a),
               .data = held.rows.data + first * held.rows.stride,
               .stride = held.rows.stride});
      }
    }
  }
}

// Columns of a token that are added before they are rounded: their sums stay in L1.
constexpr int64_t kColumnsAtOnce = 8 * kCombineColumns;

// Columns [begin, end) of an own token: `combine` has its ids, weights and rows.
void CombineColumns(const CombineRowsArgs& a, kernels::CombineArgs combine, int64_t row,
                    int64_t begin, int64_t end) {
  constexpr uint8_t kNoMerge = 0;
  float sum[kColumnsAtOnce];
  const float* root = sum;
  const std::byte* row_of[kernels::kTopKMax];
  for (int64_t at = begin; at < end; at += kColumnsAtOnce) {
    const int64_t cols = std::min(kColumnsAtOnce, end - at);
    for (int i = 0; i < combine.top_k; ++i)
      row_of[i] = combine.row_of[i] + BytesOf(combine.rows.dtype, at);
    kernels::CombineArgs part = combine;
    part.rows.cols = cols;
    part.row_of = row_of;
    part.partials = sum;
    a.kernel->run(part, {0, a.kernel->units(part)}, nullptr);
    kernels::FinishArgs finish{
        .roots = &root, .strides = &cols, .count = 1, .merges = &kNoMerge, .y = a.y};
    finish.y.data = static_cast<std::byte*>(a.y.data) + BytesOf(a.y.dtype, row * a.y.stride + at);
    finish.y.rows = 1;
    finish.y.cols = cols;
    a.finish->run(finish, {0, a.finish->units(finish)}, nullptr);
  }
}

int64_t Run(const CombineRowsArgs& a, int, Slice units) {
  if (units.begin >= units.end) return 0;
  const int64_t cols = a.combine.rows.cols, blocks = BlocksOf(cols, kCombineColumns);
  const int64_t top_k = a.combine.top_k;
  Places places(a);
  const std::byte* row_of[kernels::kTopKMax];
  kernels::CombineArgs combine = a.combine;
  combine.tokens = 1;
  combine.row_of = row_of;
  combine.roots = 1;
  int64_t taken = 0, before = 0;  // own tokens before the range
  const TokenRange* range = a.own;
  for (int64_t unit = units.begin; unit < units.end;) {
    const int64_t row = unit / blocks, next = std::min(units.end, (row + 1) * blocks);
    while (row - before >= range->end - range->begin) before += range->end - range->begin, ++range;
    const int64_t token = range->begin + row - before;
    const int64_t begin = unit % blocks * kCombineColumns,
                  end = std::min(cols, begin + (next - unit) * kCombineColumns);
    combine.ids = a.ids + token * top_k;
    combine.weights = a.combine.weights + row * top_k;
    places.SkipTo(token);
    for (int64_t i = 0; i < top_k; ++i) {
      const HeldExperts& held = HolderOf(a, combine.ids[i]);
      row_of[i] = held.rows.data + places.Take() * held.rows.stride;
      if (held.from != a.rank) taken += BytesOf(a.combine.rows.dtype, end - begin);
    }
    CombineColumns(a, combine, row, begin, end);
    unit = next;
  }
  return taken;
}

}  // namespace

extern const Method<CombineRowsArgs> kCombineRowsDirect;
const Method<CombineRowsArgs> kCombineRowsDirect{.name = "direct",
                                                 .kind = Collective::kCombineRows,
                                                 .refuse = Refuse,
                                                 .phases = Phases,
                                                 .units = Units,
                                                 .bytes = Bytes,
                                                 .reads = Reads,
                                                 .run = Run};

}  // namespace weft::comm
