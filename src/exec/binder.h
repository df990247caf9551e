// Binds one step of a plan: where its values stand, which kernel, which tables. The ops of dense
// layers are in bind.cc, those that exchange in bind_exchanges.cc, experts and recurrences in
// bind_hybrid.cc. Thread: start-up. Internal to these files.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "exec/exchange_runners.h"
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

class Binder {
 public:
  Binder(const BindContext& c, RankTables& tables, size_t step)
      : c_(c),
        plan_(*c.plan),
        g_(c.plan->graph),
        step_(c.plan->steps[step]),
        node_(g_.nodes[step_.node]),
        t_(tables.steps[step]),
        rows_(LiveRowsOf(RowsOfStep(node_), c.rank)) {}

  std::unique_ptr<Runner> Bind();
  std::vector<std::span<const std::byte>> FirstWeights(int64_t bytes);

 private:
  const RankMemory& mine() const { return c_.memory->ranks[c_.rank]; }

  LiveRows LiveRowsOf(ValueId id, int rank) const {
    const Value& v = g_.value(id);
    LiveRows live{plan::LocalRows(g_, v, rank),
                  !v.dims.empty() && v.dims[0].sym == graph::Sym::kHeadRows};
    if (live.rows.routes())
      live.routes = GroupingAt(plan::GroupingOfRoutes(g_, *c_.uses, id), rank).count();
    return live;
  }
  // A grouping of routes as it stands on `rank`.
  struct Grouping {
    int32_t *begin, *token, *place;
    graph::ElementRange experts;
    int32_t* count() const { return begin + experts.size(); }
  };
  Grouping GroupingAt(ValueId id, int rank) const {
    auto* base = reinterpret_cast<int32_t*>(BaseOf(id, rank));
    const plan::GroupingLayout at = plan::GroupingOf(g_, g_.value(id), plan_.bucket.rows_max);
    return {base + at.begin, base + at.token, base + at.place,
            plan::ExpertsOf(g_, g_.value(id), rank)};
  }
  Grouping GroupingAt(ValueId id) const { return GroupingAt(id, c_.rank); }
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
    view.data =
        static_cast<std::byte*>(view.data) + begin * head_dim * FactsOf(view.dtype).block_bytes;
    view.cols = (end - begin) * head_dim;
    return view;
  }
  // The same where the plan knows how wide a head is.
  View HeadsOf(ValueId id) const {
    return step_.split != Split::kHeads ? ViewOf(id)
                                        : HeadsOf(id, plan::HeadDimOf(plan_, step_, id));
  }
  kernels::QuantisedRows RowsOf(ValueId id) const {
    const int64_t k = LocalWidth(g_, g_.value(id), c_.rank);
    return kernels::QuantisedRows::In(BaseOf(id, c_.rank), Capacity(id), Capacity(id), k);
  }
  // The first head whose state is here.
  std::byte* StateOf(ValueId state) const {
    const auto& names = c_.memory->states;
    const auto at = std::find(names.begin(), names.end(), g_.value(state).name);
    WEFT_CHECK(at != names.end(), "state '{}' has no memory", g_.value(state).name);
    return mine().states[static_cast<size_t>(at - names.begin())];
  }
  kernels::KvLayout KvOf(ValueId state, kernels::KvLayout shape) const {
    shape.base = mine().kv_layers[KvLayerOf(g_.value(state))];
    shape.page_tokens = c_.memory->page_tokens;
    return shape;
  }

  Share ShareOfUnits() const { return ShareOf(step_.split, c_.worker, plan_.workers_per_rank); }
  template <typename Args>
  std::unique_ptr<Runner> Make(Args args, const Kernel<Args>* kernel, Share share,
                               typename KernelRunner<Args>::Patch patch) const {
    return std::make_unique<KernelRunner<Args>>(args, kernel, patch, rows_, share,
                                                mine().scratch[c_.worker], UnitsDone());
  }
  template <typename Args>
  std::unique_ptr<Runner> Make(Args args, std::span<const Kernel<Args>* const> list, Share share,
                               typename KernelRunner<Args>::Patch patch) const {
    return Make<Args>(args, Named(list, step_.impl), share, patch);
  }
  template <typename Args>
  std::unique_ptr<Runner> Make(Args args, std::span<const Kernel<Args>* const> list,
                               typename KernelRunner<Args>::Patch patch) const {
    return Make<Args>(args, list, ShareOfUnits(), patch);
  }
  int64_t* UnitsDone() const {
    return &mine().units[c_.worker].of_op[static_cast<size_t>(node_.op)];
  }
  // A value as it stands on `rank`, for those who move it.
  Held HeldBy(ValueId id, int rank) const {
    const Value& v = g_.value(id);
    Held held{{}, LiveRowsOf(id, rank), ElementsOf(g_, v, 1, rank)};
    if (v.int8_rows) {
      const auto q = kernels::QuantisedRows::In(BaseOf(id, rank), Capacity(id), Capacity(id),
                                                held.columns.size());
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

  // Of those who finish what they have fetched.
  const Kernel<kernels::FinishArgs>* FinishKernel() const {
    const auto list = kernels::FinishKernels();
    return Named(list, plan_.target == "reference" ? "ref" : std::string(list[0]->name));
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
  std::unique_ptr<Runner> CausalConv();
  std::unique_ptr<Runner> GatedDelta();
  std::unique_ptr<Runner> GatedNorm();
  std::unique_ptr<Runner> SigmoidMul();
  std::unique_ptr<Runner> Route();
  std::unique_ptr<Runner> GroupRoutes();
  std::unique_ptr<Runner> Dispatch();
  std::unique_ptr<Runner> ExpertMatmul();
  std::unique_ptr<Runner> Combine();
  std::unique_ptr<Runner> Reduce();
  std::unique_ptr<Runner> MatmulAllReduceNorm();
  std::unique_ptr<Runner> MatmulReduceScatter();
  std::unique_ptr<Runner> Move();
  std::unique_ptr<Runner> DispatchRows();
  std::unique_ptr<Runner> CombineRows();
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

}  // namespace weft::exec
