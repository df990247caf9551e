// Pieces of the text form that plan and explain print too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace weft::graph {

std::string DimsText(const Graph& graph, const Value& value);  // "[T,576/L00.heads]"
std::string TypeText(const Value& value);                      // "bfloat16", "int8rows", "pair"
std::string AttrsText(const std::vector<Attr>& attrs);         // " {eps=0x1p-17, groups=1}" or ""

// Reads what Print(graph) wrote. Errors: kInvalid with the line's number.
Result<Graph> Parse(std::string_view text);

}  // namespace weft::graph
