// Which kernels the plans of a model name, and where the contract of a family stands in for a
// kernel of this CPU. Thread: plain data and pure functions.
#pragma once

#include <map>
#include <string>

#include "exec/model_instance.h"

namespace weft::cli {

struct Coverage {
  struct Op {
    std::map<std::string, int> steps;  // by implementation
    std::map<std::string, int>
        refusals;       // of kernels above the contract, where that stands in: "avx2: why"
    int stand_ins = 0;  // steps of the contract though there are others
  };
  int plans = 0, steps = 0;
  std::map<std::string, Op> ops;  // by name
  std::string Text() const;
};

Coverage CoverageOf(const exec::ModelInstance& instance);

}  // namespace weft::cli
