// Reads the text form of a graph (text.cc writes it). A line says one thing; names are introduced
// before they are used. What it accepts need not be lawful: that is the verifier's business.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "graph/text.h"

namespace weft::graph {
namespace {

std::vector<std::string_view> Split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> parts;
  if (text.empty()) return parts;
  for (size_t at; (at = text.find(by)) != std::string_view::npos;
       text.remove_prefix(at + by.size())) {
    parts.push_back(text.substr(0, at));
  }
  parts.push_back(text);
  return parts;
}

// Whole text as a decimal number.
bool Read(std::string_view text, int64_t* n) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *n);
  return error == std::errc() && end == text.data() + text.size();
}

// The leaf table with these starts. Only what LeafTable::Make can make is a table.
bool MakeLeaves(const std::vector<int64_t>& starts, LeafTable* leaves) {
  if (starts.size() < 2 || starts[0] != 0) return false;
  for (size_t i = 1; i < starts.size(); ++i) {
    if (starts[i] <= starts[i - 1]) return false;
  }
  const int count = static_cast<int>(starts.size()) - 1;
  // The first leaf is a whole number of atoms, or the axis is one short leaf.
  const auto fits = [&](int64_t atom) {
    *leaves = LeafTable::Make(starts.back(), atom, count);
    return std::equal(starts.begin(), starts.end(), leaves->starts().begin(),
                      leaves->starts().end());
  };
  for (int64_t d = 1; d * d <= starts[1]; ++d) {
    if (starts[1] % d == 0 && (fits(d) || fits(starts[1] / d))) return true;
  }
  return false;
}

class Reader {
 public:
  Result<Graph> Run(std::string_view text) {
    for (std::string_view line : Split(text, "\n")) {
      ++line_;
      if (line.empty()) continue;
      if (returned_) return Wrong("text after the return line");
      WEFT_RETURN_IF_ERROR(Line(line));
    }
    if (!returned_) return Wrong("no return line");
    return std::move(g_);
  }

 private:
  template <typename... Args>
  Status Wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return Status::Invalid("line {}: {}", line_, fmt::format(format, std::forward<Args>(args)...));
  }

  Status Line(std::string_view line) {
    const size_t space = line.find(' ');
    const std::string_view word = line.substr(0, space);
    const std::string_view rest = space == std::string_view::npos ? "" : line.substr(space + 1);
    if (word == "graph") {
      if (begun_) return Wrong("a second graph line");
      begun_ = true;
      g_.model = rest;
      return rest.empty() ? Wrong("a graph without a name") : Status::Ok();
    }
    if (!begun_) return Wrong("'graph NAME' wanted first");
    if (line.find(" = ") != std::string_view::npos) return NodeLine(line);
    if (word == "axis") return Axis(rest);
    if (word == "table") return Table(rest);
    if (word == "return") {
      returned_ = true;
      if (rest.empty()) return Wrong("nothing is returned");
      return Names(rest, &g_.outputs);
    }
    constexpr std::string_view kKinds[] = {"temp", "input", "param", "state"};
    for (int kind = 0; kind < 4; ++kind) {
      if (word == kKinds[kind]) return ValueLine(static_cast<ValueKind>(kind), rest);
    }
    return Wrong("'{}' begins no line of a graph", word);
  }

  Status Axis(std::string_view text) {
    const auto words = Split(text, " ");
    int64_t size = 0;
    if (words.size() != 2 || !Read(words[1], &size) || size < 1 || size > 1 << 20)
      return Wrong("'axis NAME SIZE' wanted");
    g_.mesh.axes.push_back({std::string(words[0]), static_cast<int>(size)});
    return Status::Ok();
  }

  Status Table(std::string_view text) {
    auto words = Split(text, " ");
    AxisTable table;
    table.whole = words.size() > 2 && words.back() == "whole";
    if (table.whole) words.pop_back();
    if (words.size() != 2 && !(words.size() == 5 && words[2] == "follows"))
      return Wrong("'table NAME 0,...,N [follows TABLE WIDTH] [whole]' wanted");
    table.name = words[0];
    std::vector<int64_t> starts;
    for (std::string_view n : Split(words[1], ",")) {
      if (!Read(n, &starts.emplace_back())) return Wrong("'{}' is no number", n);
    }
    if (!MakeLeaves(starts, &table.leaves))
      return Wrong("no leaf table of '{}' starts at {}", table.name, words[1]);
    if (words.size() == 5) {
      int64_t follows = 0;
      if (!Read(words[3], &follows) || follows < 0 ||
          follows >= static_cast<int64_t>(g_.tables.size()))
        return Wrong("there is no table {} before this one", words[3]);
      if (!Read(words[4], &table.follow_width)) return Wrong("'{}' is no number", words[4]);
      table.follows = static_cast<int>(follows);
    }
    if (!tables_.try_emplace(table.name, static_cast<int>(g_.tables.size())).second)
      return Wrong("a second table '{}'", table.name);
    g_.tables.push_back(std::move(table));
    return Status::Ok();
  }

  Status ValueLine(ValueKind kind, std::string_view text) {
    const auto words = Split(text, " ");
    if (words.size() != 5 || words[1] != ":")
      return Wrong("'KIND NAME : TYPE [DIMS] PLACEMENT' wanted");
    Value v;
    v.name = words[0];
    v.kind = kind;
    if (words[2] == "pair") {
      v.pairs = true;
      v.dtype = DType::kF32;
    } else if (words[2] == "int8rows") {
      v.int8_rows = true;
      v.dtype = DType::kI8;
    } else {
      int d = 0;
      while (d <= static_cast<int>(DType::kQ6_K) && NameOf(static_cast<DType>(d)) != words[2]) ++d;
      if (d > static_cast<int>(DType::kQ6_K)) return Wrong("'{}' is no type", words[2]);
      v.dtype = static_cast<DType>(d);
    }
    WEFT_RETURN_IF_ERROR(Dims(words[3], &v.dims));
    if (words[4] != "-") WEFT_RETURN_IF_ERROR(PlacementsOf(words[4], &v.on));
    if (!values_.try_emplace(v.name, static_cast<ValueId>(g_.values.size())).second)
      return Wrong("a second value '{}'", v.name);
    g_.values.push_back(std::move(v));
    return Status::Ok();
  }

  Status Dims(std::string_view text, std::vector<Dim>* dims) const {
    if (text.size() < 2 || text.front() != '[' || text.back() != ']')
      return Wrong("'{}' is no shape", text);
    for (std::string_view part : Split(text.substr(1, text.size() - 2), ",")) {
      if (part == "T" || part == "R") {
        dims->push_back(part == "T" ? Dim::T() : Dim::HeadRows());
        continue;
      }
      Dim dim;
      if (part.starts_with("T*")) {
        dim.sym = Sym::kRoutes;
        part.remove_prefix(2);
      }
      const size_t slash = part.find('/');
      if (dim.sym == Sym::kRoutes && slash == std::string_view::npos)
        return Wrong("'T*{}' names no table of experts", part);
      if (!Read(part.substr(0, slash), &dim.n)) return Wrong("'{}' is no dimension", part);
      if (slash != std::string_view::npos) {
        const auto it = tables_.find(std::string(part.substr(slash + 1)));
        if (it == tables_.end()) return Wrong("there is no table '{}'", part.substr(slash + 1));
        dim.table = it->second;
      }
      dims->push_back(dim);
    }
    return Status::Ok();
  }

  Status PlacementsOf(std::string_view text, Placements* on) const {
    for (std::string_view part : Split(text, ",")) {
      int64_t dim = 0, order = 0;
      if (part == "R") {
        on->push_back(Placement::R());
      } else if (part == "P") {
        on->push_back(Placement::P());
      } else if (part.starts_with("S(") && part.ends_with(")")) {
        const auto numbers = Split(part.substr(2, part.size() - 3), ":");
        const bool good =
            (numbers.size() == 1 || (numbers.size() == 2 && Read(numbers[1], &order))) &&
            Read(numbers[0], &dim);
        if (!good || dim < 0 || dim > 127 || order < 0 || order > 127)
          return Wrong("'{}' is no placement", part);
        on->push_back(Placement::S(static_cast<int>(dim), static_cast<int>(order)));
      } else {
        return Wrong("'{}' is no placement", part);
      }
    }
    return Status::Ok();
  }

  Status Names(std::string_view text, std::vector<ValueId>* ids) const {
    for (std::string_view name : Split(text, ", ")) {
      const auto it = values_.find(std::string(name));
      if (it == values_.end()) return Wrong("there is no value '{}'", name);
      ids->push_back(it->second);
    }
    return Status::Ok();
  }

  // y, z = op(a, b) {k=1, e=0x1p-3, s='x'} @layer
  Status NodeLine(std::string_view line) {
    Node node;
    const size_t equals = line.find(" = "), at = line.rfind(" @");
    const size_t open = line.find('(', equals);
    const size_t close = open == std::string_view::npos ? open : line.find(')', open);
    if (close == std::string_view::npos || at == std::string_view::npos || at < close)
      return Wrong("'OUT = OP(IN) {{ATTRS}} @LAYER' wanted");
    WEFT_RETURN_IF_ERROR(Names(line.substr(0, equals), &node.out));
    const std::string_view op = line.substr(equals + 3, open - equals - 3);
    node.op = OpNamed(op);
    if (node.op == Op::kCount) return Wrong("'{}' is no op", op);
    WEFT_RETURN_IF_ERROR(Names(line.substr(open + 1, close - open - 1), &node.in));
    const std::string_view attrs = line.substr(close + 1, at - close - 1);
    if (!attrs.empty()) {
      if (!attrs.starts_with(" {") || !attrs.ends_with("}"))
        return Wrong("'{}' are no attributes", attrs);
      for (std::string_view attr : Split(attrs.substr(2, attrs.size() - 3), ", "))
        WEFT_RETURN_IF_ERROR(ReadAttr(attr, &node));
    }
    const std::string_view layer = line.substr(at + 2);
    if (layer != "-") node.layer = layer;
    g_.nodes.push_back(std::move(node));
    return Status::Ok();
  }

  Status ReadAttr(std::string_view text, Node* node) const {
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) return Wrong("'{}' is no attribute", text);
    const std::string_view key = text.substr(0, equals), value = text.substr(equals + 1);
    if (node->Has(key)) return Wrong("a second attribute '{}'", key);
    int64_t n = 0;
    if (Read(value, &n)) {
      node->Set(key, n);
    } else if (value.size() >= 2 && value.front() == '\'' && value.back() == '\'') {
      node->Set(key, std::string(value.substr(1, value.size() - 2)));
    } else {
      const std::string number(value);
      char* end = nullptr;
      const double d = std::strtod(number.c_str(), &end);
      if (number.empty() || *end != '\0') return Wrong("'{}' is no value of '{}'", value, key);
      node->Set(key, d);
    }
    return Status::Ok();
  }

  Graph g_;
  std::unordered_map<std::string, ValueId> values_;
  std::unordered_map<std::string, int> tables_;
  int line_ = 0;
  bool begun_ = false, returned_ = false;
};

}  // namespace

Result<Graph> Parse(std::string_view text) { return Reader().Run(text); }

}  // namespace weft::graph
