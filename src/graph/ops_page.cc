#include "graph/ops_page.h"

#include <fmt/format.h>

#include "graph/builder.h"

namespace weft::graph {
namespace {

// A graph of one word of intention, over plain weights.
Graph Only(Op op) {
  Builder b("one", DType::kBF16);
  const auto rows = [&](const char* name) {
    return b.Input(name, DType::kBF16, {Dim::T(), Dim::C(64)});
  };
  const auto weight = [&] { return b.Param("w", DType::kBF16, {Dim::C(64), Dim::C(64)}); };
  switch (op) {
    case Op::kEmbedding:
      return b.Finish({b.Embedding(b.Input("ids", DType::kI32, {Dim::T()}), weight())});
    case Op::kColumnLinear:
      return b.Finish(b.ColumnLinear(rows("x"), {weight()}, {kNoValue}, {"y"}));
    case Op::kRowLinear: return b.Finish({b.RowLinear(rows("x"), weight(), kNoValue, "y")});
    case Op::kLmHead: return b.Finish({b.LmHead(rows("x"), weight())});
    case Op::kSwiGlu: return b.Finish({b.SwiGlu(rows("gate"), rows("up"))});
    case Op::kExperts: {
      const auto of = [&](const char* name) {
        return b.Param(name, DType::kBF16, {Dim::C(4, 0), Dim::C(64), Dim::C(64)});
      };
      b.Table("experts", LeafTable::Make(4, 1));
      const ValueId logits = b.Input("logits", DType::kF32, {Dim::T(), Dim::C(4)});
      return b.Finish({b.Experts({.x = rows("x"),
                                  .logits = logits,
                                  .gate = of("gate"),
                                  .up = of("up"),
                                  .down = of("down")})});
    }
    case Op::kSelfAttention: {
      const ValueId kv = b.State("kv", {Dim::C(2), Dim::C(64)});
      const ValueId slots = b.Input("slots", DType::kI64, {Dim::T()});
      const ValueId segments = b.Input("segments", DType::kI32, {});
      return b.Finish(
          {b.SelfAttention({rows("q"), rows("k"), rows("v"), kv, slots, segments, 64, 1, 1.0})
               .first});
    }
    default: return {};
  }
}

std::string ExpansionOf(Op op) {
  std::string out;
  for (const Node& node : Expand(Only(op), {}).nodes) {
    out += fmt::format("{}`{}`", out.empty() ? "" : ", ", NameOf(node.op));
  }
  return out;
}

// '|' ends a cell.
std::string Cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string Row(const OpFacts& f, const std::string& last) {
  const auto mark = [](bool is) { return is ? "yes" : ""; };
  return fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} |\n", f.name, Cell(f.doc),
                     mark(f.token_wise), mark(f.linear), mark(f.monotone), mark(f.view),
                     mark(f.effect), Cell(last));
}

template <typename Wanted, typename Last>
std::string Table(std::string_view last_title, Wanted wanted, Last last) {
  std::string out = fmt::format(
      "| op | operands and results | token-wise | linear | monotone | view | effect | {} |\n"
      "|---|---|---|---|---|---|---|---|\n",
      last_title);
  for (const OpFacts& f : AllOps()) {
    if (wanted(f.op)) out += Row(f, last(f));
  }
  return out + "\n";
}

}  // namespace

std::string OpsPage() {
  const auto placement = [](const OpFacts& f) { return std::string(TextOf(f.rule)); };
  std::string out =
      "# Ops\n\n"
      "Made by `weft explain --ops` from the table in `src/graph/op_facts.cc`; a test compares the "
      "two. Passes move data by these\n"
      "facts and by placements, never by an op's name.\n\n"
      "- **token-wise**: a row of the result depends on that row of the operands alone.\n"
      "- **linear**: commutes with a sum over ranks before rounding.\n"
      "- **monotone**: keeps the order of values, so it commutes with an argmax.\n"
      "- **view**: no data moves.\n"
      "- **effect**: writes a version of a state; each version has one writer.\n\n"
      "In shapes: T token rows, R head rows, H hidden, K and N inputs and outputs of a matrix, F "
      "width of the feed-forward block,\n"
      "D one head, V vocabulary. Placements: R replicated, S(d) cut along dim d, P partial; before "
      "the colon what the operands\n"
      "must be, behind it what the results are. What is rounded, once, is in "
      "[numerics.md](numerics.md), rule 3.\n\n"
      "## Words of intention\n\n"
      "What a model file says. Before any pass they become primitive ops, always the same ones; "
      "rows that meet a quantised weight\n"
      "pass through `quantise` first.\n\n";
  out += Table("becomes", IsIntention, [](const OpFacts& f) { return ExpansionOf(f.op); });
  out += "## Primitive ops\n\n";
  out += Table(
      "placement", [](Op op) { return !IsIntention(op) && !IsExchange(op) && !IsFused(op); },
      placement);
  out += "## Changes of placement\n\nAll communication is one of these.\n\n";
  out += Table("placement", IsExchange, placement);
  out +=
      "## Chains in one step\n\nCompute and exchange interleaved by tiles; what they compute is "
      "their chain, op by op.\n\n";
  out += Table("placement", IsFused, placement);
  out.pop_back();
  return out;
}

}  // namespace weft::graph
