// Plans of the small decoder on a machine of one implementation.
#pragma once

#include <utility>

#include "base/check.h"
#include "plan/plan.h"
#include "support/decoder_graph.h"
#include "support/plain_target.h"

namespace weft::test {

inline plan::Bucket Body(int32_t rows) {
  return {plan::Bucket::Kind::kBody, rows, rows, plan::HeadMode::kGreedy, false};
}

// REQUIRES: the target refuses nothing that the graph needs.
inline plan::Plan Compiled(const graph::Graph& source, int ranks, const plan::Bucket& bucket,
                           const plan::Target& target, const plan::CompileOptions& options = {}) {
  auto plan = plan::Compile(Placed(source, ranks), bucket, target, options);
  WEFT_CHECK(plan.ok(), "{}", plan.status().message());
  return std::move(plan).value();
}

}  // namespace weft::test
