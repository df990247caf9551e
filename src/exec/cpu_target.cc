#include "exec/cpu_target.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/roots.h"
#include "exec/op_args.h"
#include "plan/local_rows.h"
#include "plan/plan.h"

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
        choice.refused.push_back({name, fmt::format("cpu offers {}, it needs {}", kernels::NameOf(options.isa), kernels::NameOf(kernel->isa))});
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

// From this many bytes of roots on, each element is summed once and crosses rounded; below, every
// rank sums all of it for itself and saves a meeting.
constexpr int64_t kTwoShotBytes = 64 * 1024;

// An all-reduce's method. What a step costs on the wire is asked of the method itself.
plan::Choice ChooseAllReduce(const CpuTargetOptions& options, const Graph& g, const Node& node, int64_t rows) {
  const int ranks = GroupSizeOf(g, node);
  const plan::KLeaves leaves = plan::LeavesOf(g, g.nodes[g.ProducerOf(node.in[0])].in[1], 0);
  const comm::RootLayout roots = comm::MakeRootLayout(leaves.table == nullptr ? LeafTable::Whole(1) : *leaves.table, ranks);
  comm::ReduceArgs args;
  args.ranks = ranks;
  args.rows = rows;
  args.cols = g.value(node.out[0]).dims[1].n;
  args.root_count = roots.count();
  args.root_ranks = roots.root_ranks.data();
  args.merges = roots.merges.data();
  args.dtype = g.value(node.out[0]).dtype;
  plan::Choice choice;
  const auto forced = options.impl.find("all_reduce");
  const bool large = rows * args.cols * args.root_count * 4 >= kTwoShotBytes;
  const std::string_view wanted = forced != options.impl.end() ? std::string_view(forced->second) : large ? "two_shot" : "direct";
  for (const auto* method : comm::AllReduceMethods()) {
    const std::string name(method->name);
    std::string reason = method->refuse(args);
    if (reason.empty() && method->name != wanted) {
      reason = forced != options.impl.end() ? "--impl all_reduce=" + forced->second
                                            : fmt::format("{} is best for {} rows of {}", wanted, rows, args.cols);
    }
    if (!reason.empty()) {
      if (choice.impl.empty()) choice.refused.push_back({name, reason});
      continue;
    }
    choice.impl = name;
    choice.phases = method->phases(args);
    if (name == "direct") continue;  // the plan counts it itself, exactly per row
    choice.row_wire_bytes = 0;
    for (args.rank = 0; args.rank < ranks; ++args.rank) choice.row_wire_bytes += method->bytes(args);
    choice.row_wire_bytes = (choice.row_wire_bytes + rows - 1) / rows;
  }
  return choice;
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
          {"gather_rows", NamesOf(kernels::GatherRowsKernels())},
          {"argmax", NamesOf(kernels::ArgmaxKernels())},
          {"sample", NamesOf(kernels::SampleKernels())},
          {"all_reduce", MethodNames(comm::AllReduceMethods())}};
}

plan::Choice CpuTarget::Choose(const Graph& g, const Node& node, const plan::Bucket& bucket) const {
  const int64_t rows = plan::RowCapacity(g, node.op == Op::kKvWrite ? node.in[1] : node.out[0], bucket.rows_max);
  const auto ask = [&](std::string_view family) { return Ask{options_, family, {}}; };
  switch (node.op) {
    case Op::kMatmul: return ask("matmul").From(kernels::MatmulKernels(), Shapes(g, node, rows, MatmulShape));
    case Op::kQuantise: return ask("quantise").From(kernels::QuantiseRowsKernels(), Shapes(g, node, rows, QuantiseShape));
    case Op::kEmbed: return ask("embed").From(kernels::EmbedKernels(), Shapes(g, node, rows, EmbedShape));
    case Op::kFinish: return ask("finish").From(kernels::FinishKernels(), Shapes(g, node, rows, FinishShape));
    case Op::kRmsNorm:
    case Op::kAddRmsNorm: return ask("rms_norm").From(kernels::RmsNormKernels(), Shapes(g, node, rows, RmsNormShape));
    case Op::kAdd: return ask("add").From(kernels::AddKernels(), Shapes(g, node, rows, AddShape));
    case Op::kRope: return ask("rope").From(kernels::RopeKernels(), Shapes(g, node, rows, RopeShape));
    case Op::kKvWrite: return ask("kv_write").From(kernels::KvWriteKernels(), Shapes(g, node, rows, KvWriteShape));
    case Op::kAttention: return ask("attention").From(kernels::AttentionKernels(), Shapes(g, node, rows, AttentionShape));
    case Op::kSiluMul: return ask("silu_mul").From(kernels::SiluMulKernels(), Shapes(g, node, rows, SiluMulShape));
    case Op::kGatherRows: return ask("gather_rows").From(kernels::GatherRowsKernels(), Shapes(g, node, rows, GatherRowsShape));
    case Op::kArgmax: return ask("argmax").From(kernels::ArgmaxKernels(), Shapes(g, node, rows, ArgmaxShape));
    case Op::kSample: return ask("sample").From(kernels::SampleKernels(), Shapes(g, node, rows, SampleShape));
    case Op::kHashLogits: return {"xxh64", {}};
    case Op::kAllReduce: return ChooseAllReduce(options_, g, node, rows);
    case Op::kReduceScatter:
    case Op::kAllGather:
    case Op::kAllToAll:
    case Op::kSliceRows:
    case Op::kPairMax: return {"direct", {}};
    default: return {"", {{"-", "not built"}}};
  }
}

}  // namespace weft::exec
