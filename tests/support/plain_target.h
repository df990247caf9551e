// A machine for tests of the plan: one implementation of everything, unless told to refuse.
#pragma once

#include <set>
#include <string>

#include "plan/target.h"

namespace weft::test {

class PlainTarget final : public plan::Target {
 public:
  explicit PlainTarget(int workers, int32_t each_rows_max = 8)
      : workers_(workers), each_rows_max_(each_rows_max) {}
  std::string name() const override { return "plain"; }
  int workers_per_rank() const override { return workers_; }
  int32_t each_rows_max() const override { return each_rows_max_; }
  plan::Choice Choose(const graph::Graph&, const graph::Node& node,
                      const plan::Bucket&) const override {
    if (refused.count(node.op) > 0) return {"", {{"loop", "told to"}, {"ref", "told to as well"}}};
    const bool reduces =
        node.op == graph::Op::kAllReduce || node.op == graph::Op::kMatmulAllReduceNorm;
    return {"loop", {}, reduces ? reduce_phases : 1};
  }
  std::set<graph::Op> refused;
  int reduce_phases = 1;

 private:
  int workers_;
  int32_t each_rows_max_;
};

}  // namespace weft::test
