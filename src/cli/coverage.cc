#include "cli/coverage.h"

#include <fmt/format.h>

namespace weft::cli {

Coverage CoverageOf(const exec::ModelInstance& instance) {
  Coverage out;
  instance.VisitPlans([&](const plan::Plan& plan) {
    ++out.plans;
    for (const plan::Step& step : plan.steps) {
      ++out.steps;
      const std::string name(NameOf(plan.graph.nodes[static_cast<size_t>(step.node)].op));
      Coverage::Op& op = out.ops[name];
      ++op.steps[step.impl];
      // A family of one kernel has nothing that could stand above it.
      if (KernelOf(step) != "ref" || step.refused.empty()) continue;
      ++op.stand_ins;
      for (const plan::Refused& refused : step.refused)
        ++op.refusals[fmt::format("{}: {}", refused.impl, refused.reason)];
    }
  });
  return out;
}

std::string Coverage::Text() const {
  int stand_ins = 0;
  std::string out = fmt::format("{:<24} {:>8}  {}\n", "op", "steps", "kernels");
  for (const auto& [name, op] : ops) {
    int all = 0;
    std::string kernels;
    for (const auto& [impl, count] : op.steps) {
      all += count;
      kernels += fmt::format("{}{} {}", kernels.empty() ? "" : ", ", impl, count);
    }
    out += fmt::format("{:<24} {:>8}  {}\n", name, all, kernels);
    stand_ins += op.stand_ins;
    if (op.stand_ins == 0) continue;
    for (const auto& [why, count] : op.refusals)
      out += fmt::format("{:<24} {:>8}  the contract stands in; {}\n", "", count, why);
  }
  return out + fmt::format("{} of {} steps of {} plans run a kernel of their shape on this CPU\n",
                           steps - stand_ins, steps, plans);
}

}  // namespace weft::cli
