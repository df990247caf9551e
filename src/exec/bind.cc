// plan step -> Runner: the one place where a kernel's arguments meet memory.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/bf16.h"
#include "base/check.h"
#include "base/hash.h"
#include "comm/parts.h"
#include "comm/roots.h"
#include "exec/op_args.h"
#include "exec/runner.h"

namespace weft::exec {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;
using graph::ValueId;
using kernels::Kernel;
using kernels::Slice;
using plan::Layout;
using plan::LocalWidth;
using plan::Plan;
using plan::Region;
using plan::Split;

// Arrays behind the plain pointers of kernel arguments.
struct RankTables {
  struct OfStep {
    PackedTable packed;
    std::vector<float> bias, gain;
    std::vector<uint8_t> merges;
    std::vector<int64_t> leaf_begin;
    std::vector<int32_t> kv_of_head;
    comm::RootLayout roots;
  };
  std::vector<OfStep> steps;
};

namespace {

int64_t RowsMax(const Plan& plan) { return plan.bucket.rows_max; }

// Finds a kernel of a family by the name that the plan has frozen.
template <typename Args>
const Kernel<Args>* Named(std::span<const Kernel<Args>* const> list, const std::string& name) {
  for (const Kernel<Args>* kernel : list) {
    if (kernel->name == name) return kernel;
  }
  WEFT_CHECK(false, "no kernel '{}'", name);
  return nullptr;
}

// A kernel with its arguments; `patch` sets live counts and live pointers.
template <typename Args>
class KernelRunner final : public Runner {
 public:
  using Patch = void (*)(Args&, const Live&);
  KernelRunner(Args args, const Kernel<Args>* kernel, Patch patch, Split split, int worker, int workers,
               std::byte* scratch, int64_t* done)
      : args_(args), kernel_(kernel), patch_(patch), split_(split), worker_(worker), workers_(workers), scratch_(scratch), done_(done) {}

  void Run(const Live& live, int) override {
    Args args = args_;
    patch_(args, live);
    const int64_t units = kernel_->units(args);
    const Slice slice = split_ == Split::kEach ? Slice{0, units} : kernels::SliceOf(units, worker_, workers_);
    if (slice.begin >= slice.end) return;
    kernel_->run(args, slice, scratch_);
    *done_ += slice.end - slice.begin;
  }

 private:
  Args args_;
  const Kernel<Args>* kernel_;
  Patch patch_;
  Split split_;
  int worker_, workers_;
  std::byte* scratch_;
  int64_t* done_;  // units of this worker at this op
};

class NothingRunner final : public Runner {
 public:
  void Run(const Live&, int) override {}
};

class Binder {
 public:
  Binder(const BindContext& c, RankTables& tables, size_t step)
      : c_(c), plan_(*c.plan), g_(c.plan->graph), step_(c.plan->steps[step]), node_(g_.nodes[step_.node]),
        t_(tables.steps[step]) {}

  std::unique_ptr<Runner> Bind();

 private:
  const RankMemory& mine() const { return c_.memory->ranks[c_.rank]; }

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
    View view = ShapeOf(g_, id, RowsMax(plan_), rank);
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
  kernels::QuantisedRows RowsOf(ValueId id) const {
    const int64_t k = LocalWidth(g_, g_.value(id), c_.rank);
    return kernels::QuantisedRows::In(BaseOf(id, c_.rank), RowsMax(plan_), RowsMax(plan_), k);
  }
  kernels::KvLayout KvOf(ValueId state, kernels::KvLayout shape) const {
    shape.base = mine().kv_layers[KvLayerOf(g_.value(state))];
    shape.page_tokens = c_.memory->page_tokens;
    return shape;
  }

  template <typename Args>
  std::unique_ptr<Runner> Make(Args args, std::span<const Kernel<Args>* const> list, typename KernelRunner<Args>::Patch patch) const {
    return std::make_unique<KernelRunner<Args>>(args, Named(list, step_.impl), patch, step_.split, c_.worker,
                                                plan_.workers_per_rank, mine().scratch[c_.worker], UnitsDone());
  }
  int64_t* UnitsDone() const { return &mine().units[c_.worker].of_op[static_cast<size_t>(node_.op)]; }
  bool HeadRows() const { return plan_.bucket.kind == plan::Bucket::Kind::kHead; }
  // A patch that sets the rows of a body's or a head's arguments.
  template <typename Args, typename SetRows>
  static auto Rows(bool head, SetRows) {
    using Patch = void (*)(Args&, const Live&);
    return head ? static_cast<Patch>([](Args& a, const Live& live) { SetRows{}(a, live.head_rows); })
                : static_cast<Patch>([](Args& a, const Live& live) { SetRows{}(a, live.tokens); });
  }

  std::unique_ptr<Runner> Matmul();
  std::unique_ptr<Runner> Norm();
  std::unique_ptr<Runner> Finish();
  std::unique_ptr<Runner> Attention();
  std::unique_ptr<Runner> AllReduce();
  std::unique_ptr<Runner> AllGather();
  std::unique_ptr<Runner> PairMax();
  std::unique_ptr<Runner> HashLogits();

  const BindContext& c_;
  const Plan& plan_;
  const Graph& g_;
  const plan::Step& step_;
  const Node& node_;
  RankTables::OfStep& t_;
};

// ExecFaults::bf16_partials.
class RoundedPartialsRunner final : public Runner {
 public:
  RoundedPartialsRunner(std::unique_ptr<Runner> matmul, float* partials, int64_t count)
      : matmul_(std::move(matmul)), partials_(partials, static_cast<size_t>(count)) {}
  void Run(const Live& live, int phase) override {
    matmul_->Run(live, phase);
    for (float& x : partials_) x = ToFloat(ToBf16(x));
  }

 private:
  std::unique_ptr<Runner> matmul_;
  std::span<float> partials_;
};

std::unique_ptr<Runner> Binder::Matmul() {
  kernels::MatmulArgs args = MatmulShape(g_, node_, RowsMax(plan_), c_.rank);
  if (args.w.n == 0 || args.w.k_leaves == 0) return std::make_unique<NothingRunner>();
  args.w = t_.packed.matrix(args.w.dtype, args.w.n, args.w.k);
  args.merges = t_.merges.data();
  args.bias = t_.bias.empty() ? nullptr : t_.bias.data();
  if (args.int8_activations) {
    args.xq = RowsOf(node_.in[0]);
  } else {
    args.x = ViewOf(node_.in[0]);
  }
  if (args.finish) {
    args.y = ViewOf(node_.out[0]);
    args.y.cols = args.w.n;
  } else {
    args.partials = reinterpret_cast<float*>(BaseOf(node_.out[0], c_.rank));
    args.partials_stride = RowsMax(plan_) * args.w.n;
  }
  struct Set {
    void operator()(kernels::MatmulArgs& a, int64_t rows) const {
      a.rows = a.x.rows = a.y.rows = rows;
      a.xq.rows = a.int8_activations ? rows : 0;
    }
  };
  auto matmul = Make(args, kernels::MatmulKernels(), Rows<kernels::MatmulArgs>(HeadRows(), Set{}));
  if (!c_.faults->bf16_partials || args.finish) return matmul;
  WEFT_CHECK(plan_.workers_per_rank == 1, "bf16_partials wants one worker a rank");
  return std::make_unique<RoundedPartialsRunner>(std::move(matmul), args.partials, args.roots * args.partials_stride);
}

// add_rms_norm updates the residual where it stands; if the plan moved it, the rows are moved first.
class MovedNormRunner final : public Runner {
 public:
  MovedNormRunner(std::unique_ptr<Runner> norm, View from, View to, bool head, bool all, int worker, int workers)
      : norm_(std::move(norm)), from_(from), to_(to), head_(head), all_(all), worker_(worker), workers_(workers) {}
  void Run(const Live& live, int phase) override {
    const int64_t rows = head_ ? live.head_rows : live.tokens;
    // A norm's units are its rows, so this worker's share of both is the same.
    const Slice s = all_ ? Slice{0, rows} : kernels::SliceOf(rows, worker_, workers_);
    const int64_t bytes = from_.cols * FactsOf(from_.dtype).block_bytes;
    for (int64_t r = s.begin; r < s.end; ++r) {
      const int64_t e = FactsOf(from_.dtype).block_bytes;
      std::copy_n(static_cast<const std::byte*>(from_.data) + r * from_.stride * e, bytes,
                  static_cast<std::byte*>(to_.data) + r * to_.stride * e);
    }
    norm_->Run(live, phase);
  }

 private:
  std::unique_ptr<Runner> norm_;
  View from_, to_;
  bool head_, all_;
  int worker_, workers_;
};

std::unique_ptr<Runner> Binder::Norm() {
  kernels::RmsNormArgs args = RmsNormShape(g_, node_, RowsMax(plan_), c_.rank);
  const bool add = node_.op == Op::kAddRmsNorm;
  args.x = ViewOf(node_.in[add ? 1 : 0]);
  args.y = ViewOf(node_.out[add ? 1 : 0]);
  args.gain = t_.gain.data();
  args.leaf_begin = t_.leaf_begin.data();
  View from;
  if (add) {
    args.residual = ViewOf(node_.out[0]);
    from = ViewOf(node_.in[0]);
  }
  struct Set {
    void operator()(kernels::RmsNormArgs& a, int64_t rows) const { a.x.rows = a.y.rows = a.residual.rows = rows; }
  };
  auto norm = Make(args, kernels::RmsNormKernels(), Rows<kernels::RmsNormArgs>(HeadRows(), Set{}));
  if (!add || from.data == args.residual.data) return norm;
  return std::make_unique<MovedNormRunner>(std::move(norm), from, args.residual, HeadRows(), step_.split == Split::kEach,
                                           c_.worker, plan_.workers_per_rank);
}

// Exchanges: the method's slice of this worker, and the count of what it took from peers. Where every
// worker does all of it for itself, one of them counts for the rank.
template <typename Args>
class ExchangeRunner : public Runner {
 public:
  ExchangeRunner(const BindContext& c, const comm::Method<Args>* method, Split split)
      : fabric_(c.fabric), actor_{0, c.rank, c.worker}, method_(method), each_(split == Split::kEach),
        workers_(c.plan->workers_per_rank) {}

 protected:
  void RunSlice(const Args& args, int phase) {
    const int64_t units = method_->units(args, phase);
    const Slice slice = each_ ? Slice{0, units} : kernels::SliceOf(units, actor_.worker, workers_);
    const int64_t bytes = method_->run(args, phase, slice);
    fabric_->Count(actor_, method_->kind, phase == 0 && actor_.worker == 0 ? 1 : 0,
                   each_ && actor_.worker != 0 ? 0 : bytes);
  }
  comm::Fabric* fabric_;
  comm::Actor actor_;
  const comm::Method<Args>* method_;
  bool each_;
  int workers_;
};

template <typename Args>
const comm::Method<Args>* MethodNamed(std::span<const comm::Method<Args>* const> list, std::string_view name) {
  for (const comm::Method<Args>* method : list) {
    if (method->name == name) return method;
  }
  WEFT_CHECK(false, "no method '{}'", name);
  return nullptr;
}

class AllReduceRunner final : public ExchangeRunner<comm::ReduceArgs> {
 public:
  AllReduceRunner(const BindContext& c, const std::string& method, Split split, comm::ReduceArgs args,
                  std::vector<float*> roots, std::vector<int64_t> strides, std::vector<View> ys, bool head)
      : ExchangeRunner(c, MethodNamed(comm::AllReduceMethods(), method), split), args_(args),
        roots_(std::move(roots)), strides_(std::move(strides)), ys_(std::move(ys)), head_(head) {
    args_.roots = roots_.data();
    args_.strides = strides_.data();
    args_.y = ys_.data();
  }
  int phases() const override { return method_->phases(args_); }
  void Run(const Live& live, int phase) override {
    args_.rows = head_ ? live.head_rows : live.tokens;
    for (View& y : ys_) y.rows = args_.rows;
    RunSlice(args_, phase);
  }

 private:
  comm::ReduceArgs args_;
  std::vector<float*> roots_;
  std::vector<int64_t> strides_;
  std::vector<View> ys_;
  bool head_;
};

std::unique_ptr<Runner> Binder::AllReduce() {
  const int ranks = g_.mesh.ranks();
  comm::ReduceArgs args;
  args.rank = c_.rank;
  args.ranks = ranks;
  args.rows = RowsMax(plan_);
  args.cols = g_.value(node_.out[0]).dims[1].n;
  args.root_count = t_.roots.count();
  args.root_ranks = t_.roots.root_ranks.data();
  args.merges = t_.roots.merges.data();
  args.dtype = g_.value(node_.out[0]).dtype;
  args.bias = t_.bias.empty() ? nullptr : t_.bias.data();
  args.finish = Named(kernels::FinishKernels(), plan_.target == "reference" ? "ref" : std::string(kernels::FinishKernels()[0]->name));
  std::vector<float*> roots;
  std::vector<int64_t> strides(args.root_count, args.cols);
  for (int r = 0; r < ranks; ++r) {
    auto* base = reinterpret_cast<float*>(BaseOf(node_.in[0], r));
    for (int i = 0; i < t_.roots.CountOf(r); ++i) roots.push_back(base + i * RowsMax(plan_) * args.cols);
  }
  std::vector<View> ys;
  for (int r = 0; r < ranks; ++r) ys.push_back(ViewOf(node_.out[0], r));
  return std::make_unique<AllReduceRunner>(c_, step_.impl, step_.split, args, std::move(roots), std::move(strides), std::move(ys), HeadRows());
}

class AllGatherRunner final : public ExchangeRunner<comm::MoveArgs> {
 public:
  AllGatherRunner(const BindContext& c, const std::string& method, Split split, std::vector<View> shards, View whole, bool head)
      : ExchangeRunner(c, MethodNamed(comm::AllGatherMethods(), method), split), shards_(std::move(shards)), whole_(whole), head_(head) {
    parts_.resize(shards_.size());
  }
  void Run(const Live& live, int phase) override {
    whole_.rows = head_ ? live.head_rows : live.tokens;
    for (View& s : shards_) s.rows = whole_.rows;
    comm::MoveArgs args;
    args.rank = actor_.rank;
    args.parts = parts_.data();
    args.count = comm::GatherCols(shards_, whole_, parts_);
    RunSlice(args, phase);
  }

 private:
  std::vector<View> shards_;
  View whole_;
  bool head_;
  std::vector<comm::Part> parts_;
};

std::unique_ptr<Runner> Binder::AllGather() {
  std::vector<View> shards;
  for (int r = 0; r < g_.mesh.ranks(); ++r) shards.push_back(ViewOf(node_.in[0], r));
  return std::make_unique<AllGatherRunner>(c_, step_.impl, step_.split, std::move(shards), ViewOf(node_.out[0]), HeadRows());
}

class PairMaxRunner final : public ExchangeRunner<comm::PairMaxArgs> {
 public:
  PairMaxRunner(const BindContext& c, const std::string& method, Split split, std::vector<const kernels::ValueIndex*> peers, kernels::ValueIndex* out)
      : ExchangeRunner(c, MethodNamed(comm::PairMaxMethods(), method), split), peers_(std::move(peers)) {
    args_.rank = c.rank;
    args_.ranks = static_cast<int>(peers_.size());
    args_.peers = peers_.data();
    args_.out = out;
  }
  void Run(const Live& live, int phase) override {
    args_.rows = live.head_rows;
    RunSlice(args_, phase);
  }

 private:
  std::vector<const kernels::ValueIndex*> peers_;
  comm::PairMaxArgs args_;
};

std::unique_ptr<Runner> Binder::PairMax() {
  std::vector<const kernels::ValueIndex*> peers;
  for (int r = 0; r < g_.mesh.ranks(); ++r) peers.push_back(reinterpret_cast<const kernels::ValueIndex*>(BaseOf(node_.in[0], r)));
  return std::make_unique<PairMaxRunner>(c_, step_.impl, step_.split, std::move(peers), reinterpret_cast<kernels::ValueIndex*>(BaseOf(node_.out[0], c_.rank)));
}

// XXH64 over the hashes of the vocabulary leaves in order (docs/numerics.md 12).
class HashLogitsRunner final : public Runner {
 public:
  HashLogitsRunner(View logits, LeafTable leaves, bool works) : logits_(logits), leaves_(std::move(leaves)), works_(works) {}
  void Run(const Live& live, int) override {
    if (!works_) return;
    for (int32_t r = 0; r < live.head_rows; ++r) {
      const float* row = logits_.row<const float>(r);
      uint64_t hashes[kLeavesMax];
      for (int l = 0; l < leaves_.count(); ++l) {
        hashes[l] = Hash64(row + leaves_.start(l), static_cast<size_t>(leaves_.width(l)) * sizeof(float));
      }
      live.logits_hash[r] = Hash64(hashes, static_cast<size_t>(leaves_.count()) * sizeof(uint64_t));
    }
  }

 private:
  View logits_;
  LeafTable leaves_;
  bool works_;
};

std::unique_ptr<Runner> Binder::HashLogits() {
  const Value& logits = g_.value(node_.in[0]);
  return std::make_unique<HashLogitsRunner>(ViewOf(node_.in[0]), g_.tables[logits.dims[1].table].leaves, c_.rank == 0 && c_.worker == 0);
}

// One rank: its roots are all there are.
class FinishRunner final : public Runner {
 public:
  FinishRunner(kernels::FinishArgs args, std::vector<const float*> roots) : roots_(std::move(roots)), strides_(roots_.size(), args.y.cols) {
    args.count = static_cast<int>(roots_.size());
    args.roots = roots_.data();
    args.strides = strides_.data();
    args_ = args;
  }
  void Bind(const Kernel<kernels::FinishArgs>* kernel, Split split, int worker, int workers, std::byte* scratch,
            int64_t* done) {
    runner_ = std::make_unique<KernelRunner<kernels::FinishArgs>>(
        args_, kernel, [](kernels::FinishArgs& a, const Live& live) { a.y.rows = live.tokens; }, split, worker, workers, scratch, done);
  }
  void Run(const Live& live, int phase) override { runner_->Run(live, phase); }

 private:
  std::vector<const float*> roots_;
  std::vector<int64_t> strides_;
  kernels::FinishArgs args_;
  std::unique_ptr<Runner> runner_;
};

std::unique_ptr<Runner> Binder::Finish() {
  kernels::FinishArgs args;
  args.y = ViewOf(node_.out[0]);
  args.merges = t_.roots.merges.data();
  args.bias = t_.bias.empty() ? nullptr : t_.bias.data();
  const auto* base = reinterpret_cast<const float*>(BaseOf(node_.in[0], c_.rank));
  std::vector<const float*> roots;
  for (int i = 0; i < t_.roots.count(); ++i) roots.push_back(base + i * RowsMax(plan_) * args.y.cols);
  auto runner = std::make_unique<FinishRunner>(args, std::move(roots));
  runner->Bind(Named(kernels::FinishKernels(), step_.impl), step_.split, c_.worker, plan_.workers_per_rank, mine().scratch[c_.worker], UnitsDone());
  return runner;
}

std::unique_ptr<Runner> Binder::Attention() {
  kernels::AttentionArgs args = AttentionShape(g_, node_, RowsMax(plan_), c_.rank);
  if (args.heads == 0) return std::make_unique<NothingRunner>();
  args.q = ViewOf(node_.in[0]);
  args.y = ViewOf(node_.out[0]);
  args.kv = KvOf(node_.in[1], args.kv);
  args.kv_of_head = t_.kv_of_head.data();
  const auto patch = [](kernels::AttentionArgs& a, const Live& live) {
    a.rows = a.q.rows = a.y.rows = live.tokens;
    a.segments = live.inputs->segments.data();
    a.segment_count = static_cast<int>(live.inputs->segments.size());
  };
  if (c_.faults->attention != nullptr) {
    return std::make_unique<KernelRunner<kernels::AttentionArgs>>(args, c_.faults->attention, patch, step_.split, c_.worker,
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
    case Op::kAllReduce: return AllReduce();
    case Op::kAllGather: return AllGather();
    case Op::kPairMax: return PairMax();
    case Op::kHashLogits: return HashLogits();
    case Op::kAttention: return Attention();
    case Op::kEmbed: {
      kernels::EmbedArgs args = EmbedShape(g_, node_, RowsMax(plan_), c_.rank);
      args.table = t_.packed.matrix(args.table.dtype, args.table.n, args.table.k);
      args.y = ViewOf(node_.out[0]);
      return Make<kernels::EmbedArgs>(args, kernels::EmbedKernels(), [](kernels::EmbedArgs& a, const Live& live) {
        a.ids = live.inputs->ids.data();
        a.y.rows = live.tokens;
      });
    }
    case Op::kQuantise: {
      kernels::QuantiseRowsArgs args{ViewOf(node_.in[0]), RowsOf(node_.out[0])};
      if (args.x.cols == 0) return std::make_unique<NothingRunner>();
      struct Set {
        void operator()(kernels::QuantiseRowsArgs& a, int64_t rows) const { a.x.rows = a.out.rows = rows; }
      };
      return Make(args, kernels::QuantiseRowsKernels(), Rows<kernels::QuantiseRowsArgs>(HeadRows(), Set{}));
    }
    case Op::kAdd: {
      kernels::AddArgs args{ViewOf(node_.in[0]), ViewOf(node_.in[1]), ViewOf(node_.out[0])};
      return Make<kernels::AddArgs>(args, kernels::AddKernels(), [](kernels::AddArgs& a, const Live& live) {
        a.a.rows = a.b.rows = a.y.rows = live.tokens;
      });
    }
    case Op::kRope: {
      kernels::RopeArgs args = RopeShape(g_, node_, RowsMax(plan_), c_.rank);
      if (args.heads == 0) return std::make_unique<NothingRunner>();
      args.x = ViewOf(node_.out[0]);
      WEFT_CHECK(args.x.data == ViewOf(node_.in[0]).data, "{}: rope is in place", node_.layer);
      args.cos = c_.memory->rope_cos;
      args.sin = c_.memory->rope_sin;
      return Make<kernels::RopeArgs>(args, kernels::RopeKernels(), [](kernels::RopeArgs& a, const Live& live) {
        a.x.rows = live.tokens;
        a.positions = live.inputs->positions.data();
      });
    }
    case Op::kKvWrite: {
      kernels::KvWriteArgs args = KvWriteShape(g_, node_, RowsMax(plan_), c_.rank);
      if (args.kv.kv_heads == 0) return std::make_unique<NothingRunner>();
      args.k = ViewOf(node_.in[1]);
      args.v = ViewOf(node_.in[2]);
      args.kv = KvOf(node_.in[0], args.kv);
      return Make<kernels::KvWriteArgs>(args, kernels::KvWriteKernels(), [](kernels::KvWriteArgs& a, const Live& live) {
        a.k.rows = a.v.rows = live.tokens;
        a.slots = live.inputs->slots.data();
      });
    }
    case Op::kSiluMul: {
      kernels::SiluMulArgs args{ViewOf(node_.in[0]), ViewOf(node_.in[1]), ViewOf(node_.out[0])};
      if (args.y.cols == 0) return std::make_unique<NothingRunner>();
      return Make<kernels::SiluMulArgs>(args, kernels::SiluMulKernels(), [](kernels::SiluMulArgs& a, const Live& live) {
        a.gate.rows = a.up.rows = a.y.rows = live.tokens;
      });
    }
    case Op::kGatherRows: {
      kernels::GatherRowsArgs args;
      args.x = ViewOf(node_.in[0]);
      args.y = ViewOf(node_.out[0]);
      return Make<kernels::GatherRowsArgs>(args, kernels::GatherRowsKernels(), [](kernels::GatherRowsArgs& a, const Live& live) {
        a.rows = live.inputs->head_rows.data();
        a.x.rows = live.tokens;
        a.y.rows = live.head_rows;
      });
    }
    case Op::kArgmax: {
      kernels::ArgmaxArgs args = ArgmaxShape(g_, node_, RowsMax(plan_), c_.rank);
      const Value& logits = g_.value(node_.in[0]);
      args.logits = ViewOf(node_.in[0]);
      args.first_id = static_cast<int32_t>(OwnedElements(g_.tables, logits.dims[1].table, c_.rank, g_.mesh.ranks()).begin);
      args.out = reinterpret_cast<kernels::ValueIndex*>(BaseOf(node_.out[0], c_.rank));
      return Make<kernels::ArgmaxArgs>(args, kernels::ArgmaxKernels(), [](kernels::ArgmaxArgs& a, const Live& live) {
        a.logits.rows = live.head_rows;
      });
    }
    case Op::kSample: {
      if (c_.rank != 0) return std::make_unique<NothingRunner>();
      kernels::SampleArgs args;
      args.logits = ViewOf(node_.in[0]);
      args.vocab_leaf_begin = t_.leaf_begin.data();
      args.vocab_leaves = static_cast<int>(t_.leaf_begin.size()) - 1;
      return Make<kernels::SampleArgs>(args, kernels::SampleKernels(), [](kernels::SampleArgs& a, const Live& live) {
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

// The merges of the leaf tree; left to right with a fault.
std::vector<uint8_t> MergesOf(const plan::KLeaves& leaves, bool in_order) {
  if (leaves.table == nullptr) return {0};
  if (!in_order) return TreeMerges(leaves.table->count(), leaves.range);
  std::vector<uint8_t> merges(leaves.range.size(), 1);
  if (!merges.empty()) merges[0] = 0;
  return merges;
}

comm::RootLayout RootsOf(const plan::KLeaves& leaves, int ranks, bool in_order) {
  if (leaves.table == nullptr) return comm::MakeRootLayout(LeafTable::Whole(1), ranks);
  if (!in_order) return comm::MakeRootLayout(*leaves.table, ranks);
  comm::RootLayout out;
  for (int r = 0; r < ranks; ++r) {
    out.firsts.push_back(out.count());
    const LeafRange own = leaves.table->OwnedBy(r, ranks);
    if (own.empty()) continue;
    out.merges.push_back(out.roots.empty() ? 0 : 1);
    out.roots.push_back(own);
    out.root_ranks.push_back(r);
  }
  out.firsts.push_back(out.count());
  return out;
}

}  // namespace

std::shared_ptr<RankTables> MakeRankTables(const Plan& plan, const Weights& weights, int rank, const ExecFaults& faults) {
  const bool in_order = faults.leaves_in_rank_order || (faults.order_by_rows && plan.bucket.rows_max > 16);
  auto tables = std::make_shared<RankTables>();
  const Graph& g = plan.graph;
  const int ranks = g.mesh.ranks();
  for (const plan::Step& step : plan.steps) {
    const Node& node = g.nodes[step.node];
    RankTables::OfStep& t = tables->steps.emplace_back();
    switch (node.op) {
      case Op::kMatmul: {
        const graph::MatmulOperands operands = OperandsOf(node);
        t.packed = weights.TableOf(g, operands.weights, rank);
        const plan::KLeaves leaves = plan::LeavesOf(g, operands.weights[0], rank);
        t.merges = MergesOf(leaves, in_order);
        const bool any = std::any_of(operands.biases.begin(), operands.biases.end(), [](ValueId b) { return b != graph::kNoValue; });
        for (size_t i = 0; any && i < operands.biases.size(); ++i) {
          if (operands.biases[i] == graph::kNoValue) {
            t.bias.resize(t.bias.size() + static_cast<size_t>(LocalWidth(g, g.value(node.out[i]), rank)), 0.0f);
          } else {
            const std::vector<float> part = weights.VectorOf(g, operands.biases[i], rank);
            t.bias.insert(t.bias.end(), part.begin(), part.end());
          }
        }
        break;
      }
      case Op::kEmbed: t.packed = weights.TableOf(g, {node.in[1]}, rank, /*all_ranks=*/true); break;
      case Op::kRmsNorm:
      case Op::kAddRmsNorm: {
        t.gain = weights.VectorOf(g, node.in.back(), rank);
        const LeafTable leaves = LeafTable::Make(node.Int("width"), node.Int("leaf_atom"));
        t.leaf_begin.assign(leaves.starts().begin(), leaves.starts().end());
        break;
      }
      case Op::kFinish:
      case Op::kAllReduce: {
        if (node.in.size() == 2) t.bias = weights.VectorOf(g, node.in[1], rank);
        const Node& matmul = g.nodes[g.ProducerOf(node.in[0])];
        const plan::KLeaves leaves = plan::LeavesOf(g, matmul.in[1], rank);
        t.roots = RootsOf(leaves, ranks, in_order);
        break;
      }
      case Op::kAttention: {
        const int64_t head_dim = node.Int("head_dim"), group = node.Int("group");
        const Value& q = g.value(node.in[0]);
        const graph::ElementRange own = OwnedElements(g.tables, q.dims[1].table, rank, ranks);
        const int64_t first = own.begin / head_dim, last = own.end / head_dim;
        for (int64_t h = first; h < last; ++h) t.kv_of_head.push_back(static_cast<int32_t>(h / group - first / group));
        break;
      }
      case Op::kSample: {
        const LeafTable& leaves = g.tables[g.value(node.in[0]).dims[1].table].leaves;
        t.leaf_begin.assign(leaves.starts().begin(), leaves.starts().end());
        break;
      }
      default: break;
    }
  }
  return tables;
}

std::unique_ptr<Runner> BindStep(const BindContext& context, RankTables& tables, size_t step) {
  return Binder(context, tables, step).Bind();
}

int64_t ScratchBytes(const Plan& plan) {
  int64_t bytes = 0;
  const auto want = [&](auto list, const std::string& name, const auto& args) {
    const auto* kernel = Named(list, name);
    if (kernel->scratch_bytes != nullptr) bytes = std::max(bytes, kernel->scratch_bytes(args));
  };
  const Graph& g = plan.graph;
  const int64_t rows = RowsMax(plan);
  for (int r = 0; r < g.mesh.ranks(); ++r) {
    for (const plan::Step& step : plan.steps) {
      const Node& node = g.nodes[step.node];
      switch (node.op) {
        case Op::kMatmul: want(kernels::MatmulKernels(), step.impl, MatmulShape(g, node, rows, r)); break;
        case Op::kQuantise: want(kernels::QuantiseRowsKernels(), step.impl, QuantiseShape(g, node, rows, r)); break;
        case Op::kEmbed: want(kernels::EmbedKernels(), step.impl, EmbedShape(g, node, rows, r)); break;
        case Op::kFinish: want(kernels::FinishKernels(), step.impl, FinishShape(g, node, rows, r)); break;
        case Op::kRmsNorm:
        case Op::kAddRmsNorm: want(kernels::RmsNormKernels(), step.impl, RmsNormShape(g, node, rows, r)); break;
        case Op::kAdd: want(kernels::AddKernels(), step.impl, AddShape(g, node, rows, r)); break;
        case Op::kRope: want(kernels::RopeKernels(), step.impl, RopeShape(g, node, rows, r)); break;
        case Op::kKvWrite: want(kernels::KvWriteKernels(), step.impl, KvWriteShape(g, node, rows, r)); break;
        case Op::kAttention: want(kernels::AttentionKernels(), step.impl, AttentionShape(g, node, rows, r)); break;
        case Op::kSiluMul: want(kernels::SiluMulKernels(), step.impl, SiluMulShape(g, node, rows, r)); break;
        case Op::kGatherRows: want(kernels::GatherRowsKernels(), step.impl, GatherRowsShape(g, node, rows, r)); break;
        case Op::kArgmax: want(kernels::ArgmaxKernels(), step.impl, ArgmaxShape(g, node, rows, r)); break;
        case Op::kSample: want(kernels::SampleKernels(), step.impl, SampleShape(g, node, rows, r)); break;
        default: break;
      }
    }
  }
  return bytes;
}

}  // namespace weft::exec
