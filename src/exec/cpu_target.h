// Which implementations this machine has for an op: the kernel families' lists, asked in order.
#pragma once

#include <map>
#include <string>

#include "exec/default_costs.h"
#include "kernels/kernel.h"
#include "plan/cost_table.h"
#include "plan/target.h"

namespace weft::exec {

struct CpuTargetOptions {
  kernels::Isa isa = kernels::Isa::kAvx2;
  int workers_per_rank = 1;
  int32_t each_rows_max = 8;
  // --impl family=name: forces an entry of a family's list ("matmul" -> "ref").
  std::map<std::string, std::string, std::less<>> impl;
  bool reference = false;  // contracts only, for the reference executor
  plan::CostTable costs = DefaultCosts();
};

class CpuTarget final : public plan::Target {
 public:
  explicit CpuTarget(CpuTargetOptions options) : options_(std::move(options)) {}
  std::string name() const override;
  uint64_t costs_hash() const override { return options_.costs.Hash(); }
  int workers_per_rank() const override { return options_.workers_per_rank; }
  int32_t each_rows_max() const override { return options_.each_rows_max; }
  plan::Choice Choose(const graph::Graph& graph, const graph::Node& node,
                      const plan::Bucket& bucket) const override;
  // The families that --impl knows, with their entries.
  static std::map<std::string, std::vector<std::string>> Families();

 private:
  CpuTargetOptions options_;
};

}  // namespace weft::exec
