// The text form of a graph: what reviewers read and golden files hold.
#include <fmt/format.h>

#include "graph/text.h"

namespace weft::graph {

std::string DimsText(const Graph& g, const Value& v) {
  std::string out = "[";
  for (size_t d = 0; d < v.dims.size(); ++d) {
    if (d > 0) out += ',';
    switch (v.dims[d].sym) {
      case Sym::kTokens: out += 'T'; break;
      case Sym::kHeadRows: out += 'R'; break;
      case Sym::kRoutes:
        out += fmt::format("T*{}/{}", v.dims[d].n, g.tables[v.dims[d].table].name);
        break;
      case Sym::kConst:
        out += fmt::format("{}", v.dims[d].n);
        if (v.dims[d].table >= 0) out += fmt::format("/{}", g.tables[v.dims[d].table].name);
        break;
    }
  }
  return out + "]";
}

std::string TypeText(const Value& v) {
  if (v.pairs) return "pair";
  if (v.int8_rows) return "int8rows";
  return std::string(NameOf(v.dtype));
}

std::string AttrsText(const std::vector<Attr>& attrs) {
  if (attrs.empty()) return "";
  std::string out = " {";
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (i > 0) out += ", ";
    out += attrs[i].key + "=";
    if (const auto* n = std::get_if<int64_t>(&attrs[i].value)) out += fmt::format("{}", *n);
    if (const auto* d = std::get_if<double>(&attrs[i].value)) out += fmt::format("{:a}", *d);
    if (const auto* s = std::get_if<std::string>(&attrs[i].value)) out += fmt::format("'{}'", *s);
  }
  return out + "}";
}

std::string Print(const Graph& g) {
  std::string out = fmt::format("graph {}\n", g.model);
  for (const MeshAxis& axis : g.mesh.axes) out += fmt::format("axis {} {}\n", axis.name, axis.size);
  for (const AxisTable& t : g.tables) {
    out += fmt::format("table {} {}", t.name, fmt::join(t.leaves.starts(), ","));
    if (t.follows >= 0) out += fmt::format(" follows {} {}", t.follows, t.follow_width);
    if (t.whole) out += " whole";
    out += '\n';
  }
  constexpr std::string_view kKinds[] = {"temp", "input", "param", "state"};
  for (const Value& v : g.values) {
    out += fmt::format("{} {} : {} {} {}\n", kKinds[static_cast<int>(v.kind)], v.name, TypeText(v),
                       DimsText(g, v), v.on.empty() ? "-" : ToString(v.on));
  }
  const auto names = [&](const std::vector<ValueId>& ids) {
    std::string list;
    for (ValueId id : ids) list += (list.empty() ? "" : ", ") + g.value(id).name;
    return list;
  };
  for (const Node& node : g.nodes) {
    out += fmt::format("{} = {}({}){} @{}\n", names(node.out), NameOf(node.op), names(node.in),
                       AttrsText(node.attrs), node.layer.empty() ? "-" : node.layer);
  }
  out += fmt::format("return {}\n", names(g.outputs));
  return out;
}

}  // namespace weft::graph
