// A row-parallel product over ranks with what follows it: the fused step's arguments, and the same
// work as steps of their own with a meeting before each exchange. Shared by tests of fused and by
// its bench.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "comm/fabric.h"
#include "comm/mesh.h"
#include "comm/roots.h"
#include "fused/matmul_all_reduce_norm.h"
#include "fused/matmul_reduce_scatter.h"
#include "kernels/float_env.h"
#include "kernels/matmul/test_matrix.h"
#include "kernels/memory.h"
#include "tensor/leaf_table.h"

namespace weft::fused {

using comm::ReduceArgs;
using kernels::MatmulArgs;
using kernels::RmsNormArgs;
using kernels::Slice;
using kernels::testing::Buffer;

struct FusedShape {
  int ranks = 2;
  int workers = 1;
  int64_t rows = 1;
  int64_t n = 576;
  LeafTable leaves = LeafTable::Make(576, 64);
  DType weight = DType::kBF16;  // block formats: int8 activations
  DType dtype = DType::kBF16;
  bool bias = true;
  bool in_place = true;  // the residual is where it goes
  bool each = false;     // workers do all rows for themselves
  std::string method = "direct";
  bool reference = false;  // contracts as kernels
  uint32_t seed = 1;
};

class FusedCase {
 public:
  explicit FusedCase(const FusedShape& shape)
      : shape_(shape),
        random_(shape.seed),
        layout_(comm::MakeRootLayout(shape.leaves, shape.ranks)) {
    const int copies = shape.each ? shape.workers : 1;
    const auto rows = kernels::testing::TestMatrix::RandomRows(shape.weight, shape.n,
                                                               shape.leaves.size(), random_);
    const std::vector<int64_t> n_starts{0, shape.n};
    for (int64_t i = 0; i < shape.n; ++i)
      bias_.push_back(static_cast<float>(random_() % 1000) / 300.0f);
    for (int64_t i = 0; i < shape.n; ++i)
      gain_.push_back(0.5f + static_cast<float>(random_() % 1000) / 1000.0f);
    residual_ = std::make_unique<Buffer>(Bytes());
    Fill(*residual_, shape.rows * shape.n, shape.dtype);
    for (int r = 0; r < shape.ranks; ++r) {
      Rank& rank = *ranks_.emplace_back(std::make_unique<Rank>());
      const LeafRange own = shape.leaves.OwnedBy(r, shape.ranks);
      rank.merges = TreeMerges(shape.leaves.count(), own);
      if (!own.empty()) MakeProduct(rank, rows, n_starts, own);
      rank.roots = std::make_unique<Buffer>(std::max<int64_t>(1, layout_.CountOf(r)) * shape.rows *
                                            shape.n * 4);
      for (int c = 0; c < copies; ++c) {
        for (auto* list : {&rank.sums, &rank.residuals, &rank.normed})
          list->push_back(std::make_unique<Buffer>(Bytes()));
      }
    }
    const LeafTable lanes = LeafTable::Make(shape.n, 16);
    leaf_begin_.assign(lanes.starts().begin(), lanes.starts().end());
    for (int i = 0; i <= shape.ranks; ++i)
      starts_.push_back(comm::OwnedBegin(shape.rows, i, shape.ranks));
    matmul_ = Chosen(kernels::MatmulKernels(), Widest());
    norm_ = Chosen(kernels::RmsNormKernels(), NormArgs(0, 0));
    finish_ = shape.reference ? kernels::FinishKernels().back() : kernels::FinishKernels().front();
    for (const auto* method : comm::AllReduceMethods()) {
      if (method->name == shape.method) all_reduce_ = method;
    }
    MakeArgs();
    Reset();
  }

  const FusedShape& shape() const { return shape_; }
  int tile_count() const { return TilesOf(shape_.rows, shape_.n); }
  const kernels::Kernel<MatmulArgs>& matmul_kernel() const { return *matmul_; }

  // Residuals as at the start, everything else full of a pattern.
  void Reset() {
    for (auto& rank : ranks_) {
      std::memset(rank->roots->data(), 0xa5, static_cast<size_t>(rank->roots->bytes()));
      for (size_t c = 0; c < rank->sums.size(); ++c) {
        for (auto* list : {&rank->sums, &rank->normed, &rank->residuals}) {
          std::memset((*list)[c]->data(), 0xa5, static_cast<size_t>((*list)[c]->bytes()));
        }
        if (shape_.in_place)
          std::memcpy(rank->residuals[c]->data(), residual_->data(), static_cast<size_t>(Bytes()));
      }
    }
  }

  MatmulAllReduceNormArgs NormStep(int rank, int worker) const {
    return norm_steps_[Index(rank, worker)];
  }
  MatmulReduceScatterArgs ScatterStep(int rank, int worker) const {
    return scatter_steps_[Index(rank, worker)];
  }

  // The unfused chains; `meet` is a meeting of all workers of all ranks.
  template <typename Meet>
  void RunNormChain(int rank, int worker, const Meet& meet) const {
    const MatmulAllReduceNormArgs& step = norm_steps_[Index(rank, worker)];
    Multiply(rank, worker);
    const ReduceArgs& reduce = whole_[Index(rank, worker)];
    for (int phase = 0; phase < all_reduce_->phases(reduce); ++phase) {
      meet();
      const int64_t units = all_reduce_->units(reduce, phase);
      all_reduce_->run(
          reduce, phase,
          step.each ? Slice{0, units} : kernels::SliceOf(units, worker, shape_.workers));
    }
    if (!step.each && shape_.workers > 1) meet();
    const Slice rows =
        step.each ? Slice{0, shape_.rows} : kernels::SliceOf(shape_.rows, worker, shape_.workers);
    if (!shape_.in_place && (step.each || worker == 0))
      std::memcpy(Copy(rank, worker, ranks_[rank]->residuals).data(), residual_->data(),
                  static_cast<size_t>(Bytes()));
    if (!shape_.in_place && !step.each && shape_.workers > 1) meet();
    norm_->run(step.norm, rows, step.scratch);
  }
  template <typename Meet>
  void RunScatterChain(int rank, int worker, const Meet& meet) const {
    Multiply(rank, worker);
    meet();
    const MatmulReduceScatterArgs& step = scatter_steps_[Index(rank, worker)];
    step.method->run(step.reduce, 0,
                     kernels::SliceOf(step.method->units(step.reduce, 0), worker, shape_.workers));
  }

  // What all workers of all ranks have made, one after the other.
  std::vector<std::string> Results() const {
    std::vector<std::string> out;
    for (const auto& rank : ranks_) {
      for (size_t c = 0; c < rank->sums.size(); ++c) {
        for (const auto* list : {&rank->residuals, &rank->normed}) out.push_back(Text(*(*list)[c]));
      }
    }
    return out;
  }
  std::vector<std::string> Sums() const {
    std::vector<std::string> out;
    for (const auto& rank : ranks_) out.push_back(Text(*rank->sums[0]));
    return out;
  }

 private:
  struct Rank {
    std::unique_ptr<kernels::testing::TestMatrix> matrix;
    std::vector<std::unique_ptr<kernels::testing::TestMatrix>> tiles;
    std::vector<uint8_t> merges;
    std::unique_ptr<Buffer> x, xq, roots;
    MatmulArgs product;                                            // k_leaves == 0: none
    std::vector<std::unique_ptr<Buffer>> sums, residuals, normed;  // [copies]
  };

  int64_t Bytes() const { return BytesOf(shape_.dtype, shape_.rows * shape_.n); }
  size_t Index(int rank, int worker) const {
    return static_cast<size_t>(rank * shape_.workers + worker);
  }
  static std::string Text(const Buffer& b) {
    return {reinterpret_cast<const char*>(b.data()), static_cast<size_t>(b.bytes())};
  }
  const Buffer& Copy(int, int worker, const std::vector<std::unique_ptr<Buffer>>& list) const {
    return *list[shape_.each ? worker : 0];
  }
  View Rows(const Buffer& b) const {
    return {b.data(), shape_.rows, shape_.n, shape_.n, shape_.dtype};
  }

  void Fill(const Buffer& b, int64_t count, DType dtype) {
    for (int64_t i = 0; i < count; ++i) {
      const float x = kernels::testing::RandomFloat(random_);
      if (dtype == DType::kF32) b.as<float>()[i] = x;
      if (dtype == DType::kBF16) b.as<Bf16>()[i] = ToBf16(x);
    }
  }

  void MakeProduct(Rank& rank, const std::vector<std::vector<std::byte>>& rows,
                   const std::vector<int64_t>& n_starts, LeafRange own) {
    const auto starts = shape_.leaves.starts();
    rank.matrix = std::make_unique<kernels::testing::TestMatrix>(shape_.weight, rows, n_starts,
                                                                 starts, own.begin, own.end);
    for (int t = 0; t < tile_count(); ++t) {
      const int64_t begin = TileBegin(shape_.n, t, tile_count()),
                    end = TileBegin(shape_.n, t + 1, tile_count());
      const std::vector<std::vector<std::byte>> part(rows.begin() + begin, rows.begin() + end);
      rank.tiles.push_back(std::make_unique<kernels::testing::TestMatrix>(
          shape_.weight, part, std::vector<int64_t>{0, end - begin}, starts, own.begin, own.end));
    }
    MatmulArgs& a = rank.product;
    a.w = rank.matrix->packed();
    a.rows = shape_.rows;
    a.finish = false;
    a.merges = rank.merges.data();
    a.roots = static_cast<int>(MaximalSubtrees(shape_.leaves.count(), own).size());
    rank.x = std::make_unique<Buffer>(BytesOf(shape_.dtype, shape_.rows * a.w.k));
    Fill(*rank.x, shape_.rows * a.w.k, shape_.dtype);
    a.x = {rank.x->data(), shape_.rows, a.w.k, a.w.k, shape_.dtype};
    a.int8_activations = IsQuantised(shape_.weight);
    if (!a.int8_activations) return;
    rank.xq = std::make_unique<Buffer>(kernels::QuantisedRows::Bytes(shape_.rows, a.w.k) + 64);
    a.xq = kernels::QuantisedRows::In(rank.xq->data(), shape_.rows, shape_.rows, a.w.k);
    const auto* quantise = kernels::QuantiseRowsKernels().back();
    const kernels::QuantiseRowsArgs args{a.x, a.xq};
    quantise->run(args, {0, quantise->units(args)}, nullptr);
  }

  const MatmulArgs& Widest() const {
    const MatmulArgs* widest = &ranks_[0]->product;
    for (const auto& rank : ranks_) {
      if (rank->product.w.k > widest->w.k) widest = &rank->product;
    }
    return *widest;
  }

  template <typename Args>
  const kernels::Kernel<Args>* Chosen(std::span<const kernels::Kernel<Args>* const> list,
                                      const Args& args) const {
    return kernels::Choose(list, args, kernels::DetectIsa(), shape_.reference ? "ref" : "");
  }

  RmsNormArgs NormArgs(int rank, int worker) const {
    RmsNormArgs a;
    a.x = Rows(Copy(rank, worker, ranks_[rank]->sums));
    a.residual = Rows(Copy(rank, worker, ranks_[rank]->residuals));
    a.y = Rows(Copy(rank, worker, ranks_[rank]->normed));
    a.gain = gain_.data();
    a.eps = 1e-5f;
    a.width = shape_.n;
    a.leaf_begin = leaf_begin_.data();
    a.leaves = static_cast<int>(leaf_begin_.size()) - 1;
    return a;
  }

  // Columns [begin, end) of all ranks' sums, as worker `worker` of `rank` sees them.
  ReduceArgs Reduction(int rank, int worker, int64_t begin, int64_t end, bool scatters) {
    auto& roots = pointers_.emplace_back(std::make_unique<std::vector<float*>>());
    auto& strides =
        strides_.emplace_back(std::make_unique<std::vector<int64_t>>(layout_.count(), end - begin));
    auto& ys = views_.emplace_back(std::make_unique<std::vector<View>>());
    for (int m = 0; m < shape_.ranks; ++m) {
      float* base = ranks_[m]->roots->as<float>() + layout_.CountOf(m) * shape_.rows * begin;
      for (int i = 0; i < layout_.CountOf(m); ++i)
        roots->push_back(base + i * shape_.rows * (end - begin));
      View y = Rows(Copy(m, worker, ranks_[m]->sums));
      y.data = static_cast<std::byte*>(y.data) + BytesOf(shape_.dtype, begin);
      y.cols = end - begin;
      if (scatters) y.rows = starts_[m + 1] - starts_[m];
      ys->push_back(y);
    }
    return {.rank = rank,
            .ranks = shape_.ranks,
            .rows = shape_.rows,
            .cols = end - begin,
            .root_count = layout_.count(),
            .root_ranks = layout_.root_ranks.data(),
            .merges = layout_.merges.data(),
            .dtype = shape_.dtype,
            .starts = scatters ? starts_.data() : nullptr,
            .roots = roots->data(),
            .strides = strides->data(),
            .bias = shape_.bias ? bias_.data() + begin : nullptr,
            .y = ys->data(),
            .finish = finish_};
  }

  void MakeArgs() {
    for (int r = 0; r < shape_.ranks; ++r) {
      Rank& rank = *ranks_[r];
      rank.product.partials = rank.roots->as<float>();
      rank.product.partials_stride = shape_.rows * shape_.n;
      for (int w = 0; w < shape_.workers; ++w) {
        const int64_t bytes = matmul_->scratch_bytes == nullptr || rank.product.w.k == 0
                                  ? 0
                                  : matmul_->scratch_bytes(rank.product);
        scratch_.push_back(std::make_unique<Buffer>(bytes + 64));
        auto& tiles =
            tiles_.emplace_back(std::make_unique<std::vector<MatmulAllReduceNormArgs::Tile>>());
        for (int t = 0; t < tile_count(); ++t) {
          const int64_t begin = TileBegin(shape_.n, t, tile_count()),
                        end = TileBegin(shape_.n, t + 1, tile_count());
          MatmulArgs product = rank.product;
          if (product.w.k_leaves > 0) {
            product.w = rank.tiles[t]->packed();
            product.partials += product.roots * shape_.rows * begin;
            product.partials_stride = shape_.rows * (end - begin);
          }
          tiles->push_back({product, Reduction(r, w, begin, end, false)});
        }
        whole_.push_back(Reduction(r, w, 0, shape_.n, false));
        norm_steps_.push_back({.tiles = tiles->data(),
                               .tile_count = static_cast<int>(tiles->size()),
                               .norm = NormArgs(r, w),
                               .residual_from = shape_.in_place ? View{} : Rows(*residual_),
                               .matmul_kernel = matmul_,
                               .method = all_reduce_,
                               .norm_kernel = norm_,
                               .each = shape_.each,
                               .rank = r,
                               .worker = w,
                               .workers = shape_.workers,
                               .scratch = scratch_.back()->data()});
        scatter_steps_.push_back({.matmul = rank.product,
                                  .reduce = Reduction(r, w, 0, shape_.n, true),
                                  .matmul_kernel = matmul_,
                                  .method = comm::ReduceScatterMethods().front(),
                                  .worker = w,
                                  .workers = shape_.workers,
                                  .scratch = scratch_.back()->data()});
      }
    }
  }

  void Multiply(int rank, int worker) const {
    const MatmulArgs& a = ranks_[rank]->product;
    if (a.w.k_leaves == 0) return;
    const Slice units = kernels::SliceOf(matmul_->units(a), worker, shape_.workers);
    if (units.begin < units.end) matmul_->run(a, units, scratch_[Index(rank, worker)]->data());
  }

  const kernels::ScopedFlushDenormals flush_;
  FusedShape shape_;
  std::mt19937 random_;
  comm::RootLayout layout_;
  std::vector<float> bias_, gain_;
  std::unique_ptr<Buffer> residual_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<int64_t> leaf_begin_, starts_;
  const kernels::Kernel<MatmulArgs>* matmul_ = nullptr;
  const kernels::Kernel<RmsNormArgs>* norm_ = nullptr;
  const kernels::Kernel<kernels::FinishArgs>* finish_ = nullptr;
  const comm::Method<ReduceArgs>* all_reduce_ = nullptr;
  std::vector<std::unique_ptr<std::vector<float*>>> pointers_;
  std::vector<std::unique_ptr<std::vector<int64_t>>> strides_;
  std::vector<std::unique_ptr<std::vector<View>>> views_;
  std::vector<std::unique_ptr<std::vector<MatmulAllReduceNormArgs::Tile>>> tiles_;
  std::vector<ReduceArgs> whole_;
  std::vector<std::unique_ptr<Buffer>> scratch_;
  std::vector<MatmulAllReduceNormArgs> norm_steps_;
  std::vector<MatmulReduceScatterArgs> scatter_steps_;
};

}  // namespace weft::fused
