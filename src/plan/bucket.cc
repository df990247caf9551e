#include "plan/bucket.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace weft::plan {
namespace {
constexpr int32_t kExactMax = 16;
}

std::string ToString(const Bucket& b) {
  std::string out = b.kind == Bucket::Kind::kBody ? "body:" : "head:";
  out += b.rows_min == b.rows_max ? fmt::format("{}", b.rows_max)
                                  : fmt::format("{}-{}", b.rows_min, b.rows_max);
  if (b.kind == Bucket::Kind::kHead) {
    out += b.mode == HeadMode::kGreedy ? ":greedy" : ":sample";
    if (b.hash_logits) out += ":hash";
  }
  return out;
}

std::vector<Bucket> Ladder(Bucket::Kind kind, int32_t rows_max, std::span<const int32_t> cuts) {
  std::vector<Bucket> out;
  for (int32_t begin = 1; begin <= rows_max;) {
    int32_t end = kExactMax;
    // The doubling starts at 17, not at a cut, so that the other buckets stand where they always
    // do.
    while (end < begin && end < rows_max) end *= 2;
    if (begin <= kExactMax) end = begin;
    end = std::min(end, rows_max);
    for (const int32_t cut : cuts) {
      if (begin < cut && cut <= end) end = cut - 1;
    }
    out.push_back({kind, begin, end, HeadMode::kGreedy, false});
    begin = end + 1;
  }
  return out;
}

int LadderIndex(std::span<const Bucket> ladder, int32_t rows) {
  const auto it = std::lower_bound(ladder.begin(), ladder.end(), rows,
                                   [](const Bucket& b, int32_t r) { return b.rows_max < r; });
  WEFT_CHECK(it != ladder.end() && it->rows_min <= rows, "no bucket holds {} rows", rows);
  return static_cast<int>(it - ladder.begin());
}

}  // namespace weft::plan
