// Collectives whose members keep all that they share in one window each, as ranks do: so a test can
// give every member its own picture of its peers' windows (mirrors) and see what travelled.
// Everything is made from seeds, so processes that share no memory make the same case.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "comm/parts.h"
#include "comm/reference.h"
#include "reduce_case.h"

namespace weft::comm {

inline constexpr std::byte kFiller{0xEE};

struct Region {
  int64_t begin = 0;
  int64_t bytes = 0;
};

class WindowCase {
 public:
  virtual ~WindowCase() = default;
  virtual std::string Name() const = 0;
  virtual int members() const = 0;
  virtual int64_t WindowBytes(int member) const = 0;
  // What the member holds before; results are filler.
  virtual void Fill(int member, std::byte* window) const = 0;
  // Where somebody who acts finds the members' windows.
  virtual void See(std::span<std::byte* const> windows) = 0;
  // Where the member's result is in its window, padding included.
  virtual Region ResultOf(int member) const = 0;
  // What the contract writes there.
  virtual std::vector<std::byte> Expected(int member) const = 0;

  virtual Collective kind() const = 0;
  // Of the method, for what See() was told.
  virtual int phases() const = 0;
  virtual int64_t Units(int member, int phase) const = 0;
  virtual int64_t Bytes(int member) const = 0;
  virtual void Reads(int member, int phase, ReadVisit visit) const = 0;
  virtual int64_t Run(int member, int phase, Slice units) const = 0;
};

template <typename Args>
class MethodCase : public WindowCase {
 public:
  explicit MethodCase(const Method<Args>* method) : method_(method) {}
  int members() const override { return static_cast<int>(args_.size()); }
  Collective kind() const override { return method_->kind; }
  int phases() const override { return method_->phases(args_[0]); }
  int64_t Units(int m, int phase) const override { return method_->units(args_[m], phase); }
  int64_t Bytes(int m) const override { return method_->bytes(args_[m]); }
  void Reads(int m, int phase, ReadVisit visit) const override {
    method_->reads(args_[m], phase, visit);
  }
  int64_t Run(int m, int phase, Slice units) const override {
    return method_->run(args_[m], phase, units);
  }
  const Method<Args>& method() const { return *method_; }
  std::span<const Args> args() const { return args_; }

 protected:
  // What the contract writes for the member: `fresh`, a case like this one, on windows of its own.
  std::vector<std::byte> ContractOf(MethodCase& fresh, int member,
                                    void (*contract)(std::span<const Args>)) const {
    std::vector<std::vector<std::byte>> windows(args_.size());
    std::vector<std::byte*> seen;
    for (int m = 0; m < members(); ++m) {
      windows[m].resize(static_cast<size_t>(this->WindowBytes(m)));
      this->Fill(m, windows[m].data());
      seen.push_back(windows[m].data());
    }
    fresh.See(seen);
    contract({&fresh.args_[member], 1});
    const Region result = this->ResultOf(member);
    const auto at = windows[member].begin() + result.begin;
    return {at, at + result.bytes};
  }

  const Method<Args>* method_;
  std::vector<Args> args_;
};

class ReduceWindowCase final : public MethodCase<ReduceArgs> {
 public:
  ReduceWindowCase(const Method<ReduceArgs>* method, const ReduceShape& shape)
      : MethodCase(method), case_(std::make_unique<ReduceCase>(shape)) {
    // Some distance between the things in a window, so that a rectangle that is off hits filler.
    std::vector<int64_t> ends(shape.ranks, 64);
    const RootLayout& layout = case_->layout();
    for (int i = 0; i < layout.count(); ++i) {
      const int64_t bytes = static_cast<int64_t>(case_->root_memory()[i].size() * sizeof(float));
      int64_t& end = ends[layout.root_ranks[i]];
      roots_at_.push_back({end, bytes});
      end += bytes + 64;
    }
    for (int r = 0; r < shape.ranks; ++r) {
      const int64_t bytes = static_cast<int64_t>(case_->Results()[r].size());
      y_at_.push_back({ends[r], bytes});
      window_bytes_.push_back(ends[r] + bytes + 64);
    }
    args_ = case_->Args(kind());
    y_.assign(args_[0].y, args_[0].y + shape.ranks);
    case_->Reset();
    (kind() == Collective::kAllReduce ? AllReduceRef : ReduceScatterRef)(args_);
    expected_ = case_->Results();
    case_->Reset();
  }
  std::string Name() const override {
    const ReduceShape& s = case_->shape();
    return fmt::format(
        "{} {} of {} ranks, {} leaves, [{}, {}] {}, offset {}{}", NameOf(kind()), method_->name,
        s.ranks, s.leaves, s.rows, s.cols, NameOf(s.dtype), s.offset,
        s.starts.empty() ? "" : fmt::format(", rows from {}", fmt::join(s.starts, " ")));
  }
  int64_t WindowBytes(int member) const override { return window_bytes_[member]; }
  void Fill(int member, std::byte* window) const override {
    std::fill_n(window, window_bytes_[member], kFiller);
    for (int i = 0; i < case_->layout().count(); ++i) {
      if (case_->layout().root_ranks[i] != member) continue;
      std::memcpy(window + roots_at_[i].begin, case_->root_memory()[i].data(), roots_at_[i].bytes);
    }
  }
  void See(std::span<std::byte* const> windows) override {
    const int64_t offset = case_->shape().offset;
    roots_.clear();
    for (int i = 0; i < case_->layout().count(); ++i) {
      std::byte* const memory = windows[case_->layout().root_ranks[i]] + roots_at_[i].begin;
      roots_.push_back(reinterpret_cast<float*>(memory) + offset);
    }
    for (int r = 0; r < members(); ++r) {
      y_[r].data = windows[r] + y_at_[r].begin + BytesOf(y_[r].dtype, offset);
    }
    for (ReduceArgs& a : args_) {
      a.roots = roots_.data();
      a.y = y_.data();
    }
  }
  Region ResultOf(int member) const override { return y_at_[member]; }
  std::vector<std::byte> Expected(int member) const override { return expected_[member]; }

 private:
  const kernels::ScopedFlushDenormals flush_;
  std::unique_ptr<ReduceCase> case_;
  std::vector<Region> roots_at_, y_at_;
  std::vector<int64_t> window_bytes_;
  std::vector<float*> roots_;
  std::vector<View> y_;
  std::vector<std::vector<std::byte>> expected_;
};

// A matrix in a window: padded rows, an odd start, filler in the padding.
struct MatrixAt {
  int64_t begin = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t offset = 0;
  DType dtype = DType::kBF16;

  int64_t bytes() const { return BytesOf(dtype, rows * (cols + offset) + offset); }
  View In(std::byte* window) const {
    return {.data = window + begin + BytesOf(dtype, offset),
            .rows = rows,
            .cols = cols,
            .stride = cols + offset,
            .dtype = dtype};
  }
};

// What all-gather and all-to-all have in common: a source and a result in every window.
class MoveCase : public MethodCase<MoveArgs> {
 public:
  using MethodCase::MethodCase;
  int64_t WindowBytes(int member) const override {
    return 64 + std::max(sources_[member].begin + sources_[member].bytes(),
                         results_[member].begin + results_[member].bytes());
  }
  void Fill(int member, std::byte* window) const override {
    std::fill_n(window, WindowBytes(member), kFiller);
    Rng rng(seed_ + static_cast<uint64_t>(member));
    const View view = sources_[member].In(window);
    for (int64_t row = 0; row < view.rows; ++row) {
      std::byte* const at =
          static_cast<std::byte*>(view.data) + BytesOf(view.dtype, row * view.stride);
      for (int64_t b = 0; b < BytesOf(view.dtype, view.cols); ++b) at[b] = std::byte(rng.Next());
    }
  }
  void See(std::span<std::byte* const> windows) override {
    std::vector<View> sources, results;
    for (int m = 0; m < members(); ++m) {
      sources.push_back(sources_[m].In(windows[m]));
      results.push_back(results_[m].In(windows[m]));
    }
    for (int m = 0; m < members(); ++m) {
      parts_[m].resize(kPartsMax);
      const int count = FillParts(m, sources, results[m], parts_[m]);
      args_[m] = {.rank = m, .parts = parts_[m].data(), .count = count};
    }
  }
  Region ResultOf(int member) const override {
    return {results_[member].begin, results_[member].bytes()};
  }
  std::vector<std::byte> Expected(int member) const override {
    std::vector<std::vector<std::byte>> windows(args_.size());
    std::vector<View> sources, results;
    for (int m = 0; m < members(); ++m) {
      windows[m].resize(WindowBytes(m));
      Fill(m, windows[m].data());
      sources.push_back(sources_[m].In(windows[m].data()));
      results.push_back(results_[m].In(windows[m].data()));
    }
    Contract(sources, results);
    const auto at = windows[member].begin() + results_[member].begin;
    return {at, at + results_[member].bytes()};
  }

 protected:
  static constexpr int kPartsMax = 256;
  virtual int FillParts(int member, std::span<const View> sources, const View& result,
                        std::span<Part> parts) const = 0;
  virtual void Contract(std::span<const View> sources, std::span<const View> results) const = 0;
  void SetMembers(int members) {
    args_.resize(members);
    parts_.resize(members);
  }

  uint64_t seed_ = 1;
  std::vector<MatrixAt> sources_, results_;
  std::vector<std::vector<Part>> parts_;
};

struct GatherShape {
  int dim = 0;                  // 0: shards are rows; 1: columns
  std::vector<int64_t> starts;  // [members + 1] along dim
  int64_t other = 1;            // size of the other dimension
  DType dtype = DType::kBF16;
  int offset = 0;
  bool in_place = false;  // dim 0: a shard lies where the result wants it
  uint64_t seed = 1;
};

class GatherCase final : public MoveCase {
 public:
  explicit GatherCase(const Method<MoveArgs>* method, GatherShape shape)
      : MoveCase(method), shape_(std::move(shape)) {
    SetMembers(static_cast<int>(shape_.starts.size()) - 1);
    seed_ = shape_.seed;
    for (int m = 0; m < members(); ++m) {
      const int64_t own = shape_.starts[m + 1] - shape_.starts[m], all = shape_.starts.back();
      const bool rows = shape_.dim == 0;
      MatrixAt source{.begin = 64,
                      .rows = rows ? own : shape_.other,
                      .cols = rows ? shape_.other : own,
                      .offset = shape_.offset,
                      .dtype = shape_.dtype};
      MatrixAt result = source;
      (rows ? result.rows : result.cols) = all;
      if (shape_.in_place) {
        source.begin += BytesOf(shape_.dtype, shape_.starts[m] * (shape_.other + shape_.offset));
      } else {
        result.begin += (source.bytes() + 127) / 64 * 64;
      }
      sources_.push_back(source);
      results_.push_back(result);
    }
  }
  std::string Name() const override {
    return fmt::format("all_gather {} of dim {} from {}, {} others, {}, offset {}{}", method_->name,
                       shape_.dim, fmt::join(shape_.starts, " "), shape_.other,
                       NameOf(shape_.dtype), shape_.offset, shape_.in_place ? ", in place" : "");
  }

 protected:
  int FillParts(int, std::span<const View> sources, const View& result,
                std::span<Part> parts) const override {
    return shape_.dim == 0 ? GatherRows(sources, result, parts)
                           : GatherCols(sources, result, parts);
  }
  void Contract(std::span<const View> sources, std::span<const View> results) const override {
    AllGatherRef(sources, shape_.dim, results);
  }

 private:
  GatherShape shape_;
};

struct ExchangeShape {
  std::vector<int64_t> cols;                  // [members]
  std::vector<std::vector<RowChunk>> chunks;  // [members]
  int64_t rows = 1;
  DType dtype = DType::kBF16;
  int offset = 0;
  uint64_t seed = 1;
};

class ExchangeCase final : public MoveCase {
 public:
  explicit ExchangeCase(const Method<MoveArgs>* method, ExchangeShape shape)
      : MoveCase(method), shape_(std::move(shape)) {
    SetMembers(static_cast<int>(shape_.cols.size()));
    seed_ = shape_.seed;
    int64_t cols = 0;
    for (int64_t c : shape_.cols) cols += c;
    for (int m = 0; m < members(); ++m) {
      int64_t rows = 0;
      for (RowChunk c : shape_.chunks[m]) rows += c.end - c.begin;
      sources_.push_back({64, shape_.rows, shape_.cols[m], shape_.offset, shape_.dtype});
      const int64_t begin = 64 + (sources_.back().bytes() + 127) / 64 * 64;
      results_.push_back({begin, rows, cols, shape_.offset, shape_.dtype});
    }
  }
  std::string Name() const override {
    return fmt::format("all_to_all {} of {} rows, columns {}, {}, offset {}", method_->name,
                       shape_.rows, fmt::join(shape_.cols, " "), NameOf(shape_.dtype),
                       shape_.offset);
  }

 protected:
  int FillParts(int member, std::span<const View> sources, const View& result,
                std::span<Part> parts) const override {
    return ExchangeChunks(sources, shape_.chunks[member], result, parts);
  }
  void Contract(std::span<const View> sources, std::span<const View> results) const override {
    std::vector<std::span<const RowChunk>> chunks(shape_.chunks.begin(), shape_.chunks.end());
    AllToAllRef(sources, chunks, results);
  }

 private:
  ExchangeShape shape_;
};

struct DispatchShape {
  std::vector<int64_t> tokens;   // [members + 1] whose rows begin where
  std::vector<int32_t> experts;  // [members + 1] likewise
  int top_k = 1;
  std::vector<int64_t> bytes;  // of a row, by plane
  int64_t padding = 0;         // bytes behind each row
  uint64_t seed = 1;
};

// Tokens choose experts at random; some members have none, some get no row.
class DispatchCase final : public MethodCase<DispatchRowsArgs> {
 public:
  DispatchCase(const Method<DispatchRowsArgs>* method, DispatchShape shape)
      : MethodCase(method), shape_(std::move(shape)) {
    const auto members = shape_.tokens.size() - 1;
    args_.resize(members);
    places_.resize(members);
    Rng rng(shape_.seed);
    std::vector<int32_t> all(static_cast<size_t>(shape_.experts.back()));
    for (int64_t t = 0; t < shape_.tokens.back(); ++t) {
      for (size_t e = 0; e < all.size(); ++e) all[e] = static_cast<int32_t>(e);
      for (int k = 0; k < shape_.top_k; ++k) std::swap(all[k], all[k + rng.Below(all.size() - k)]);
      std::sort(all.begin(), all.begin() + shape_.top_k);
      ids_.insert(ids_.end(), all.begin(), all.begin() + shape_.top_k);
    }
    for (size_t m = 0; m < members; ++m) {
      int32_t next = 0;
      for (const int32_t id : ids_)
        places_[m].push_back(id >= shape_.experts[m] && id < shape_.experts[m + 1] ? next++ : -1);
    }
  }
  std::string Name() const override {
    return fmt::format(
        "dispatch_rows {}: tokens from {}, experts from {}, top {}, rows of {} bytes and {}",
        method_->name, fmt::join(shape_.tokens, " "), fmt::join(shape_.experts, " "), shape_.top_k,
        fmt::join(shape_.bytes, "+"), shape_.padding);
  }
  int64_t WindowBytes(int member) const override {
    return ResultOf(member).begin + ResultOf(member).bytes + 64;
  }
  void Fill(int member, std::byte* window) const override {
    std::fill_n(window, WindowBytes(member), kFiller);
    Rng rng(shape_.seed + static_cast<uint64_t>(member));
    for (size_t p = 0; p < shape_.bytes.size(); ++p) {
      for (int64_t row = 0; row < RowsOf(member); ++row) {
        for (int64_t b = 0; b < shape_.bytes[p]; ++b)
          window[SourceAt(member, p) + row * Stride(p) + b] = std::byte(rng.Next());
      }
    }
  }
  void See(std::span<std::byte* const> windows) override {
    held_.clear();
    for (int m = 0; m < members(); ++m) {
      HeldRows held{.from = m, .begin = shape_.tokens[m], .end = shape_.tokens[m + 1]};
      for (size_t p = 0; p < shape_.bytes.size(); ++p)
        held.planes[p] = {windows[m] + SourceAt(m, p), Stride(p)};
      held_.push_back(held);
    }
    for (int m = 0; m < members(); ++m) {
      DispatchRowsArgs& a = args_[m];
      a = {.rank = m,
           .tokens = shape_.tokens.back(),
           .top_k = shape_.top_k,
           .ids = ids_.data(),
           .first = shape_.experts[m]};
      a.count = shape_.experts[m + 1] - shape_.experts[m];
      a.place = places_[m].data();
      a.held = held_.data();
      a.held_count = members();
      a.planes = static_cast<int>(shape_.bytes.size());
      int64_t at = ResultOf(m).begin;
      for (size_t p = 0; p < shape_.bytes.size(); ++p) {
        a.bytes[p] = shape_.bytes[p];
        a.to[p] = windows[m] + at;
        a.to_stride[p] = Stride(p);
        at += Stride(p) * RoutesOf(m);
      }
    }
  }
  Region ResultOf(int member) const override {
    int64_t bytes = 0;
    for (size_t p = 0; p < shape_.bytes.size(); ++p) bytes += Stride(p) * RoutesOf(member);
    return {SourceAt(member, shape_.bytes.size()) + 64, bytes};
  }
  std::vector<std::byte> Expected(int member) const override {
    DispatchCase other(method_, shape_);
    return ContractOf(other, member, DispatchRowsRef);
  }

 private:
  int64_t RowsOf(int member) const { return shape_.tokens[member + 1] - shape_.tokens[member]; }
  int64_t RoutesOf(int member) const {
    return std::ranges::count_if(places_[member], [](int32_t to) { return to >= 0; });
  }
  int64_t Stride(size_t plane) const { return shape_.bytes[plane] + shape_.padding; }
  int64_t SourceAt(int member, size_t plane) const {
    int64_t at = 64;
    for (size_t p = 0; p < plane; ++p) at += Stride(p) * RowsOf(member) + 64;
    return at;
  }

  DispatchShape shape_;
  std::vector<int32_t> ids_;
  std::vector<std::vector<int32_t>> places_;  // [members]
  std::vector<HeldRows> held_;
};

struct CombineRowsShape {
  // By member, the tokens that it owns; together all, each once.
  std::vector<std::vector<TokenRange>> own;
  std::vector<int32_t> experts;  // [members + 1] whose experts begin where
  int leaves = 1;                // of the tree over experts
  int top_k = 1;
  int64_t cols = 0;
  DType dtype = DType::kBF16;
  int64_t padding = 0;  // bytes behind each routed row
  uint64_t seed = 1;
};

// Tokens choose experts at random; some members have none, some own no token.
class CombineRowsCase final : public MethodCase<CombineRowsArgs> {
 public:
  CombineRowsCase(const Method<CombineRowsArgs>* method, CombineRowsShape shape)
      : MethodCase(method), shape_(std::move(shape)) {
    const auto members = shape_.own.size();
    args_.resize(members);
    weights_.resize(members);
    routes_.resize(members);
    for (const auto& ranges : shape_.own) {
      for (const TokenRange& range : ranges) tokens_ = std::max(tokens_, range.end);
    }
    Rng rng(shape_.seed);
    std::vector<int32_t> all(static_cast<size_t>(shape_.experts.back()));
    for (int64_t t = 0; t < tokens_; ++t) {
      for (size_t e = 0; e < all.size(); ++e) all[e] = static_cast<int32_t>(e);
      for (int k = 0; k < shape_.top_k; ++k) std::swap(all[k], all[k + rng.Below(all.size() - k)]);
      std::sort(all.begin(), all.begin() + shape_.top_k);
      ids_.insert(ids_.end(), all.begin(), all.begin() + shape_.top_k);
    }
    for (size_t m = 0; m < members; ++m) {
      for (int64_t i = 0; i < OwnTokens(m) * shape_.top_k; ++i)
        weights_[m].push_back(static_cast<float>(rng.Uniform()));
      routes_[m] = std::ranges::count_if(
          ids_, [&](int32_t id) { return id >= shape_.experts[m] && id < shape_.experts[m + 1]; });
    }
    for (int leaf = 0; leaf <= shape_.leaves; ++leaf)
      leaf_begin_.push_back(
          static_cast<int32_t>(int64_t{shape_.experts.back()} * leaf / shape_.leaves));
    merges_ = TreeMerges(shape_.leaves, {0, shape_.leaves});
  }
  std::string Name() const override {
    return fmt::format("combine_rows {}: {} tokens, experts from {} in {} leaves, top {}, {} x {}",
                       method_->name, tokens_, fmt::join(shape_.experts, " "), shape_.leaves,
                       shape_.top_k, shape_.cols, NameOf(shape_.dtype));
  }
  int64_t WindowBytes(int member) const override {
    return ResultOf(member).begin + ResultOf(member).bytes + 64;
  }
  void Fill(int member, std::byte* window) const override {
    std::fill_n(window, WindowBytes(member), kFiller);
    Rng rng(shape_.seed + 1 + static_cast<uint64_t>(member));
    for (int64_t row = 0; row < routes_[member]; ++row) {
      std::byte* at = window + 64 + row * Stride();
      for (int64_t c = 0; c < shape_.cols; ++c) {
        const auto x = static_cast<float>(rng.Uniform() - 0.5);
        const Bf16 half = ToBf16(x);
        const int64_t size = BytesOf(shape_.dtype, 1);
        std::memcpy(at + c * size,
                    shape_.dtype == DType::kF32 ? static_cast<const void*>(&x) : &half,
                    static_cast<size_t>(size));
      }
    }
  }
  void See(std::span<std::byte* const> windows) override {
    held_.clear();
    for (int m = 0; m < members(); ++m) {
      held_.push_back({.from = m,
                       .first = shape_.experts[m],
                       .count = shape_.experts[m + 1] - shape_.experts[m],
                       .rows = {windows[m] + 64, Stride()}});
    }
    for (int m = 0; m < members(); ++m) {
      CombineRowsArgs& a = args_[m];
      a = {.rank = m,
           .tokens = tokens_,
           .ids = ids_.data(),
           .held = held_.data(),
           .held_count = members(),
           .own = shape_.own[m].data(),
           .own_count = static_cast<int>(shape_.own[m].size())};
      a.combine.rows.cols = shape_.cols;
      a.combine.rows.dtype = shape_.dtype;
      a.combine.top_k = shape_.top_k;
      a.combine.weights = weights_[m].data();
      a.combine.leaf_begin = leaf_begin_.data();
      a.combine.leaves = shape_.leaves;
      a.combine.merges = merges_.data();
      a.kernel = kernels::CombineKernels().back();
      a.finish = kernels::FinishKernels().back();
      a.y = {.data = windows[m] + ResultOf(m).begin,
             .rows = OwnTokens(m),
             .cols = shape_.cols,
             .stride = shape_.cols,
             .dtype = shape_.dtype};
    }
  }
  Region ResultOf(int member) const override {
    return {128 + (Stride() * routes_[member] + 63) / 64 * 64,
            OwnTokens(member) * BytesOf(shape_.dtype, shape_.cols)};
  }
  std::vector<std::byte> Expected(int member) const override {
    CombineRowsCase other(method_, shape_);
    return ContractOf(other, member, CombineRowsRef);
  }

 private:
  int64_t OwnTokens(size_t member) const {
    int64_t tokens = 0;
    for (const TokenRange& range : shape_.own[member]) tokens += range.end - range.begin;
    return tokens;
  }
  int64_t Stride() const { return BytesOf(shape_.dtype, shape_.cols) + shape_.padding; }

  CombineRowsShape shape_;
  int64_t tokens_ = 0;
  std::vector<int32_t> ids_, leaf_begin_;
  std::vector<uint8_t> merges_;
  std::vector<std::vector<float>> weights_;  // [members]
  std::vector<int64_t> routes_;              // [members]
  std::vector<HeldExperts> held_;
};

class PairMaxCase final : public MethodCase<PairMaxArgs> {
 public:
  PairMaxCase(const Method<PairMaxArgs>* method, int ranks, int64_t rows, uint64_t seed)
      : MethodCase(method), rows_(rows), seed_(seed) {
    for (int m = 0; m < ranks; ++m) args_.push_back({.rank = m, .ranks = ranks, .rows = rows});
    peers_.resize(ranks);
  }
  std::string Name() const override {
    return fmt::format("pair_max {} of {} ranks, {} rows", method_->name, members(), rows_);
  }
  int64_t WindowBytes(int) const override { return 192 + 2 * bytes(); }
  void Fill(int member, std::byte* window) const override {
    std::fill_n(window, WindowBytes(member), kFiller);
    Rng rng(seed_ + static_cast<uint64_t>(member));
    auto* const mine = reinterpret_cast<kernels::ValueIndex*>(window + 64);
    for (int64_t row = 0; row < rows_; ++row) {
      // Few values, so that ties between ranks are common; some shards empty, some with NaN.
      mine[row] = {.value = static_cast<float>(rng.Below(3)) - 1,
                   .index = rng.Below(8) == 0 ? -1 : member * 100 + static_cast<int>(rng.Below(5)),
                   .has_nan = rng.Below(20) == 0};
    }
  }
  void See(std::span<std::byte* const> windows) override {
    for (int m = 0; m < members(); ++m) {
      peers_[m] = reinterpret_cast<const kernels::ValueIndex*>(windows[m] + 64);
      args_[m].peers = peers_.data();
      args_[m].out = reinterpret_cast<kernels::ValueIndex*>(windows[m] + ResultOf(m).begin);
    }
  }
  Region ResultOf(int) const override { return {128 + bytes(), bytes()}; }
  std::vector<std::byte> Expected(int member) const override {
    std::vector<std::vector<std::byte>> windows(args_.size());
    std::vector<const kernels::ValueIndex*> peers;
    for (int m = 0; m < members(); ++m) {
      windows[m].resize(WindowBytes(m));
      Fill(m, windows[m].data());
      peers.push_back(reinterpret_cast<const kernels::ValueIndex*>(windows[m].data() + 64));
    }
    std::vector<std::byte> out(bytes());
    PairMaxArgs a = args_[member];
    a.peers = peers.data();
    a.out = reinterpret_cast<kernels::ValueIndex*>(out.data());
    PairMaxRef({&a, 1});
    return out;
  }

 private:
  int64_t bytes() const { return rows_ * static_cast<int64_t>(sizeof(kernels::ValueIndex)); }
  int64_t rows_;
  uint64_t seed_;
  std::vector<const kernels::ValueIndex*> peers_;
};

// [parts + 1] cuts of [0, n), some parts empty.
inline std::vector<int64_t> RandomCuts(int64_t n, int parts, Rng* rng) {
  std::vector<int64_t> cuts{0, n};
  for (int i = 1; i < parts; ++i) cuts.push_back(static_cast<int64_t>(rng->Below(n + 1)));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

// Every collective and method at this many members: odd sizes, uneven rows, members without leaves
// or rows, all alignments. `large` adds what a prefill step exchanges.
inline std::vector<std::unique_ptr<WindowCase>> WindowCases(int members, uint64_t seed,
                                                            bool large) {
  Rng rng(seed);
  std::vector<std::unique_ptr<WindowCase>> out;
  const auto reduce = [&](std::span<const Method<ReduceArgs>* const> methods,
                          const ReduceShape& shape) {
    ReduceCase probe({.ranks = shape.ranks, .leaves = shape.leaves});
    const ReduceArgs a = probe.Args(Collective::kAllReduce)[0];
    for (const auto* method : methods) {
      if (!method->refuse(a).empty()) continue;
      out.push_back(std::make_unique<ReduceWindowCase>(method, shape));
    }
  };
  for (int leaves : {1, 9, 16}) {
    std::vector<std::pair<int64_t, int64_t>> sizes{{0, 64},   {1, 1},   {3, 7},
                                                   {1, 1000}, {5, 200}, {17, 64}};
    if (large) sizes.push_back({131, 1026});
    for (auto [rows, cols] : sizes) {
      ReduceShape shape{.ranks = members,
                        .leaves = leaves,
                        .rows = rows,
                        .cols = cols,
                        .dtype = rng.Below(2) ? DType::kBF16 : DType::kF32,
                        .bias = rng.Below(3) > 0,
                        .offset = static_cast<int>(rng.Below(4)),
                        .seed = rng.Next()};
      reduce(AllReduceMethods(), shape);
      reduce(ReduceScatterMethods(), shape);
      shape.starts = RandomCuts(rows, members, &rng);
      reduce(ReduceScatterMethods(), shape);
    }
  }
  for (int64_t n : {1, 7, 16, 1000, 4097}) {
    for (int dim : {0, 1}) {
      for (bool in_place : {false, true}) {
        if (in_place && dim == 1) continue;
        GatherShape shape{.dim = dim,
                          .starts = RandomCuts(n, members, &rng),
                          .other = n > 100 ? 3 : 40,
                          .dtype = rng.Below(2) ? DType::kBF16 : DType::kF32,
                          .offset = static_cast<int>(rng.Below(4)),
                          .in_place = in_place,
                          .seed = rng.Next()};
        for (const auto* method : AllGatherMethods()) {
          out.push_back(std::make_unique<GatherCase>(method, shape));
        }
      }
    }
  }
  for (int64_t rows : {0, 1, 13, large ? 4001 : 101}) {
    ExchangeShape shape{.rows = rows,
                        .dtype = rng.Below(2) ? DType::kBF16 : DType::kF32,
                        .offset = static_cast<int>(rng.Below(4)),
                        .seed = rng.Next()};
    // Two chunks each, as under FlashComm2 with |otp| = 2: member m takes chunks m and m + members.
    const std::vector<int64_t> cuts = RandomCuts(rows, 2 * members, &rng);
    for (int m = 0; m < members; ++m) {
      shape.cols.push_back(static_cast<int64_t>(rng.Below(60)));
      shape.chunks.push_back({{cuts[m], cuts[m + 1]}, {cuts[m + members], cuts[m + members + 1]}});
    }
    for (const auto* method : AllToAllMethods()) {
      out.push_back(std::make_unique<ExchangeCase>(method, shape));
    }
  }
  for (int64_t rows : {0, 1, 5, large ? 1031 : 67}) {
    for (int top_k : {1, 3}) {
      DispatchShape shape{
          .tokens = RandomCuts(rows, members, &rng),
          .top_k = top_k,
          .bytes = rng.Below(2) ? std::vector<int64_t>{4224} : std::vector<int64_t>{96, 12, 12},
          .padding = static_cast<int64_t>(rng.Below(3)) * 4,
          .seed = rng.Next()};
      for (int64_t cut : RandomCuts(7, members, &rng))
        shape.experts.push_back(static_cast<int32_t>(cut));
      for (const auto* method : DispatchRowsMethods())
        out.push_back(std::make_unique<DispatchCase>(method, shape));
    }
  }
  for (int64_t rows : {0, 1, 5, large ? 1031 : 67}) {
    for (int top_k : {1, 3}) {
      CombineRowsShape shape{.leaves = top_k == 1 ? 1 : 4,
                             .top_k = top_k,
                             .cols = rng.Below(2) ? 2100 : 72,
                             .dtype = rng.Below(2) ? DType::kBF16 : DType::kF32,
                             .padding = static_cast<int64_t>(rng.Below(3)) * 4,
                             .seed = rng.Next()};
      for (int64_t cut : RandomCuts(7, members, &rng))
        shape.experts.push_back(static_cast<int32_t>(cut));
      // Two chunks each, as above.
      const std::vector<int64_t> cuts = RandomCuts(rows, 2 * members, &rng);
      for (int m = 0; m < members; ++m)
        shape.own.push_back({{cuts[m], cuts[m + 1]}, {cuts[m + members], cuts[m + members + 1]}});
      for (const auto* method : CombineRowsMethods())
        out.push_back(std::make_unique<CombineRowsCase>(method, shape));
    }
  }
  for (int64_t rows : {0, 1, 7, 64}) {
    for (const auto* method : PairMaxMethods()) {
      out.push_back(std::make_unique<PairMaxCase>(method, members, rows, rng.Next()));
    }
  }
  return out;
}

}  // namespace weft::comm
