#include "exec/cpu_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "comm/roots.h"
#include "exec/op_args.h"
#include "fused/matmul_all_reduce_norm.h"
#include "fused/matmul_reduce_scatter.h"
#include "plan/local_rows.h"
#include "plan/plan.h"
#include "plan/wire_bytes.h"

namespace weft::exec {

using graph::Graph;
using graph::Node;
using graph::Op;
using kernels::Kernel;

namespace {

struct Ask {
  const CpuTargetOptions& options;
  std::string_view family;
  plan::Choice choice;

  // A rank may have nothing to do (no leaves); the widest shapes decide, so every rank is asked and
  // the first kernel that takes all of them wins.
  template <typename Args>
  plan::Choice From(std::span<const Kernel<Args>* const> list, const std::vector<Args>& shapes) {
    const auto forced = options.impl.find(family);
    for (const Kernel<Args>* kernel : list) {
      const std::string name(kernel->name);
      if (options.reference && name != "ref") continue;
      if (forced != options.impl.end() && forced->second != name) {
        choice.refused.push_back({name, fmt::format("--impl {}={}", family, forced->second)});
        continue;
      }
      if (kernel->isa > options.isa) {
        choice.refused.push_back(
            {name, fmt::format("cpu offers {}, it needs {}", kernels::NameOf(options.isa),
                               kernels::NameOf(kernel->isa))});
        continue;
      }
      std::string reason;
      if (kernel->avoid != nullptr && forced == options.impl.end()) reason = kernel->avoid();
      for (const Args& args : shapes) {
        if (kernel->refuse != nullptr && reason.empty()) reason = kernel->refuse(args);
      }
      if (!reason.empty()) {
        choice.refused.push_back({name, reason});
        continue;
      }
      choice.impl = name;
      return choice;
    }
    return choice;
  }
};

template <typename Shape>
auto Shapes(const Graph& g, const Node& node, int64_t rows, Shape shape) {
  std::vector<decltype(shape(g, node, rows, 0))> out;
  for (int r = 0; r < g.mesh.ranks(); ++r) out.push_back(shape(g, node, rows, r));
  return out;
}

// The cheapest of a collective's methods by the cost table; --impl goes before. The others are told
// with what they cost, also those behind it in the list. `args`: one for each rank, for `rows`
// rows.
template <typename Args>
plan::Choice ChooseMethod(const CpuTargetOptions& options,
                          std::span<const comm::Method<Args>* const> list,
                          const std::vector<Args>& args, int64_t rows) {
  const std::string_view family = comm::NameOf(list.front()->kind);
  const auto forced = options.impl.find(family);
  const int ranks = static_cast<int>(args.size()), workers = options.workers_per_rank;
  plan::Choice choice;
  std::vector<const comm::Method<Args>*> able;
  std::vector<plan::MethodCost> costs;
  for (const auto* method : list) {
    std::string reason = method->refuse(args.front());
    if (reason.empty() && forced != options.impl.end() && forced->second != method->name)
      reason = fmt::format("--impl {}={}", family, forced->second);
    if (!reason.empty()) {
      choice.refused.push_back({std::string(method->name), std::move(reason)});
      continue;
    }
    int64_t most = 0;
    for (const Args& a : args) most = std::max(most, method->bytes(a));
    const int phases = method->phases(args.front());
    // Few rows in one phase are done by every worker for itself (chain_steps); else workers share
    // them and meet.
    const bool shared = workers > 1 && (phases > 1 || rows > options.each_rows_max);
    std::optional<double> ns = options.costs.ExchangeNs(family, method->name, ranks,
                                                        shared ? most / workers : most, phases);
    if (ns && shared) *ns += options.costs.MeetingNs(workers);
    able.push_back(method);
    costs.push_back({method->name, ns});
  }
  if (able.empty()) return choice;
  const size_t best = plan::Cheapest(costs);
  for (size_t i = 0; i < able.size(); ++i) {
    if (i == best) continue;
    std::string reason = "the cost table does not know it";
    if (costs[i].ns) {
      const double others = costs[best].ns.value_or(0);
      reason = fmt::format("{:.0f} ns for {} row{}, {} takes {:.0f} ns{}", *costs[i].ns, rows,
                           rows == 1 ? "" : "s", costs[best].method, others,
                           *costs[i].ns < others
                               ? fmt::format("; it must save {:.0f} %", plan::kSavingLeast * 100)
                               : "");
    }
    choice.refused.push_back({std::string(able[i]->name), std::move(reason)});
  }
  const comm::Method<Args>& method = *able[best];
  choice.impl = method.name;
  choice.phases = method.phases(args.front());
  if (method.name == "direct") return choice;  // the plan counts it itself, exactly per row
  choice.row_wire_bytes = 0;
  for (const Args& a : args) choice.row_wire_bytes += method.bytes(a);
  choice.row_wire_bytes = (choice.row_wire_bytes + rows - 1) / rows;
  return choice;
}

using ReduceMethods = std::span<const comm::Method<comm::ReduceArgs>* const>;

// Of an all-reduce or a reduce-scatter.
plan::Choice ChooseReduce(const CpuTargetOptions& options, ReduceMethods list, const Graph& g,
                          const Node& node, int32_t rows_max) {
  const int64_t rows = plan::RowCapacity(g, node.in[0], rows_max);
  const int ranks = GroupSizeOf(g, node);
  const plan::KLeaves leaves = plan::LeavesOf(g, plan::MakerOfRoots(g, node.in[0]), 0);
  const comm::RootLayout roots =
      comm::MakeRootLayout(leaves.table == nullptr ? LeafTable::Whole(1) : *leaves.table, ranks);
  comm::ReduceArgs args;
  args.ranks = ranks;
  args.rows = rows;
  args.cols = g.value(node.out[0]).dims[1].n;
  args.root_count = roots.count();
  args.root_ranks = roots.root_ranks.data();
  args.merges = roots.merges.data();
  args.dtype = g.value(node.out[0]).dtype;
  std::vector<comm::ReduceArgs> members(ranks, args);
  for (int r = 0; r < ranks; ++r) members[r].rank = r;
  return ChooseMethod(options, list, members, rows);
}

// On average, in the bucket's fullest step, if experts are chosen alike.
int64_t RowsOfAnExpert(const Graph& g, const Node& node, int64_t rows_max) {
  const graph::Dim& routes = g.value(node.in[1]).dims[0];
  return std::max<int64_t>(1, rows_max * routes.n / g.tables[routes.table].leaves.size());
}

// Every link of a fused step's chain is chosen as it would be alone. Halving meets between phases
// that only a meeting of all orders, so it is no method of one.
plan::Choice ChooseFused(const CpuTargetOptions& options, const Graph& g, const Node& node,
                         const plan::Bucket& bucket) {
  const graph::FusedChain chain = ChainOf(node);
  const int64_t rows = plan::RowCapacity(g, node.in[0], bucket.rows_max);
  const bool scatters = chain.norm.op == Op::kCount;
  const std::string why = scatters ? fused::RefuseMatmulReduceScatter(rows, GroupSizeOf(g, node))
                                   : fused::RefuseMatmulAllReduceNorm(rows, GroupSizeOf(g, node));
  if (!why.empty()) return {"", {{"tiles", why}}};
  FusedImpl impl;
  plan::Choice out = Ask{options, "matmul", {}}.From(kernels::MatmulKernels(),
                                                     Shapes(g, chain.matmul, rows, MatmulShape));
  plan::Choice exchange{"direct", {}}, norm;
  if (!scatters) {
    const ReduceMethods all = comm::AllReduceMethods();
    exchange = ChooseReduce(options, all.first(2), g, chain.exchange, bucket.rows_max);
    norm = Ask{options, "rms_norm", {}}.From(kernels::RmsNormKernels(),
                                             Shapes(g, chain.norm, rows, RmsNormShape));
  }
  const bool possible =
      !out.impl.empty() && !exchange.impl.empty() && (scatters || !norm.impl.empty());
  out.impl = possible ? FusedImpl{out.impl, exchange.impl, norm.impl}.Name() : "";
  for (const plan::Choice* part : {&exchange, &norm})
    out.refused.insert(out.refused.end(), part->refused.begin(), part->refused.end());
  out.phases = exchange.phases;
  out.row_wire_bytes = exchange.row_wire_bytes;
  return out;
}

template <typename Method>
std::vector<std::string> MethodNames(std::span<const Method* const> list) {
  std::vector<std::string> names;
  for (const Method* method : list) names.emplace_back(method->name);
  return names;
}

template <typename Args>
std::vector<std::string> NamesOf(std::span<const Kernel<Args>* const> list) {
  std::vector<std::string> names;
  for (const auto* kernel : list) names.emplace_back(kernel->name);
  return names;
}

}  // namespace

std::string CpuTarget::name() const {
  return options_.reference ? "reference" : fmt::format("cpu-{}", kernels::NameOf(options_.isa));
}

std::map<std::string, std::vector<std::string>> CpuTarget::Families() {
  return {{"matmul", NamesOf(kernels::MatmulKernels())},
          {"quantise", NamesOf(kernels::QuantiseRowsKernels())},
          {"embed", NamesOf(kernels::EmbedKernels())},
          {"finish", NamesOf(kernels::FinishKernels())},
          {"rms_norm", NamesOf(kernels::RmsNormKernels())},
          {"add", NamesOf(kernels::AddKernels())},
          {"rope", NamesOf(kernels::RopeKernels())},
          {"kv_write", NamesOf(kernels::KvWriteKernels())},
          {"attention", NamesOf(kernels::AttentionKernels())},
          {"silu_mul", NamesOf(kernels::SiluMulKernels())},
          {"concat", NamesOf(kernels::ConcatKernels())},
          {"sigmoid_mul", NamesOf(kernels::SigmoidMulKernels())},
          {"gated_rms_norm", NamesOf(kernels::GatedRmsNormKernels())},
          {"causal_conv", NamesOf(kernels::CausalConvKernels())},
          {"gated_delta", NamesOf(kernels::GatedDeltaKernels())},
          {"route", NamesOf(kernels::RouteKernels())},
          {"group_routes", NamesOf(kernels::GroupRoutesKernels())},
          {"combine", NamesOf(kernels::CombineKernels())},
          {"gather_rows", NamesOf(kernels::GatherRowsKernels())},
          {"argmax", NamesOf(kernels::ArgmaxKernels())},
          {"sample", NamesOf(kernels::SampleKernels())},
          {"all_reduce", MethodNames(comm::AllReduceMethods())},
          {"reduce_scatter", MethodNames(comm::ReduceScatterMethods())}};
}

plan::Choice CpuTarget::Choose(const Graph& g, const Node& node, const plan::Bucket& bucket) const {
  const int64_t rows = plan::RowCapacity(g, RowsOfStep(node), bucket.rows_max);
  const auto ask = [&](std::string_view family) { return Ask{options_, family, {}}; };
  switch (node.op) {
    case Op::kMatmul:
      return ask("matmul").From(kernels::MatmulKernels(), Shapes(g, node, rows, MatmulShape));
    case Op::kQuantise:
      return ask("quantise")
          .From(kernels::QuantiseRowsKernels(), Shapes(g, node, rows, QuantiseShape));
    case Op::kEmbed:
      return ask("embed").From(kernels::EmbedKernels(), Shapes(g, node, rows, EmbedShape));
    case Op::kFinish:
      return ask("finish").From(kernels::FinishKernels(), Shapes(g, node, rows, FinishShape));
    case Op::kRmsNorm:
    case Op::kAddRmsNorm:
      return ask("rms_norm").From(kernels::RmsNormKernels(), Shapes(g, node, rows, RmsNormShape));
    case Op::kAdd: return ask("add").From(kernels::AddKernels(), Shapes(g, node, rows, AddShape));
    case Op::kRope:
      return ask("rope").From(kernels::RopeKernels(), Shapes(g, node, rows, RopeShape));
    case Op::kKvWrite:
      return ask("kv_write").From(kernels::KvWriteKernels(), Shapes(g, node, rows, KvWriteShape));
    case Op::kAttention:
      return ask("attention")
          .From(kernels::AttentionKernels(), Shapes(g, node, rows, AttentionShape));
    case Op::kSiluMul:
      return ask("silu_mul").From(kernels::SiluMulKernels(), Shapes(g, node, rows, SiluMulShape));
    case Op::kGatherRows:
      return ask("gather_rows")
          .From(kernels::GatherRowsKernels(), Shapes(g, node, rows, GatherRowsShape));
    case Op::kArgmax:
      return ask("argmax").From(kernels::ArgmaxKernels(), Shapes(g, node, rows, ArgmaxShape));
    case Op::kSample:
      return ask("sample").From(kernels::SampleKernels(), Shapes(g, node, rows, SampleShape));
    case Op::kSigmoidMul:
    case Op::kGateRows:
      return ask("sigmoid_mul")
          .From(kernels::SigmoidMulKernels(), Shapes(g, node, rows, SigmoidMulShape));
    case Op::kConcat:
      return ask("concat").From(kernels::ConcatKernels(), Shapes(g, node, rows, ConcatShape));
    case Op::kGatedRmsNorm:
      return ask("gated_rms_norm")
          .From(kernels::GatedRmsNormKernels(), Shapes(g, node, rows, GatedRmsNormShape));
    case Op::kCausalConv:
      return ask("causal_conv")
          .From(kernels::CausalConvKernels(), Shapes(g, node, rows, CausalConvShape));
    case Op::kGatedDelta:
      return ask("gated_delta")
          .From(kernels::GatedDeltaKernels(), Shapes(g, node, rows, GatedDeltaShape));
    case Op::kRoute:
      return ask("route").From(kernels::RouteKernels(), Shapes(g, node, rows, RouteShape));
    case Op::kGroupRoutes:
      return ask("group_routes")
          .From(kernels::GroupRoutesKernels(), Shapes(g, node, rows, GroupRoutesShape));
    case Op::kExpertMatmul:
      return ask("matmul").From(
          kernels::MatmulKernels(),
          Shapes(g, node, RowsOfAnExpert(g, node, bucket.rows_max), ExpertMatmulShape));
    case Op::kDispatch:
      return ask("gather_rows")
          .From(kernels::GatherRowsKernels(), Shapes(g, node, rows, DispatchShape));
    case Op::kCombine:
      return ask("combine").From(kernels::CombineKernels(), Shapes(g, node, rows, CombineShape));
    case Op::kCombineRows: {
      plan::Choice out =
          ask("combine").From(kernels::CombineKernels(), Shapes(g, node, rows, CombineRowsShape));
      if (!out.impl.empty()) out.impl = "direct+" + out.impl;
      return out;
    }
    case Op::kHashLogits: return {"xxh64", {}};
    case Op::kAllReduce:
      return ChooseReduce(options_, comm::AllReduceMethods(), g, node, bucket.rows_max);
    case Op::kReduceScatter:
      return ChooseReduce(options_, comm::ReduceScatterMethods(), g, node, bucket.rows_max);
    case Op::kMatmulReduceScatter:
    case Op::kMatmulAllReduceNorm: return ChooseFused(options_, g, node, bucket);
    case Op::kAllGather:
    case Op::kAllToAll:
    case Op::kDispatchRows:
    case Op::kSliceRows:
    case Op::kPairMax: return {"direct", {}};
    default: return {"", {{"-", "not built"}}};
  }
}

}  // namespace weft::exec
