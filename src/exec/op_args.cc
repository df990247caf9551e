#include "exec/op_args.h"

#include <charconv>

#include "base/check.h"
#include "plan/local_rows.h"
#include "plan/plan.h"

namespace weft::exec {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;
using plan::LocalWidth;

ValueId RowsOfStep(const Node& node) {
  switch (node.op) {
    case graph::Op::kKvWrite: return node.in[1];
    case graph::Op::kGroupRoutes: return node.in[0];
    default: return node.out[0];
  }
}

View ShapeOf(const Graph& g, ValueId id, int64_t rows, int rank) {
  const Value& v = g.value(id);
  const int64_t width = LocalWidth(g, v, rank);
  return View{nullptr, rows, width, width, v.dtype};
}

namespace {

// Of a product with one matrix or with one an expert: all but what becomes of the tree over K.
kernels::MatmulArgs ProductShape(const Graph& g, const Node& node, int64_t rows, int rank,
                                 const plan::KLeaves& leaves) {
  const graph::MatmulOperands operands = OperandsOf(node);
  const Value& x = g.value(operands.x);
  kernels::MatmulArgs args;
  args.rows = rows;
  args.int8_activations = x.int8_rows;
  args.x = ShapeOf(g, operands.x, rows, rank);
  args.xq.rows = x.int8_rows ? rows : 0;
  args.xq.k = x.int8_rows ? args.x.cols : 0;
  args.w.dtype = g.value(operands.weights[0]).dtype;
  args.w.k = args.x.cols;
  for (ValueId y : node.out) args.w.n += LocalWidth(g, g.value(y), rank);
  args.w.k_leaves = leaves.range.size();
  args.y = View{nullptr, rows, args.w.n, args.w.n, g.value(node.out[0]).dtype};
  return args;
}

}  // namespace

kernels::MatmulArgs MatmulShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::MatmulArgs args = ProductShape(g, node, rows, rank, plan::LeavesOf(g, node, rank));
  args.finish = !node.Has("roots");
  args.roots = plan::RootsOf(g, node, rank);
  return args;
}

kernels::QuantiseRowsArgs QuantiseShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::QuantiseRowsArgs args;
  args.x = ShapeOf(g, node.in[0], rows, rank);
  args.out.rows = rows;
  args.out.k = args.x.cols;
  return args;
}

kernels::EmbedArgs EmbedShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::EmbedArgs args;
  const Value& table = g.value(node.in[1]);
  args.table.dtype = table.dtype;
  args.table.n = table.dims[0].n;
  args.table.k = table.dims[1].n;
  args.table.k_leaves = 1;
  args.y = ShapeOf(g, node.out[0], rows, rank);
  return args;
}

kernels::FinishArgs FinishShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::FinishArgs args;
  args.y = ShapeOf(g, node.out[0], rows, rank);
  args.count = 1;
  return args;
}

kernels::RmsNormArgs RmsNormShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::RmsNormArgs args;
  const bool add = node.op == graph::Op::kAddRmsNorm;
  args.x = ShapeOf(g, node.in[add ? 1 : 0], rows, rank);
  if (add) args.residual = args.x;
  args.y = args.x;
  args.eps = static_cast<float>(node.Real("eps"));
  args.width = node.Int("width");
  args.groups = static_cast<int>(args.x.cols / args.width);
  args.leaves = LeafTable::Make(args.width, node.Int("leaf_atom")).count();
  return args;
}

kernels::AddArgs AddShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  const View v = ShapeOf(g, node.in[0], rows, rank);
  return {v, v, v};
}

kernels::RopeArgs RopeShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::RopeArgs args;
  args.x = ShapeOf(g, node.in[0], rows, rank);
  args.head_dim = static_cast<int>(node.Int("head_dim"));
  args.rot = static_cast<int>(node.Int("rot"));
  args.heads = static_cast<int>(args.x.cols / args.head_dim);
  return args;
}

FusedImpl FusedImpl::Of(std::string_view impl) {
  const size_t first = impl.find('+');
  WEFT_CHECK(first != impl.npos, "'{}' is no fused step's", impl);
  const size_t second = impl.find('+', first + 1);
  FusedImpl out{std::string(impl.substr(0, first)),
                std::string(impl.substr(first + 1, second - first - 1)), ""};
  if (second != impl.npos) out.norm = impl.substr(second + 1);
  return out;
}

int KvLayerOf(const Value& state) {
  WEFT_CHECK(state.name.starts_with("kv."), "'{}' is no kv state", state.name);
  int layer = 0;
  std::from_chars(state.name.data() + 3, state.name.data() + state.name.size(), layer);
  return layer;
}

kernels::KvWriteArgs KvWriteShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::KvWriteArgs args;
  args.k = ShapeOf(g, node.in[1], rows, rank);
  args.v = ShapeOf(g, node.in[2], rows, rank);
  args.kv.dtype = args.k.dtype;
  args.kv.head_dim = static_cast<int>(node.Int("head_dim"));
  args.kv.kv_heads = static_cast<int>(args.k.cols / args.kv.head_dim);
  args.kv.page_tokens = 16;  // any page is a multiple
  return args;
}

kernels::AttentionArgs AttentionShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::AttentionArgs args;
  args.q = ShapeOf(g, node.in[0], rows, rank);
  args.y = args.q;
  args.rows = rows;
  args.kv.dtype = args.q.dtype;
  args.kv.head_dim = static_cast<int>(node.Int("head_dim"));
  args.heads = static_cast<int>(args.q.cols / args.kv.head_dim);
  args.kv.kv_heads = static_cast<int>(LocalWidth(g, g.value(node.in[1]), rank) / args.kv.head_dim);
  args.kv.page_tokens = 16;
  args.scale = static_cast<float>(node.Real("scale"));
  return args;
}

kernels::SiluMulArgs SiluMulShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  const View v = ShapeOf(g, node.in[0], rows, rank);
  return {v, v, v};
}

kernels::SigmoidMulArgs SigmoidMulShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::SigmoidMulArgs args;
  args.x = ShapeOf(g, node.in[0], rows, rank);
  args.gate = ShapeOf(g, node.in[1], rows, rank);
  args.y = args.x;
  return args;
}

kernels::GatedRmsNormArgs GatedRmsNormShape(const Graph& g, const Node& node, int64_t rows,
                                            int rank) {
  kernels::GatedRmsNormArgs args;
  args.o = ShapeOf(g, node.in[0], rows, rank);
  args.z = args.y = args.o;
  args.eps = static_cast<float>(node.Real("eps"));
  args.width = node.Int("width");
  args.heads = static_cast<int>(args.o.cols / args.width);
  args.leaves = LeafTable::Make(args.width, node.Int("leaf_atom")).count();
  args.activation = node.IntOr("sigmoid", 0) != 0 ? kernels::GateActivation::kSigmoid
                                                  : kernels::GateActivation::kSilu;
  return args;
}

kernels::CausalConvArgs CausalConvShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::CausalConvArgs args;
  args.x = ShapeOf(g, node.in[1], rows, rank);
  args.y = args.x;
  args.w_stride = args.state_row_stride = args.x.cols;
  args.taps = static_cast<int>(g.value(node.in[0]).dims[0].n) + 1;
  args.state_stride = ConvSlotElements(args);
  return args;
}

kernels::GatedDeltaArgs GatedDeltaShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::GatedDeltaArgs args;
  args.key_dim = static_cast<int>(node.Int("key_dim"));
  args.value_dim = static_cast<int>(node.Int("value_dim"));
  args.q = ShapeOf(g, node.in[1], rows, rank);
  args.k = ShapeOf(g, node.in[2], rows, rank);
  args.v = ShapeOf(g, node.in[3], rows, rank);
  args.a = ShapeOf(g, node.in[4], rows, rank);
  args.b = ShapeOf(g, node.in[5], rows, rank);
  args.y = args.v;
  args.key_heads = static_cast<int>(args.k.cols / args.key_dim);
  args.value_heads = static_cast<int>(args.v.cols / args.value_dim);
  args.state_stride = args.layout().slot_floats();
  return args;
}

int64_t StateSlotBytes(const Graph& g, const Node& node, int rank, int log_rows) {
  if (node.op == graph::Op::kGatedDelta) {
    kernels::GatedDeltaArgs args = GatedDeltaShape(g, node, 1, rank);
    args.log_max = log_rows;
    return args.layout().slot_floats() * 4;
  }
  kernels::CausalConvArgs args = CausalConvShape(g, node, 1, rank);
  args.log_max = log_rows;
  return ConvSlotElements(args) * FactsOf(args.x.dtype).block_bytes;
}

kernels::RouteArgs RouteShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::RouteArgs args;
  args.logits = ShapeOf(g, node.in[0], rows, rank);
  args.top_k = static_cast<int>(node.Int("top_k"));
  args.scoring =
      node.IntOr("sigmoid", 0) != 0 ? kernels::Scoring::kSigmoid : kernels::Scoring::kSoftmax;
  args.renormalise = node.IntOr("renormalise", 0) != 0;
  args.scale = static_cast<float>(node.Real("scale"));
  args.groups = static_cast<int>(node.IntOr("groups", 1));
  args.groups_kept = static_cast<int>(node.IntOr("groups_kept", 1));
  return args;
}

kernels::GroupRoutesArgs GroupRoutesShape(const Graph& g, const Node& node, int64_t rows,
                                          int rank) {
  kernels::GroupRoutesArgs args;
  const graph::ElementRange own = plan::ExpertsOf(g, g.value(node.out[0]), rank);
  args.rows = rows;
  args.top_k = static_cast<int>(g.value(node.in[0]).dims[1].n);
  args.first = static_cast<int32_t>(own.begin);
  args.count = static_cast<int>(own.size());
  return args;
}

kernels::MatmulArgs ExpertMatmulShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  return ProductShape(g, node, rows, rank, plan::ExpertLeavesOf(g, OperandsOf(node).weights[0]));
}

kernels::CombineArgs CombineShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::CombineArgs args;
  args.tokens = rows;
  args.top_k = static_cast<int>(g.value(node.in[2]).dims[1].n);
  args.rows = ShapeOf(g, node.in[0], rows * args.top_k, rank);
  args.leaves = plan::LeavesOf(g, node, rank).range.size();
  args.roots = plan::RootsOf(g, node, rank);
  return args;
}

kernels::CombineArgs CombineRowsShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::CombineArgs args;
  args.tokens = rows;
  args.top_k = static_cast<int>(g.value(node.in[2]).dims[1].n);
  args.rows = ShapeOf(g, node.in[0], rows * args.top_k, rank);
  args.leaves = g.tables[g.value(node.in[1]).dims[0].table].leaves.count();
  return args;
}

kernels::ConcatArgs ConcatShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  return {ShapeOf(g, node.in[0], rows, rank), ShapeOf(g, node.in[1], rows, rank),
          ShapeOf(g, node.out[0], rows, rank)};
}

kernels::GatherRowsArgs GatherRowsShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::GatherRowsArgs args;
  args.x = ShapeOf(g, node.in[0], rows, rank);
  args.y = ShapeOf(g, node.out[0], rows, rank);
  return args;
}

kernels::GatherRowsArgs DispatchShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::GatherRowsArgs args = GatherRowsShape(g, node, rows, rank);
  args.int8_rows = g.value(node.in[0]).int8_rows;
  args.xq.k = args.yq.k = args.int8_rows ? args.x.cols : 0;
  args.yq.rows = args.int8_rows ? rows : 0;
  return args;
}

kernels::ArgmaxArgs ArgmaxShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::ArgmaxArgs args;
  args.logits = ShapeOf(g, node.in[0], rows, rank);
  return args;
}

kernels::SampleArgs SampleShape(const Graph& g, const Node& node, int64_t rows, int rank) {
  kernels::SampleArgs args;
  args.logits = ShapeOf(g, node.in[0], rows, rank);
  return args;
}

}  // namespace weft::exec
