#include <algorithm>

#include "exec/kernel_runners.h"
#include "exec/op_args.h"
#include "plan/local_rows.h"

namespace weft::exec {

using graph::Graph;
using graph::Node;
using graph::Op;
using plan::Plan;

int64_t ScratchBytes(const Plan& plan) {
  int64_t bytes = 0;
  const auto want = [&](auto list, const std::string& name, const auto& args) {
    const auto* kernel = Named(list, name);
    if (kernel->scratch_bytes != nullptr) bytes = std::max(bytes, kernel->scratch_bytes(args));
  };
  const Graph& g = plan.graph;
  const int64_t rows = plan.bucket.rows_max;
  for (int r = 0; r < g.mesh.ranks(); ++r) {
    for (const plan::Step& step : plan.steps) {
      const Node& node = g.nodes[step.node];
      switch (node.op) {
        case Op::kMatmul:
          want(kernels::MatmulKernels(), step.impl, MatmulShape(g, node, rows, r));
          break;
        case Op::kMatmulReduceScatter:
        case Op::kMatmulAllReduceNorm: {
          const graph::FusedChain chain = ChainOf(node);
          const FusedImpl impl = FusedImpl::Of(step.impl);
          want(kernels::MatmulKernels(), impl.matmul, MatmulShape(g, chain.matmul, rows, r));
          if (!impl.norm.empty())
            want(kernels::RmsNormKernels(), impl.norm, RmsNormShape(g, chain.norm, rows, r));
          break;
        }
        case Op::kQuantise:
          want(kernels::QuantiseRowsKernels(), step.impl, QuantiseShape(g, node, rows, r));
          break;
        case Op::kEmbed:
          want(kernels::EmbedKernels(), step.impl, EmbedShape(g, node, rows, r));
          break;
        case Op::kFinish:
          want(kernels::FinishKernels(), step.impl, FinishShape(g, node, rows, r));
          break;
        case Op::kRmsNorm:
        case Op::kAddRmsNorm:
          want(kernels::RmsNormKernels(), step.impl, RmsNormShape(g, node, rows, r));
          break;
        case Op::kAdd: want(kernels::AddKernels(), step.impl, AddShape(g, node, rows, r)); break;
        case Op::kRope: want(kernels::RopeKernels(), step.impl, RopeShape(g, node, rows, r)); break;
        case Op::kKvWrite:
          want(kernels::KvWriteKernels(), step.impl, KvWriteShape(g, node, rows, r));
          break;
        case Op::kAttention:
          want(kernels::AttentionKernels(), step.impl, AttentionShape(g, node, rows, r));
          break;
        case Op::kSiluMul:
          want(kernels::SiluMulKernels(), step.impl, SiluMulShape(g, node, rows, r));
          break;
        case Op::kSigmoidMul:
        case Op::kGateRows:
          want(kernels::SigmoidMulKernels(), step.impl, SigmoidMulShape(g, node, rows, r));
          break;
        case Op::kConcat:
          want(kernels::ConcatKernels(), step.impl, ConcatShape(g, node, rows, r));
          break;
        case Op::kGatedRmsNorm:
          want(kernels::GatedRmsNormKernels(), step.impl, GatedRmsNormShape(g, node, rows, r));
          break;
        case Op::kCausalConv:
          want(kernels::CausalConvKernels(), step.impl, CausalConvShape(g, node, rows, r));
          break;
        case Op::kGatedDelta:
          want(kernels::GatedDeltaKernels(), step.impl, GatedDeltaShape(g, node, rows, r));
          break;
        case Op::kRoute:
          want(kernels::RouteKernels(), step.impl, RouteShape(g, node, rows, r));
          break;
        case Op::kGroupRoutes:
          want(kernels::GroupRoutesKernels(), step.impl, GroupRoutesShape(g, node, rows, r));
          break;
        case Op::kExpertMatmul: {
          kernels::GroupedMatmulArgs args;
          args.matmul = ExpertMatmulShape(g, node, plan::RowCapacity(g, node.in[0], rows), r);
          args.rows_max = rows;
          args.count = static_cast<int>(plan::ExpertsOf(g, g.value(node.in[1]), r).size());
          args.kernel = Named(kernels::MatmulKernels(), step.impl);
          const auto* grouped = kernels::GroupedMatmulKernels()[0];
          if (grouped->scratch_bytes != nullptr)
            bytes = std::max(bytes, grouped->scratch_bytes(args));
          break;
        }
        case Op::kCombine:
          want(kernels::CombineKernels(), step.impl, CombineShape(g, node, rows, r));
          break;
        case Op::kDispatch:
          want(kernels::GatherRowsKernels(), step.impl, DispatchShape(g, node, rows, r));
          break;
        case Op::kGatherRows:
          want(kernels::GatherRowsKernels(), step.impl, GatherRowsShape(g, node, rows, r));
          break;
        case Op::kArgmax:
          want(kernels::ArgmaxKernels(), step.impl, ArgmaxShape(g, node, rows, r));
          break;
        case Op::kSample:
          want(kernels::SampleKernels(), step.impl, SampleShape(g, node, rows, r));
          break;
        default: break;
      }
    }
  }
  return bytes;
}

}  // namespace weft::exec
