// The cost table that decides where no --profile is given.
#pragma once

#include "plan/cost_table.h"

namespace weft::exec {

plan::CostTable DefaultCosts();

}  // namespace weft::exec
