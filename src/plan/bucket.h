// A bucket: the range of shapes that one plan serves. A step carries live counts and kernels loop
// over live rows, so nothing is padded; the range only bounds buffers and choices.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/executor.h"

namespace weft::plan {

struct Bucket {
  enum class Kind : uint8_t { kBody, kHead };
  Kind kind = Kind::kBody;
  int32_t rows_min = 1;  // token rows of a body, sampled rows of a head
  int32_t rows_max = 1;
  HeadMode mode = HeadMode::kGreedy;  // of a head
  bool hash_logits = false;           // of a head
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

// "body:1", "body:17-32", "head:4:greedy".
std::string ToString(const Bucket& bucket);

// Exact up to 16, then ranges that double, the last one cut at rows_max: every row count of
// [1, rows_max] is in exactly one. A bucket that would reach over one of `cuts` ends before it.
std::vector<Bucket> Ladder(Bucket::Kind kind, int32_t rows_max, std::span<const int32_t> cuts = {});
// The index of the ladder's bucket that holds `rows`. REQUIRES: one does.
int LadderIndex(std::span<const Bucket> ladder, int32_t rows);

}  // namespace weft::plan
