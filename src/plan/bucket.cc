#include "plan/bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

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

std::vector<Bucket> Ladder(Bucket::Kind kind, int32_t rows_max) {
  std::vector<Bucket> out;
  for (int32_t begin = 1; begin <= rows_max;) {
    const int32_t end = begin <= kExactMax ? begin : std::min(rows_max, (begin - 1) * 2);
    out.push_back({kind, begin, end, HeadMode::kGreedy, false});
    begin = end + 1;
  }
  return out;
}

int LadderIndex(int32_t rows) {
  if (rows <= kExactMax) return rows - 1;
  // 17..32 -> 16, 33..64 -> 17, ...
  return kExactMax - 5 + std::bit_width(static_cast<uint32_t>(rows - 1));
}

}  // namespace weft::plan
