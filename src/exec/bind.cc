// plan step -> Runner: the one place where a kernel's arguments meet memory.
#include "exec/binder.h"
#include "kernels/matmul/panel_layout.h"

namespace weft::exec {

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
  auto matmul =
      Make<kernels::MatmulArgs>(args, kernels::MatmulKernels(),
                                [](kernels::MatmulArgs& a, const Live& live, const LiveRows& rows) {
                                  a.rows = a.x.rows = a.y.rows = rows.Count(live);
                                  a.xq.rows = a.int8_activations ? a.rows : 0;
                                });
  if (!c_.faults->bf16_partials || args.finish) return matmul;
  WEFT_CHECK(plan_.workers_per_rank == 1, "bf16_partials wants one worker a rank");
  return std::make_unique<RoundedPartialsRunner>(std::move(matmul), args.partials,
                                                 args.roots * args.partials_stride);
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
  auto norm = Make<kernels::RmsNormArgs>(
      step.args, kernels::RmsNormKernels(),
      [](kernels::RmsNormArgs& a, const Live& live, const LiveRows& rows) {
        a.x.rows = a.y.rows = a.residual.rows = rows.Count(live);
      });
  if (step.from.data == nullptr) return norm;
  return std::make_unique<MovedNormRunner>(std::move(norm), step.from, step.args.residual, rows_,
                                           step_.split == Split::kEach, c_.worker,
                                           plan_.workers_per_rank);
}

std::unique_ptr<Runner> Binder::HashLogits() {
  const Value& logits = g_.value(node_.in[0]);
  return std::make_unique<HashLogitsRunner>(
      ViewOf(node_.in[0]), g_.tables[logits.dims[1].table].leaves, c_.rank == 0 && c_.worker == 0);
}

std::unique_ptr<Runner> Binder::Finish() {
  kernels::FinishArgs args;
  args.y = ViewOf(node_.out[0]);
  args.merges = t_.roots.merges.data();
  args.bias = t_.bias.empty() ? nullptr : t_.bias.data();
  const auto* base = reinterpret_cast<const float*>(BaseOf(node_.in[0], c_.rank));
  std::vector<const float*> roots;
  for (int i = 0; i < t_.roots.count(); ++i)
    roots.push_back(base + i * Capacity(node_.in[0]) * args.y.cols);
  auto runner = std::make_unique<FinishRunner>(args, std::move(roots));
  runner->Bind(Named(kernels::FinishKernels(), step_.impl), rows_, ShareOfUnits(),
               mine().scratch[c_.worker], UnitsDone());
  return runner;
}

std::unique_ptr<Runner> Binder::Attention() {
  kernels::AttentionArgs args = AttentionShape(g_, node_, Capacity(), c_.rank);
  args.q = HeadsOf(node_.in[0], args.kv.head_dim);
  args.y = HeadsOf(node_.out[0], args.kv.head_dim);
  args.kv = KvOf(node_.in[1], args.kv);
  args.heads = static_cast<int>(args.q.cols / args.kv.head_dim);
  args.kv_of_head = t_.kv_of_head.data();
  if (step_.split == Split::kHeads)
    args.kv_of_head += plan::HeadsOf(plan_, step_, c_.rank, c_.worker).q_begin;
  if (args.heads == 0) return std::make_unique<NothingRunner>();
  const auto patch = [](kernels::AttentionArgs& a, const Live& live, const LiveRows&) {
    a.rows = a.q.rows = a.y.rows = live.tokens;
    a.segments = live.inputs->segments.data();
    a.segment_count = static_cast<int>(live.inputs->segments.size());
  };
  if (c_.faults->attention != nullptr) {
    return Make<kernels::AttentionArgs>(args, c_.faults->attention, ShareOfUnits(), patch);
  }
  return Make<kernels::AttentionArgs>(args, kernels::AttentionKernels(), patch);
}

std::unique_ptr<Runner> Binder::SigmoidMul() {
  kernels::SigmoidMulArgs args{ViewOf(node_.in[0]), ViewOf(node_.in[1]), ViewOf(node_.out[0])};
  if (args.y.cols == 0) return std::make_unique<NothingRunner>();
  return Make<kernels::SigmoidMulArgs>(
      args, kernels::SigmoidMulKernels(),
      [](kernels::SigmoidMulArgs& a, const Live& live, const LiveRows& rows) {
        a.x.rows = a.gate.rows = a.y.rows = rows.Count(live);
      });
}

std::unique_ptr<Runner> Binder::Bind() {
  switch (node_.op) {
    case Op::kCausalConv: return CausalConv();
    case Op::kGatedDelta: return GatedDelta();
    case Op::kGatedRmsNorm: return GatedNorm();
    case Op::kSigmoidMul:
    case Op::kGateRows: return SigmoidMul();
    case Op::kRoute: return Route();
    case Op::kGroupRoutes: return GroupRoutes();
    case Op::kDispatch: return Dispatch();
    case Op::kDispatchRows: return DispatchRows();
    case Op::kCombineRows: return CombineRows();
    case Op::kExpertMatmul: return ExpertMatmul();
    case Op::kCombine: return Combine();
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
      return Make<kernels::EmbedArgs>(
          args, kernels::EmbedKernels(),
          [](kernels::EmbedArgs& a, const Live& live, const LiveRows& rows) {
            a.ids = live.inputs->ids.data() + rows.rows.Begin(live.tokens);
            a.y.rows = rows.Count(live);
          });
    }
    case Op::kQuantise: {
      kernels::QuantiseRowsArgs args{ViewOf(node_.in[0]), RowsOf(node_.out[0])};
      if (args.x.cols == 0) return std::make_unique<NothingRunner>();
      return Make<kernels::QuantiseRowsArgs>(
          args, kernels::QuantiseRowsKernels(),
          [](kernels::QuantiseRowsArgs& a, const Live& live, const LiveRows& rows) {
            a.x.rows = a.out.rows = rows.Count(live);
          });
    }
    case Op::kAdd: {
      kernels::AddArgs args{ViewOf(node_.in[0]), ViewOf(node_.in[1]), ViewOf(node_.out[0])};
      return Make<kernels::AddArgs>(
          args, kernels::AddKernels(),
          [](kernels::AddArgs& a, const Live& live, const LiveRows& rows) {
            a.a.rows = a.b.rows = a.y.rows = rows.Count(live);
          });
    }
    case Op::kRope: {
      kernels::RopeArgs args = RopeShape(g_, node_, Capacity(), c_.rank);
      args.x = HeadsOf(node_.out[0], args.head_dim);
      args.heads = static_cast<int>(args.x.cols / args.head_dim);
      if (args.heads == 0) return std::make_unique<NothingRunner>();
      WEFT_CHECK(ViewOf(node_.out[0]).data == ViewOf(node_.in[0]).data, "{}: rope is in place",
                 node_.layer);
      args.cos = c_.memory->rope_cos;
      args.sin = c_.memory->rope_sin;
      return Make<kernels::RopeArgs>(args, kernels::RopeKernels(),
                                     [](kernels::RopeArgs& a, const Live& live, const LiveRows&) {
                                       a.x.rows = live.tokens;
                                       a.positions = live.inputs->positions.data();
                                     });
    }
    case Op::kKvWrite: {
      kernels::KvWriteArgs args = KvWriteShape(g_, node_, Capacity(), c_.rank);
      args.k = HeadsOf(node_.in[1], args.kv.head_dim);
      args.v = HeadsOf(node_.in[2], args.kv.head_dim);
      if (args.k.cols == 0) return std::make_unique<NothingRunner>();
      if (step_.split == Split::kHeads)
        args.first_head =
            static_cast<int>(plan::HeadsOf(plan_, step_, c_.rank, c_.worker).kv_begin);
      args.kv = KvOf(node_.in[0], args.kv);
      return Make<kernels::KvWriteArgs>(
          args, kernels::KvWriteKernels(),
          [](kernels::KvWriteArgs& a, const Live& live, const LiveRows&) {
            a.k.rows = a.v.rows = live.tokens;
            a.slots = live.inputs->slots.data();
          });
    }
    case Op::kSiluMul: {
      kernels::SiluMulArgs args{ViewOf(node_.in[0]), ViewOf(node_.in[1]), ViewOf(node_.out[0])};
      if (args.y.cols == 0) return std::make_unique<NothingRunner>();
      return Make<kernels::SiluMulArgs>(
          args, kernels::SiluMulKernels(),
          [](kernels::SiluMulArgs& a, const Live& live, const LiveRows& rows) {
            a.gate.rows = a.up.rows = a.y.rows = rows.Count(live);
          });
    }
    case Op::kConcat: {
      const kernels::ConcatArgs args{ViewOf(node_.in[0]), ViewOf(node_.in[1]),
                                     ViewOf(node_.out[0])};
      return Make<kernels::ConcatArgs>(
          args, kernels::ConcatKernels(),
          [](kernels::ConcatArgs& a, const Live& live, const LiveRows& rows) {
            a.a.rows = a.b.rows = a.y.rows = rows.Count(live);
          });
    }
    case Op::kGatherRows: {
      kernels::GatherRowsArgs args;
      args.x = ViewOf(node_.in[0]);
      args.y = ViewOf(node_.out[0]);
      return Make<kernels::GatherRowsArgs>(
          args, kernels::GatherRowsKernels(),
          [](kernels::GatherRowsArgs& a, const Live& live, const LiveRows&) {
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
      return Make<kernels::ArgmaxArgs>(args, kernels::ArgmaxKernels(),
                                       [](kernels::ArgmaxArgs& a, const Live& live,
                                          const LiveRows&) { a.logits.rows = live.head_rows; });
    }
    case Op::kSample: {
      if (c_.rank != 0) return std::make_unique<NothingRunner>();
      kernels::SampleArgs args;
      args.logits = ViewOf(node_.in[0]);
      args.vocab_leaf_begin = t_.leaf_begin.data();
      args.vocab_leaves = static_cast<int>(t_.leaf_begin.size()) - 1;
      return Make<kernels::SampleArgs>(
          args, kernels::SampleKernels(),
          [](kernels::SampleArgs& a, const Live& live, const LiveRows&) {
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

std::vector<std::span<const std::byte>> Binder::FirstWeights(int64_t bytes) {
  kernels::MatmulArgs args = MatmulArgsOf(node_);
  std::vector<std::span<const std::byte>> pieces;
  if (args.w.n == 0 || args.w.k_leaves == 0) return pieces;
  args.rows = rows_.rows.Capacity(plan_.bucket.rows_max);
  const auto* kernel = Named(kernels::MatmulKernels(), step_.impl);
  if (kernel->panels == nullptr || args.rows == 0) return pieces;
  const Slice panels = kernel->panels(args, ShareOfUnits().Of(kernel->units(args)));
  const auto leaf_bytes = [&](int leaf) {
    return kernels::PanelOffset(args.w.dtype, args.w.k_begin[leaf + 1] - args.w.k_begin[leaf]);
  };
  int64_t panel_bytes = 0;
  for (int leaf = 0; leaf < args.w.k_leaves; ++leaf) panel_bytes += leaf_bytes(leaf);
  const int64_t end =
      std::min(panels.end, panels.begin + std::max<int64_t>(bytes / panel_bytes, 1));
  for (int leaf = 0; leaf < args.w.k_leaves; ++leaf) {
    for (int64_t p = panels.begin; p < end; ++p) {
      const std::byte* begin = args.w.data[int64_t{leaf} * args.w.panels + p];
      // A panel begins at a line of its own.
      const bool joins = p > panels.begin &&
                         begin - (pieces.back().data() + pieces.back().size()) < 64 &&
                         begin > pieces.back().data();
      if (!joins) pieces.emplace_back(begin, size_t{0});
      pieces.back() = {pieces.back().data(),
                       static_cast<size_t>(begin + leaf_bytes(leaf) - pieces.back().data())};
    }
  }
  return pieces;
}

std::unique_ptr<Runner> BindStep(const BindContext& context, RankTables& tables, size_t step) {
  return Binder(context, tables, step).Bind();
}

std::vector<std::span<const std::byte>> FirstWeights(const BindContext& context, RankTables& tables,
                                                     size_t step, int64_t bytes) {
  return Binder(context, tables, step).FirstWeights(bytes);
}

}  // namespace weft::exec
