// docs/ops.md, made from the table of op facts: `weft explain --ops` prints it.
#pragma once

#include <string>

namespace weft::graph {

std::string OpsPage();

}  // namespace weft::graph
