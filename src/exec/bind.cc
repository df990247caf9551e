// plan step -> Runner: the one place where a kernel's arguments meet memory.
#include <algorithm>

#include "base/check.h"
#include "exec/exchange_runners.h"
#include "exec/fused_runners.h"
#include "exec/kernel_runners.h"
#include "exec/op_args.h"
#include "exec/rank_tables.h"
#include "plan/head_split.h"

namespace weft::exec {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;
using graph::ValueId;
using plan::Layout;
using plan::LocalWidth;
using plan::Plan;
using plan::Region;

namespace {

class Binder {
 public:
  Binder(const BindContext& c, RankTables& tables, size_t step)
      : c_(c), plan_(*c.plan), g_(c.plan->graph), step_(c.plan->steps[step]), node_(g_.nodes[step_.node]),
        t_(tables.steps[step]), rows_(LiveRowsOf(node_.op == Op::kKvWrite ? node_.in[1] : node_.out[0], c.rank)) {}

  std::unique_ptr<Runner> Bind();

 private:
  const RankMemory& mine() const { return c_.memory->ranks[c_.rank]; }

  LiveRows LiveRowsOf(ValueId id, int rank) const {
    const Value& v = g_.value(id);
    return {plan::LocalRows(g_, v, rank), !v.dims.empty() && v.dims[0].sym == graph::Sym::kHeadRows};
  }
  // Rows that there is room for, of a value and of what the step makes; the same on every rank.
  int64_t Capacity(ValueId id) const { return plan::RowCapacity(g_, id, plan_.bucket.rows_max); }
  int64_t Capacity() const { return rows_.rows.Capacity(plan_.bucket.rows_max); }

  // Where a value stands on `rank`, for this worker.
  std::byte* BaseOf(ValueId id, int rank) const {
    const RankMemory& memory = c_.memory->ranks[rank];
    if (g_.value(id).kind == graph::ValueKind::kInput) {
      WEFT_CHECK(g_.value(id).name == "hidden", "input '{}' has no memory", g_.value(id).name);
      return memory.hidden;
    }
    const Layout& layout = plan_.layouts[id];
    switch (layout.region) {
      case Region::kRank: return memory.arena + layout.offset;
      case Region::kWorker: return memory.worker_arenas[c_.worker] + layout.offset;
      case Region::kHidden: return memory.hidden;
      case Region::kNone: break;
    }
    WEFT_CHECK(false, "value '{}' has no memory", g_.value(id).name);
    return nullptr;
  }
  View ViewOf(ValueId id, int rank) const {
    View view = ShapeOf(g_, id, Capacity(id), rank);
    int64_t column = 0;
    const Layout& layout = plan_.layouts[id];
    if (layout.region != Region::kNone && layout.group.size() > 1) {
      view.stride = 0;
      for (ValueId member : layout.group) {
        if (member == id) column = view.stride;
        view.stride += LocalWidth(g_, g_.value(member), rank);
      }
    }
    view.data = BaseOf(id, rank) + column * FactsOf(view.dtype).block_bytes;
    return view;
  }
  View ViewOf(ValueId id) const { return ViewOf(id, c_.rank); }
  static View ColumnsOf(View view, int64_t begin, int64_t end) {
    view.data = static_cast<std::byte*>(view.data) + begin * FactsOf(view.dtype).block_bytes;
    view.cols = end - begin;
    return view;
  }
  // The columns of the heads that this worker takes; all columns of a step that is not split so.
  View HeadsOf(ValueId id, int64_t head_dim) const {
    View view = ViewOf(id);
    if (step_.split != Split::kHeads) return view;
    const plan::WorkerHeads own = plan::HeadsOf(plan_, step_, c_.rank, c_.worker);
    const bool q = plan::HoldsQueries(plan_, step_, id);
    const int64_t begin = q ? own.q_begin : own.kv_begin, end = q ? own.q_end : own.kv_end;
    view.data = static_cast<std::byte*>(view.data) + begin * head_dim * FactsOf(view.dtype).block_bytes;
    view.cols = (end - begin) * head_dim;
    return view;
  }
  kernels::QuantisedRows RowsOf(ValueId id) const {
    const int64_t k = LocalWidth(g_, g_.value(id), c_.rank);
    return kernels::QuantisedRows::In(BaseOf(id, c_.rank), Capacity(id), Capacity(id), k);
  }
  kernels::KvLayout KvOf(ValueId state, kernels::KvLayout shape) const {
    shape.base = mine().kv_layers[KvLayerOf(g_.value(state))];
    shape.page_tokens = c_.memory->page_tokens;
    return shape;
  }

  template <typename Args>
  std::unique_ptr<Runner> Make(Args args, std::span<const Kernel<Args>* const> list, typename KernelRunner<Args>::Patch patch) const {
    return std::make_unique<KernelRunner<Args>>(args, Named(list, step_.impl), patch, rows_, step_.split, c_.worker,
                                                plan_.workers_per_rank, mine().scratch[c_.worker], UnitsDone());
  }
  int64_t* UnitsDone() const { return &mine().units[c_.worker].of_op[static_cast<size_t>(node_.op)]; }
  // A value as it stands on `rank`, for those who move it.
  Held HeldBy(ValueId id, int rank) const {
    const Value& v = g_.value(id);
    Held held{{}, LiveRowsOf(id, rank), ElementsOf(g_, v, 1, rank)};
    if (v.int8_rows) {
      const auto q = kernels::QuantisedRows::In(BaseOf(id, rank), Capacity(id), Capacity(id), held.columns.size());
      held.planes = {{reinterpret_cast<std::byte*>(q.q), q.k, 1, 1},
                     {reinterpret_cast<std::byte*>(q.d), q.k / 32 * 4, 32, 4},
                     {reinterpret_cast<std::byte*>(q.sum), q.k / 32 * 4, 32, 4}};
    } else {
      const View view = ViewOf(id, rank);
      const int64_t size = FactsOf(view.dtype).block_bytes;
      held.planes = {{static_cast<std::byte*>(view.data), view.stride * size, 1, size}};
    }
    return held;
  }

  // The rows behind a walk, and where the residual comes from when it does not stand where it goes.
  struct NormStep {
    kernels::RmsNormArgs args;
    View from;
  };
  kernels::MatmulArgs MatmulArgsOf(const Node& node) const;
  NormStep NormOf(const Node& node) const;
  Reduction ReductionOf(const Node& node, int64_t begin, int64_t end) const;

  std::unique_ptr<Runner> Matmul();
  std::unique_ptr<Runner> Norm();
  std::unique_ptr<Runner> Finish();
  std::unique_ptr<Runner> Attention();
  std::unique_ptr<Runner> Reduce();
  std::unique_ptr<Runner> MatmulAllReduceNorm();
  std::unique_ptr<Runner> MatmulReduceScatter();
  std::unique_ptr<Runner> Move();
  std::unique_ptr<Runner> PairMax();
  std::unique_ptr<Runner> HashLogits();

  const BindContext& c_;
  const Plan& plan_;
  const Graph& g_;
  const plan::Step& step_;
  const Node& node_;
  RankTables::OfStep& t_;
  const LiveRows rows_;  // of what the step makes on this rank
};

kernels::MatmulArgs Binder::MatmulArgsOf(const Node& node) const {
  kernels::MatmulArgs args = MatmulShape(g_, node, Capacity(node.in[0]), c_.rank);
  if (args.w.n == 0 || args.w.k_leaves == 0) return args;
  args.w = t_.packed.matrix(args.w.dtype, args.w.n, args.w.k);
  args.merges = t_.merges.data();
  if (args.int8_activations) {
    args.xq = RowsOf(node.in[0]);
  } else {
    args.x = ViewOf(node.in[0]);
  }
  if (args.finish) {
    args.bias = t_.bias.empty() ? nullptr : t_.bias.data();
    args.y = ViewOf(node.out[0]);
    args.y.cols = args.w.n;
  } else {
    args.partials = reinterpret_cast<float*>(BaseOf(node.out[0], c_.rank));
    args.partials_stride = Capacity(node.in[0]) * args.w.n;
  }
  return args;
}

std::unique_ptr<Runner> Binder::Matmul() {
  const kernels::MatmulArgs args = MatmulArgsOf(node_);
  if (args.w.n == 0 || args.w.k_leaves == 0) return std::make_unique<NothingRunner>();
  auto matmul = Make<kernels::MatmulArgs>(args, kernels::MatmulKernels(), [](kernels::MatmulArgs& a, const Live& live, const LiveRows& rows) {
    a.rows = a.x.rows = a.y.rows = rows.Count(live);
    a.xq.rows = a.int8_activations ? a.rows : 0;
  });
  if (!c_.faults->bf16_partials || args.finish) return matmul;
  WEFT_CHECK(plan_.workers_per_rank == 1, "bf16_partials wants one worker a rank");
  return std::make_unique<RoundedPartialsRunner>(std::move(matmul), args.partials, args.roots * args.partials_stride);
}

Binder::NormStep Binder::NormOf(const Node& node) const {
  NormStep step{RmsNormShape(g_, node, Capacity(node.out[0]), c_.rank), {}};
  kernels::RmsNormArgs& args = step.args;
  const bool add = node.op == Op::kAddRmsNorm;
  args.x = HeadsOf(node.in[add ? 1 : 0], args.width);
  args.y = HeadsOf(node.out[add ? 1 : 0], args.width);
  args.groups = static_cast<int>(args.x.cols / args.width);
  args.gain = t_.gain.data();
  args.leaf_begin = t_.leaf_begin.data();
  if (add) {
    args.residual = ViewOf(node.out[0]);
    if (const View from = ViewOf(node.in[0]); from.data != args.residual.data) step.from = from;
  }
  return step;
}

std::unique_ptr<Runner> Binder::Norm() {
  const NormStep step = NormOf(node_);
  if (step.args.groups == 0) return std::make_unique<NothingRunner>();
  auto norm = Make<kernels::RmsNormArgs>(step.args, kernels::RmsNormKernels(), [](kernels::RmsNormArgs& a, const Live& live, const LiveRows& rows) {
    a.x.rows = a.y.rows = a.residual.rows = rows.Count(live);
  });
  if (step.from.data == nullptr) return norm;
  return std::make_unique<MovedNormRunner>(std::move(norm), step.from, step.args.residual, rows_, step_.split == Split::kEach,
                                           c_.worker, plan_.workers_per_rank);
}

// Columns [begin, end) of a reduction. Where they are not all of them, a member's roots of those before stand
// before theirs.
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
  args.finish = Named(kernels::FinishKernels(), plan_.target == "reference" ? "ref" : std::string(kernels::FinishKernels()[0]->name));
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
  const auto* method = MethodNamed(node_.op == Op::kReduceScatter ? comm::ReduceScatterMethods() : comm::AllReduceMethods(), step_.impl);
  return std::make_unique<ReduceRunner>(c_, method, step_.split, GroupOf(g_, node_, c_.rank), ReductionOf(node_, 0, g_.value(node_.out[0]).dims[1].n));
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
    const int64_t begin = fused::TileBegin(cols, t, tiles), end = fused::TileBegin(cols, t + 1, tiles);
    kernels::MatmulArgs& tile = matmuls.emplace_back(whole);
    if (whole.w.k_leaves > 0) {
      tile.w = t_.tiles[t].matrix(whole.w.dtype, end - begin, whole.w.k);
      tile.partials += whole.roots * Capacity(chain.matmul.in[0]) * begin;
      tile.partials_stride = Capacity(chain.matmul.in[0]) * (end - begin);
    }
    reductions.push_back(ReductionOf(chain.exchange, begin, end));
  }
  return std::make_unique<MatmulAllReduceNormRunner>(c_, UnitsDone(), args, matmuls, std::move(reductions), rows_);
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
  return std::make_unique<MatmulReduceScatterRunner>(c_, UnitsDone(), args, ReductionOf(chain.exchange, 0, g_.value(node_.out[0]).dims[1].n));
}

std::unique_ptr<Runner> Binder::Move() {
  std::vector<int> group = GroupOf(g_, node_, c_.rank);  // of a slice: the rank alone
  std::vector<Held> members, results;
  for (int rank : group) {
    members.push_back(HeldBy(node_.in[0], rank));
    if (c_.processes || rank == c_.rank) results.push_back(HeldBy(node_.out[0], rank));
  }
  const int place = static_cast<int>(std::find(group.begin(), group.end(), c_.rank) - group.begin());
  const auto* method = MethodNamed(node_.op == Op::kAllToAll ? comm::AllToAllMethods() : comm::AllGatherMethods(), step_.impl);
  return std::make_unique<MoveRunner>(c_, method, step_.split, group, place, std::move(members), std::move(results),
                                      IsExchange(node_.op));
}

std::unique_ptr<Runner> Binder::PairMax() {
  std::vector<const kernels::ValueIndex*> peers;
  for (int r = 0; r < g_.mesh.ranks(); ++r) peers.push_back(reinterpret_cast<const kernels::ValueIndex*>(BaseOf(node_.in[0], r)));
  return std::make_unique<PairMaxRunner>(c_, step_.impl, step_.split, std::move(peers), reinterpret_cast<kernels::ValueIndex*>(BaseOf(node_.out[0], c_.rank)));
}

std::unique_ptr<Runner> Binder::HashLogits() {
  const Value& logits = g_.value(node_.in[0]);
  return std::make_unique<HashLogitsRunner>(ViewOf(node_.in[0]), g_.tables[logits.dims[1].table].leaves, c_.rank == 0 && c_.worker == 0);
}

std::unique_ptr<Runner> Binder::Finish() {
  kernels::FinishArgs args;
  args.y = ViewOf(node_.out[0]);
  args.merges = t_.roots.merges.data();
  args.bias = t_.bias.empty() ? nullptr : t_.bias.data();
  const auto* base = reinterpret_cast<const float*>(BaseOf(node_.in[0], c_.rank));
  std::vector<const float*> roots;
  for (int i = 0; i < t_.roots.count(); ++i) roots.push_back(base + i * Capacity(node_.in[0]) * args.y.cols);
  auto runner = std::make_unique<FinishRunner>(args, std::move(roots));
  runner->Bind(Named(kernels::FinishKernels(), step_.impl), rows_, step_.split, c_.worker, plan_.workers_per_rank, mine().scratch[c_.worker], UnitsDone());
  return runner;
}

std::unique_ptr<Runner> Binder::Attention() {
  kernels::AttentionArgs args = AttentionShape(g_, node_, Capacity(), c_.rank);
  args.q = HeadsOf(node_.in[0], args.kv.head_dim);
  args.y = HeadsOf(node_.out[0], args.kv.head_dim);
  args.kv = KvOf(node_.in[1], args.kv);
  args.heads = static_cast<int>(args.q.cols / args.kv.head_dim);
  args.kv_of_head = t_.kv_of_head.data();
  if (step_.split == Split::kHeads) args.kv_of_head += plan::HeadsOf(plan_, step_, c_.rank, c_.worker).q_begin;
  if (args.heads == 0) return std::make_unique<NothingRunner>();
  const auto patch = [](kernels::AttentionArgs& a, const Live& live, const LiveRows&) {
    a.rows = a.q.rows = a.y.rows = live.tokens;
    a.segments = live.inputs->segments.data();
    a.segment_count = static_cast<int>(live.inputs->segments.size());
  };
  if (c_.faults->attention != nullptr) {
    return std::make_unique<KernelRunner<kernels::AttentionArgs>>(args, c_.faults->attention, patch, rows_, step_.split, c_.worker,
                                                                  plan_.workers_per_rank, mine().scratch[c_.worker], UnitsDone());
  }
  return Make<kernels::AttentionArgs>(args, kernels::AttentionKernels(), patch);
}

std::unique_ptr<Runner> Binder::Bind() {
  switch (node_.op) {
    case Op::kMatmul: return Matmul();
    case Op::kRmsNorm:
    case Op::kAddRmsNorm: return Norm();
    case Op::kFinish: return Finish();
    case Op::kAllReduce:
    case Op::kReduceScatter: return Reduce();
    case Op::kMatmulAllReduceNorm: return MatmulAllReduceNorm();
    case Op::kMatmulReduceScatter: return MatmulReduceScatter();
    case Op::kAllGather:
    case Op::kAllToAll:
    case Op::kSliceRows: return Move();
    case Op::kPairMax: return PairMax();
    case Op::kHashLogits: return HashLogits();
    case Op::kAttention: return Attention();
    case Op::kEmbed: {
      kernels::EmbedArgs args = EmbedShape(g_, node_, Capacity(), c_.rank);
      args.table = t_.packed.matrix(args.table.dtype, args.table.n, args.table.k);
      args.y = ViewOf(node_.out[0]);
      return Make<kernels::EmbedArgs>(args, kernels::EmbedKernels(), [](kernels::EmbedArgs& a, const Live& live, const LiveRows& rows) {
        a.ids = live.inputs->ids.data() + rows.rows.Begin(live.tokens);
        a.y.rows = rows.Count(live);
      });
    }
    case Op::kQuantise: {
      kernels::QuantiseRowsArgs args{ViewOf(node_.in[0]), RowsOf(node_.out[0])};
      if (args.x.cols == 0) return std::make_unique<NothingRunner>();
      return Make<kernels::QuantiseRowsArgs>(args, kernels::QuantiseRowsKernels(), [](kernels::QuantiseRowsArgs& a, const Live& live, const LiveRows& rows) {
        a.x.rows = a.out.rows = rows.Count(live);
      });
    }
    case Op::kAdd: {
      kernels::AddArgs args{ViewOf(node_.in[0]), ViewOf(node_.in[1]), ViewOf(node_.out[0])};
      return Make<kernels::AddArgs>(args, kernels::AddKernels(), [](kernels::AddArgs& a, const Live& live, const LiveRows& rows) {
        a.a.rows = a.b.rows = a.y.rows = rows.Count(live);
      });
    }
    case Op::kRope: {
      kernels::RopeArgs args = RopeShape(g_, node_, Capacity(), c_.rank);
      args.x = HeadsOf(node_.out[0], args.head_dim);
      args.heads = static_cast<int>(args.x.cols / args.head_dim);
      if (args.heads == 0) return std::make_unique<NothingRunner>();
      WEFT_CHECK(ViewOf(node_.out[0]).data == ViewOf(node_.in[0]).data, "{}: rope is in place", node_.layer);
      args.cos = c_.memory->rope_cos;
      args.sin = c_.memory->rope_sin;
      return Make<kernels::RopeArgs>(args, kernels::RopeKernels(), [](kernels::RopeArgs& a, const Live& live, const LiveRows&) {
        a.x.rows = live.tokens;
        a.positions = live.inputs->positions.data();
      });
    }
    case Op::kKvWrite: {
      kernels::KvWriteArgs args = KvWriteShape(g_, node_, Capacity(), c_.rank);
      args.k = HeadsOf(node_.in[1], args.kv.head_dim);
      args.v = HeadsOf(node_.in[2], args.kv.head_dim);
      if (args.k.cols == 0) return std::make_unique<NothingRunner>();
      if (step_.split == Split::kHeads) args.first_head = static_cast<int>(plan::HeadsOf(plan_, step_, c_.rank, c_.worker).kv_begin);
      args.kv = KvOf(node_.in[0], args.kv);
      return Make<kernels::KvWriteArgs>(args, kernels::KvWriteKernels(), [](kernels::KvWriteArgs& a, const Live& live, const LiveRows&) {
        a.k.rows = a.v.rows = live.tokens;
        a.slots = live.inputs->slots.data();
      });
    }
    case Op::kSiluMul: {
      kernels::SiluMulArgs args{ViewOf(node_.in[0]), ViewOf(node_.in[1]), ViewOf(node_.out[0])};
      if (args.y.cols == 0) return std::make_unique<NothingRunner>();
      return Make<kernels::SiluMulArgs>(args, kernels::SiluMulKernels(), [](kernels::SiluMulArgs& a, const Live& live, const LiveRows& rows) {
        a.gate.rows = a.up.rows = a.y.rows = rows.Count(live);
      });
    }
    case Op::kGatherRows: {
      kernels::GatherRowsArgs args;
      args.x = ViewOf(node_.in[0]);
      args.y = ViewOf(node_.out[0]);
      return Make<kernels::GatherRowsArgs>(args, kernels::GatherRowsKernels(), [](kernels::GatherRowsArgs& a, const Live& live, const LiveRows&) {
        a.rows = live.inputs->head_rows.data();
        a.x.rows = live.tokens;
        a.y.rows = live.head_rows;
      });
    }
    case Op::kArgmax: {
      kernels::ArgmaxArgs args = ArgmaxShape(g_, node_, Capacity(), c_.rank);
      const Value& logits = g_.value(node_.in[0]);
      args.logits = ViewOf(node_.in[0]);
      args.first_id = static_cast<int32_t>(ElementsOf(g_, logits, 1, c_.rank).begin);
      args.out = reinterpret_cast<kernels::ValueIndex*>(BaseOf(node_.out[0], c_.rank));
      return Make<kernels::ArgmaxArgs>(args, kernels::ArgmaxKernels(), [](kernels::ArgmaxArgs& a, const Live& live, const LiveRows&) {
        a.logits.rows = live.head_rows;
      });
    }
    case Op::kSample: {
      if (c_.rank != 0) return std::make_unique<NothingRunner>();
      kernels::SampleArgs args;
      args.logits = ViewOf(node_.in[0]);
      args.vocab_leaf_begin = t_.leaf_begin.data();
      args.vocab_leaves = static_cast<int>(t_.leaf_begin.size()) - 1;
      return Make<kernels::SampleArgs>(args, kernels::SampleKernels(), [](kernels::SampleArgs& a, const Live& live, const LiveRows&) {
        a.logits.rows = live.head_rows;
        a.rows = live.inputs->sample.data();
        a.out = live.sampled;
        a.top_ids = live.top_ids;
        a.top_logprobs = live.top_logprobs;
        a.top_stride = live.inputs->top_logprobs;
      });
    }
    default: break;
  }
  WEFT_CHECK(false, "{} cannot be bound", NameOf(node_.op));
  return nullptr;
}

}  // namespace

std::unique_ptr<Runner> BindStep(const BindContext& context, RankTables& tables, size_t step) {
  return Binder(context, tables, step).Bind();
}

}  // namespace weft::exec
