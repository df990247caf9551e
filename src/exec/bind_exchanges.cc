// Steps that exchange, alone or while they compute.
#include "exec/binder.h"
#include "exec/fused_runners.h"

namespace weft::exec {

// Columns [begin, end) of a reduction. Where they are not all of them, a member's roots of those
// before stand before theirs.
Reduction Binder::ReductionOf(const Node& node, int64_t begin, int64_t end) const {
  const std::vector<int> group = GroupOf(g_, node, c_.rank);
  Reduction out;
  comm::ReduceArgs& args = out.args;
  args.rank = static_cast<int>(std::find(group.begin(), group.end(), c_.rank) - group.begin());
  args.ranks = static_cast<int>(group.size());
  args.rows = Capacity(node.in[0]);
  args.cols = end - begin;
  args.root_count = t_.roots.count();
  args.root_ranks = t_.roots.root_ranks.data();
  args.merges = t_.roots.merges.data();
  args.dtype = g_.value(node.out[0]).dtype;
  args.bias = t_.bias.empty() ? nullptr : t_.bias.data() + begin;
  args.finish = FinishKernel();
  out.strides.assign(args.root_count, args.cols);
  out.in = LiveRowsOf(node.in[0], c_.rank);
  if (node.op == Op::kReduceScatter) out.starts.assign(group.size() + 1, 0);
  for (size_t m = 0; m < group.size(); ++m) {
    const int count = t_.roots.CountOf(static_cast<int>(m));
    auto* base = reinterpret_cast<float*>(BaseOf(node.in[0], group[m])) + count * args.rows * begin;
    for (int i = 0; i < count; ++i) out.roots.push_back(base + i * args.rows * args.cols);
    out.ys.push_back(ColumnsOf(ViewOf(node.out[0], group[m]), begin, end));
    out.outs.push_back(LiveRowsOf(node.out[0], group[m]));
  }
  return out;
}

std::unique_ptr<Runner> Binder::Reduce() {
  const auto* method = MethodNamed(
      node_.op == Op::kReduceScatter ? comm::ReduceScatterMethods() : comm::AllReduceMethods(),
      step_.impl);
  return std::make_unique<ReduceRunner>(c_, method, step_.split, GroupOf(g_, node_, c_.rank),
                                        ReductionOf(node_, 0, g_.value(node_.out[0]).dims[1].n));
}

std::unique_ptr<Runner> Binder::MatmulAllReduceNorm() {
  const graph::FusedChain chain = ChainOf(node_);
  const FusedImpl impl = FusedImpl::Of(step_.impl);
  fused::MatmulAllReduceNormArgs args;
  args.matmul_kernel = Named(kernels::MatmulKernels(), impl.matmul);
  args.method = MethodNamed(comm::AllReduceMethods(), impl.method);
  args.norm_kernel = Named(kernels::RmsNormKernels(), impl.norm);
  const NormStep norm = NormOf(chain.norm);
  args.norm = norm.args;
  args.residual_from = norm.from;
  args.each = step_.split == Split::kEach;
  args.rank = c_.rank;
  args.worker = c_.worker;
  args.workers = plan_.workers_per_rank;
  args.scratch = mine().scratch[c_.worker];
  const kernels::MatmulArgs whole = MatmulArgsOf(chain.matmul);
  const int64_t cols = args.norm.x.cols;
  std::vector<kernels::MatmulArgs> matmuls;
  std::vector<Reduction> reductions;
  const int tiles = fused::TilesOf(plan_.bucket.rows_max, cols);
  for (int t = 0; t < tiles; ++t) {
    const int64_t begin = fused::TileBegin(cols, t, tiles),
                  end = fused::TileBegin(cols, t + 1, tiles);
    kernels::MatmulArgs& tile = matmuls.emplace_back(whole);
    if (whole.w.k_leaves > 0) {
      tile.w = t_.tiles[t].matrix(whole.w.dtype, end - begin, whole.w.k);
      tile.partials += whole.roots * Capacity(chain.matmul.in[0]) * begin;
      tile.partials_stride = Capacity(chain.matmul.in[0]) * (end - begin);
    }
    reductions.push_back(ReductionOf(chain.exchange, begin, end));
  }
  return std::make_unique<MatmulAllReduceNormRunner>(c_, UnitsDone(), args, matmuls,
                                                     std::move(reductions), rows_);
}

std::unique_ptr<Runner> Binder::MatmulReduceScatter() {
  const graph::FusedChain chain = ChainOf(node_);
  const FusedImpl impl = FusedImpl::Of(step_.impl);
  fused::MatmulReduceScatterArgs args;
  args.matmul = MatmulArgsOf(chain.matmul);
  args.matmul_kernel = Named(kernels::MatmulKernels(), impl.matmul);
  args.method = MethodNamed(comm::ReduceScatterMethods(), impl.method);
  args.worker = c_.worker;
  args.workers = plan_.workers_per_rank;
  args.scratch = mine().scratch[c_.worker];
  return std::make_unique<MatmulReduceScatterRunner>(
      c_, UnitsDone(), args, ReductionOf(chain.exchange, 0, g_.value(node_.out[0]).dims[1].n));
}

std::unique_ptr<Runner> Binder::Move() {
  std::vector<int> group = GroupOf(g_, node_, c_.rank);  // of a slice: the rank alone
  std::vector<Held> members, results;
  for (int rank : group) {
    members.push_back(HeldBy(node_.in[0], rank));
    if (c_.processes || rank == c_.rank) results.push_back(HeldBy(node_.out[0], rank));
  }
  const int place =
      static_cast<int>(std::find(group.begin(), group.end(), c_.rank) - group.begin());
  const auto* method = MethodNamed(
      node_.op == Op::kAllToAll ? comm::AllToAllMethods() : comm::AllGatherMethods(), step_.impl);
  return std::make_unique<MoveRunner>(c_, method, step_.split, group, place, std::move(members),
                                      std::move(results), IsExchange(node_.op));
}

std::unique_ptr<Runner> Binder::DispatchRows() {
  const std::vector<int> group = GroupOf(g_, node_, c_.rank);
  std::vector<Held> members;
  std::vector<graph::ElementRange> experts;
  for (int rank : group) {
    members.push_back(HeldBy(node_.in[0], rank));
    experts.push_back(plan::ExpertsOf(g_, g_.value(node_.in[1]), rank));
  }
  comm::DispatchRowsArgs args;
  args.rank = static_cast<int>(std::find(group.begin(), group.end(), c_.rank) - group.begin());
  args.top_k = static_cast<int>(g_.value(node_.in[2]).dims[1].n);
  args.ids = reinterpret_cast<const int32_t*>(BaseOf(node_.in[2], c_.rank));
  args.place = GroupingAt(node_.in[1]).place;
  const Held to = HeldBy(node_.out[0], c_.rank);
  args.planes = static_cast<int>(to.planes.size());
  for (int p = 0; p < args.planes; ++p) {
    const Plane& plane = to.planes[static_cast<size_t>(p)];
    args.bytes[p] = to.columns.size() / plane.unit * plane.unit_bytes;
    args.to[p] = plane.data;
    args.to_stride[p] = plane.stride;
  }
  return std::make_unique<DispatchRowsRunner>(
      c_, MethodNamed(comm::DispatchRowsMethods(), step_.impl), step_.split, group, args,
      std::move(members), std::move(experts), c_.faults->rows_of_another_owner);
}

std::unique_ptr<Runner> Binder::CombineRows() {
  const std::vector<int> group = GroupOf(g_, node_, c_.rank);
  std::vector<comm::HeldExperts> held;
  std::vector<LiveRows> own;
  for (size_t m = 0; m < group.size(); ++m) {
    const Held rows = HeldBy(node_.in[0], group[m]);
    const graph::ElementRange experts = plan::ExpertsOf(g_, g_.value(node_.in[1]), group[m]);
    held.push_back({.from = static_cast<int32_t>(m),
                    .first = static_cast<int32_t>(experts.begin),
                    .count = static_cast<int32_t>(experts.size()),
                    .rows = {rows.planes[0].data, rows.planes[0].stride}});
    own.push_back(LiveRowsOf(node_.out[0], group[m]));
  }
  comm::CombineRowsArgs args;
  args.rank = static_cast<int>(std::find(group.begin(), group.end(), c_.rank) - group.begin());
  args.ids = reinterpret_cast<const int32_t*>(BaseOf(node_.in[2], c_.rank));
  args.combine = CombineRowsShape(g_, node_, Capacity(), c_.rank);
  args.combine.weights = reinterpret_cast<const float*>(BaseOf(node_.in[3], c_.rank));
  args.combine.leaf_begin = t_.expert_begin.data();
  args.combine.merges = t_.merges.data();
  args.y = ViewOf(node_.out[0]);
  args.kernel = Named(kernels::CombineKernels(), std::string(KernelOf(step_)));
  args.finish = FinishKernel();
  return std::make_unique<CombineRowsRunner>(
      c_, MethodNamed(comm::CombineRowsMethods(), MethodOf(step_)), step_.split, group, args,
      std::move(held), std::move(own), c_.faults->rows_of_another_owner);
}

std::unique_ptr<Runner> Binder::PairMax() {
  std::vector<const kernels::ValueIndex*> peers;
  for (int r = 0; r < g_.mesh.ranks(); ++r)
    peers.push_back(reinterpret_cast<const kernels::ValueIndex*>(BaseOf(node_.in[0], r)));
  return std::make_unique<PairMaxRunner>(
      c_, step_.impl, step_.split, std::move(peers),
      reinterpret_cast<kernels::ValueIndex*>(BaseOf(node_.out[0], c_.rank)));
}

}  // namespace weft::exec
