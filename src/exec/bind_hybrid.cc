// Steps of experts and of recurrences.
#include "exec/binder.h"

namespace weft::exec {

std::unique_ptr<Runner> Binder::CausalConv() {
  kernels::CausalConvArgs args = CausalConvShape(g_, node_, Capacity(), c_.rank);
  if (args.x.cols == 0) return std::make_unique<NothingRunner>();
  args.log_max = c_.memory->log_rows;
  args.state_stride = ConvSlotElements(args);
  // A worker that has some of the heads walks their channels alone.
  args.x = HeadsOf(node_.in[1]);
  args.y = HeadsOf(node_.out[0]);
  const int64_t e = FactsOf(args.x.dtype).block_bytes;
  const int64_t first =
      (static_cast<std::byte*>(args.x.data) - static_cast<std::byte*>(ViewOf(node_.in[1]).data)) /
      e;
  args.w = t_.gain.data() + first;
  args.state = StateOf(node_.in[0]) + first * e;
  return Make<kernels::CausalConvArgs>(
      args, kernels::CausalConvKernels(),
      [](kernels::CausalConvArgs& a, const Live& live, const LiveRows&) {
        a.x.rows = a.y.rows = live.tokens;
        a.segments = live.inputs->segments.data();
        a.segment_count = static_cast<int>(live.inputs->segments.size());
      });
}

std::unique_ptr<Runner> Binder::GatedDelta() {
  kernels::GatedDeltaArgs args = GatedDeltaShape(g_, node_, Capacity(), c_.rank);
  if (args.value_heads == 0) return std::make_unique<NothingRunner>();
  const graph::ElementRange own = ElementsOf(g_, g_.value(node_.in[3]), 1, c_.rank);
  const int64_t first = own.begin / args.value_dim, last = own.end / args.value_dim;
  args.q = ViewOf(node_.in[1]);
  args.k = ViewOf(node_.in[2]);
  args.v = ViewOf(node_.in[3]);
  args.a = ColumnsOf(ViewOf(node_.in[4]), first, last);
  args.b = ColumnsOf(ViewOf(node_.in[5]), first, last);
  args.y = ViewOf(node_.out[0]);
  args.neg_exp_a = t_.gain.data();
  args.dt_bias = t_.bias.data();
  args.key_of_head = t_.kv_of_head.data();
  args.log_max = c_.memory->log_rows;
  args.state = reinterpret_cast<float*>(StateOf(node_.in[0]));
  args.state_stride = args.layout().slot_floats();
  Share share = ShareOfUnits();
  if (step_.split == Split::kHeads) {  // a unit is a value head of a segment, head by head
    const plan::WorkerHeads own_heads = plan::HeadsOf(plan_, step_, c_.rank, c_.worker);
    share = {own_heads.q_begin, own_heads.q_end, args.value_heads};
  }
  return Make<kernels::GatedDeltaArgs>(
      args, kernels::GatedDeltaKernels(), share,
      [](kernels::GatedDeltaArgs& a, const Live& live, const LiveRows&) {
        a.q.rows = a.k.rows = a.v.rows = a.a.rows = a.b.rows = a.y.rows = live.tokens;
        a.segments = live.inputs->segments.data();
        a.segment_count = static_cast<int>(live.inputs->segments.size());
      });
}

std::unique_ptr<Runner> Binder::GatedNorm() {
  kernels::GatedRmsNormArgs args = GatedRmsNormShape(g_, node_, Capacity(), c_.rank);
  if (args.heads == 0) return std::make_unique<NothingRunner>();
  args.o = HeadsOf(node_.in[0]);
  args.z = HeadsOf(node_.in[1]);
  args.y = HeadsOf(node_.out[0]);
  args.heads = static_cast<int>(args.y.cols / args.width);
  if (args.heads == 0) return std::make_unique<NothingRunner>();
  args.w = t_.gain.data();
  args.leaf_begin = t_.leaf_begin.data();
  return Make<kernels::GatedRmsNormArgs>(
      args, kernels::GatedRmsNormKernels(),
      [](kernels::GatedRmsNormArgs& a, const Live& live, const LiveRows& rows) {
        a.o.rows = a.z.rows = a.y.rows = rows.Count(live);
      });
}

std::unique_ptr<Runner> Binder::Route() {
  kernels::RouteArgs args = RouteShape(g_, node_, Capacity(), c_.rank);
  args.logits = ViewOf(node_.in[0]);
  args.correction = t_.bias.empty() ? nullptr : t_.bias.data();
  args.ids = reinterpret_cast<int32_t*>(BaseOf(node_.out[0], c_.rank));
  args.weights = reinterpret_cast<float*>(BaseOf(node_.out[1], c_.rank));
  return Make<kernels::RouteArgs>(args, kernels::RouteKernels(),
                                  [](kernels::RouteArgs& a, const Live& live,
                                     const LiveRows& rows) { a.logits.rows = rows.Count(live); });
}

std::unique_ptr<Runner> Binder::GroupRoutes() {
  kernels::GroupRoutesArgs args = GroupRoutesShape(g_, node_, Capacity(node_.in[0]), c_.rank);
  const Grouping grouping = GroupingAt(node_.out[0]);
  args.ids = reinterpret_cast<const int32_t*>(BaseOf(node_.in[0], c_.rank));
  args.begin = grouping.begin;
  args.token = grouping.token;
  args.place = grouping.place;
  return Make<kernels::GroupRoutesArgs>(args, kernels::GroupRoutesKernels(),
                                        [](kernels::GroupRoutesArgs& a, const Live& live,
                                           const LiveRows& rows) { a.rows = rows.Count(live); });
}

std::unique_ptr<Runner> Binder::Dispatch() {
  kernels::GatherRowsArgs args = DispatchShape(g_, node_, Capacity(), c_.rank);
  args.rows = GroupingAt(node_.in[1]).token;
  if (args.int8_rows) {
    args.xq = RowsOf(node_.in[0]);
    args.yq = RowsOf(node_.out[0]);
  } else {
    args.x = ViewOf(node_.in[0]);
    args.y = ViewOf(node_.out[0]);
  }
  return Make<kernels::GatherRowsArgs>(
      args, kernels::GatherRowsKernels(),
      [](kernels::GatherRowsArgs& a, const Live& live, const LiveRows& rows) {
        a.x.rows = a.xq.rows = live.tokens;
        a.y.rows = a.yq.rows = rows.Count(live);
      });
}

std::unique_ptr<Runner> Binder::ExpertMatmul() {
  kernels::GroupedMatmulArgs args;
  args.matmul = ExpertMatmulShape(g_, node_, Capacity(), c_.rank);
  args.rows_max = plan_.bucket.rows_max;
  args.count = static_cast<int>(t_.experts.size());
  if (args.count == 0) return std::make_unique<NothingRunner>();
  if (args.matmul.int8_activations) {
    args.matmul.xq = RowsOf(node_.in[0]);
  } else {
    args.matmul.x = ViewOf(node_.in[0]);
  }
  args.matmul.merges = t_.merges.data();
  args.matmul.y = ViewOf(node_.out[0]);
  args.matmul.y.cols = args.matmul.w.n;
  args.experts = t_.expert_matrices.data();
  args.begin = GroupingAt(node_.in[1]).begin;
  args.kernel = Named(kernels::MatmulKernels(), step_.impl);
  const auto patch = [](kernels::GroupedMatmulArgs& a, const Live& live, const LiveRows& rows) {
    a.rows_max = live.tokens;
    a.matmul.rows = a.matmul.x.rows = a.matmul.y.rows = rows.Count(live);
    a.matmul.xq.rows = a.matmul.int8_activations ? a.matmul.rows : 0;
  };
  return Make<kernels::GroupedMatmulArgs>(args, kernels::GroupedMatmulKernels()[0], ShareOfUnits(),
                                          patch);
}

std::unique_ptr<Runner> Binder::Combine() {
  kernels::CombineArgs args = CombineShape(g_, node_, Capacity(), c_.rank);
  if (args.leaves == 0) return std::make_unique<NothingRunner>();
  args.rows = ViewOf(node_.in[0]);
  args.place = GroupingAt(node_.in[1]).place;
  args.ids = reinterpret_cast<const int32_t*>(BaseOf(node_.in[2], c_.rank));
  args.weights = reinterpret_cast<const float*>(BaseOf(node_.in[3], c_.rank));
  args.leaf_begin = t_.expert_begin.data();
  args.merges = t_.merges.data();
  args.partials = reinterpret_cast<float*>(BaseOf(node_.out[0], c_.rank));
  args.partials_stride = Capacity() * args.rows.cols;
  return Make<kernels::CombineArgs>(args, kernels::CombineKernels(),
                                    [](kernels::CombineArgs& a, const Live& live,
                                       const LiveRows& rows) { a.tokens = rows.Count(live); });
}

}  // namespace weft::exec
