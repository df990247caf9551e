// Runners of ops that read other ranks' windows. Internal to bind.cc. Thread: as runner.h.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "comm/method.h"
#include "exec/runner.h"

namespace weft::exec {

using kernels::Slice;
using plan::Split;

// Exchanges: the method's slice of this worker, and the count of what it took from peers. Where
// every worker does all of it for itself, one of them counts for the rank.
template <typename Args>
class ExchangeRunner : public Runner {
 public:
  // `group`: the ranks that exchange, in order of place.
  ExchangeRunner(const BindContext& c, const comm::Method<Args>* method, Split split,
                 std::span<const int> group)
      : fabric_(c.fabric),
        actor_{c.fabric->AddGroup(group).value(), c.rank, c.worker},
        method_(method),
        each_(split == Split::kEach),
        workers_(c.plan->workers_per_rank) {}
  int group() const override { return actor_.group; }

 protected:
  void RunSlice(const Args& args, int phase) {
    const int64_t units = method_->units(args, phase);
    const Slice slice = each_ ? Slice{0, units} : kernels::SliceOf(units, actor_.worker, workers_);
    const int64_t bytes = method_->run(args, phase, slice);
    fabric_->Count(actor_, method_->kind, phase == 0 && actor_.worker == 0 ? 1 : 0,
                   each_ && actor_.worker != 0 ? 0 : bytes);
  }
  // What stays on the rank is no traffic.
  void RunUncounted(const Args& args, int phase) {
    const int64_t units = method_->units(args, phase);
    method_->run(args, phase,
                 each_ ? Slice{0, units} : kernels::SliceOf(units, actor_.worker, workers_));
  }
  comm::Fabric* fabric_;
  comm::Actor actor_;
  const comm::Method<Args>* method_;
  bool each_;
  int workers_;
};

template <typename Args>
const comm::Method<Args>* MethodNamed(std::span<const comm::Method<Args>* const> list,
                                      std::string_view name) {
  for (const comm::Method<Args>* method : list) {
    if (method->name == name) return method;
  }
  WEFT_CHECK(false, "no method '{}'", name);
  return nullptr;
}

// A reduction with the arrays that its arguments point to.
struct Reduction {
  comm::ReduceArgs args;
  std::vector<float*> roots;
  std::vector<int64_t> strides;
  std::vector<View> ys;         // [members]
  LiveRows in;                  // of the roots, alike on all members
  std::vector<LiveRows> outs;   // [members] of each one's result
  std::vector<int64_t> starts;  // [members + 1] of a reduce-scatter, else empty

  void Point() {
    args.roots = roots.data();
    args.strides = strides.data();
    args.y = ys.data();
    args.starts = starts.empty() ? nullptr : starts.data();
  }
  void SetRows(const Live& live) {
    args.rows = in.Count(live);
    for (size_t m = 0; m < ys.size(); ++m) {
      ys[m].rows = outs[m].Count(live);
      if (!starts.empty()) starts[m + 1] = starts[m] + ys[m].rows;
    }
  }
};

// All-reduce and reduce-scatter: what they read is every root of the group, what they make is `ys`.
class ReduceRunner final : public ExchangeRunner<comm::ReduceArgs> {
 public:
  ReduceRunner(const BindContext& c, const comm::Method<comm::ReduceArgs>* method, Split split,
               std::span<const int> group, Reduction reduction)
      : ExchangeRunner(c, method, split, group), reduction_(std::move(reduction)) {
    reduction_.Point();
  }
  int phases() const override { return method_->phases(reduction_.args); }
  void Run(const Live& live, int phase) override {
    reduction_.SetRows(live);
    RunSlice(reduction_.args, phase);
  }
  void Reads(const Live& live, int phase, int member, comm::ReadVisit visit) override {
    reduction_.SetRows(live);
    comm::ReduceArgs theirs = reduction_.args;
    theirs.rank = member;
    method_->reads(theirs, phase, visit);
  }

 private:
  Reduction reduction_;
};

// One of the arrays that hold a value: plain numbers, or the bytes, scales and sums of quantised
// rows.
struct Plane {
  std::byte* data = nullptr;
  int64_t stride = 0;      // bytes from row to row
  int64_t unit = 1;        // elements of the value ...
  int64_t unit_bytes = 0;  // ... that take this many bytes
};
// A value as it stands on one rank.
struct Held {
  std::vector<Plane> planes;
  LiveRows rows;
  graph::ElementRange columns;
};

// All-gather, all-to-all and slice: this rank takes the rectangles of its result from whoever has
// them.
class MoveRunner final : public ExchangeRunner<comm::MoveArgs> {
 public:
  // `members`: the value that moves, on all ranks of the group; `results`: what becomes of it, on
  // this rank (`place` in the group) or, where somebody asks what others read, on all.
  MoveRunner(const BindContext& c, const comm::Method<comm::MoveArgs>* method, Split split,
             std::span<const int> group, int place, std::vector<Held> members,
             std::vector<Held> results, bool counts)
      : ExchangeRunner(c, method, split, group),
        place_(place),
        members_(std::move(members)),
        results_(std::move(results)),
        counts_(counts) {
    size_t most = 0;
    for (const Held& result : results_) {
      size_t parts = 0;
      for (const Held& m : members_) {
        parts += m.planes.size() * static_cast<size_t>(m.rows.rows.pieces()) *
                 static_cast<size_t>(result.rows.rows.pieces());
      }
      most = std::max(most, parts);
    }
    parts_.resize(most);
  }
  int group() const override { return counts_ ? ExchangeRunner::group() : kNoGroup; }
  void Run(const Live& live, int phase) override {
    const comm::MoveArgs args = ArgsOf(
        live, place_, results_.size() == 1 ? results_[0] : results_[static_cast<size_t>(place_)]);
    if (counts_) {
      RunSlice(args, phase);
    } else {
      RunUncounted(args, phase);
    }
  }
  void Reads(const Live& live, int phase, int member, comm::ReadVisit visit) override {
    method_->reads(ArgsOf(live, member, results_[static_cast<size_t>(member)]), phase, visit);
  }

 private:
  comm::MoveArgs ArgsOf(const Live& live, int place, const Held& result) {
    return {.rank = place, .parts = parts_.data(), .count = Fill(result, result.rows.Total(live))};
  }
  int Fill(const Held& result, int64_t rows) {
    int count = 0;
    for (size_t m = 0; m < members_.size(); ++m) {
      const Held& from = members_[m];
      const int64_t begin = std::max(from.columns.begin, result.columns.begin);
      const int64_t end = std::min(from.columns.end, result.columns.end);
      if (begin >= end) continue;
      int64_t from_row = 0;
      for (int i = 0; i < from.rows.rows.pieces(); ++i) {
        const plan::RowRange x = from.rows.rows.piece(i, rows);
        int64_t to_row = 0;
        for (int j = 0; j < result.rows.rows.pieces(); ++j) {
          const plan::RowRange y = result.rows.rows.piece(j, rows);
          const int64_t first = std::max(x.begin, y.begin), last = std::min(x.end, y.end);
          for (size_t p = 0; first < last && p < from.planes.size(); ++p) {
            const Plane &a = from.planes[p], &b = result.planes[p];
            comm::Part part;
            part.from = static_cast<int32_t>(m);
            part.rows = last - first;
            part.bytes = (end - begin) / a.unit * a.unit_bytes;
            part.data = a.data + (from_row + first - x.begin) * a.stride +
                        (begin - from.columns.begin) / a.unit * a.unit_bytes;
            part.stride = a.stride;
            part.to = b.data + (to_row + first - y.begin) * b.stride +
                      (begin - result.columns.begin) / b.unit * b.unit_bytes;
            part.to_stride = b.stride;
            if (part.data != part.to && part.bytes > 0) parts_[static_cast<size_t>(count++)] = part;
          }
          to_row += y.size();
        }
        from_row += x.size();
      }
    }
    return count;
  }

  int place_;
  std::vector<Held> members_;
  std::vector<Held> results_;
  bool counts_;
  std::vector<comm::Part> parts_;
};

// Rows of tokens that are routed to this rank's experts, out of the windows of those who own the
// tokens.
class DispatchRowsRunner final : public ExchangeRunner<comm::DispatchRowsArgs> {
 public:
  // `args`: all but what is live. `members`: the rows, on all ranks of the group; `experts`: of
  // each of them.
  DispatchRowsRunner(const BindContext& c, const comm::Method<comm::DispatchRowsArgs>* method,
                     Split split, std::span<const int> group, comm::DispatchRowsArgs args,
                     std::vector<Held> members, std::vector<graph::ElementRange> experts,
                     bool other_owner)
      : ExchangeRunner(c, method, split, group),
        args_(args),
        members_(std::move(members)),
        experts_(std::move(experts)),
        other_owner_(other_owner) {
    size_t pieces = 0;
    for (const Held& m : members_) pieces += static_cast<size_t>(m.rows.rows.pieces());
    held_.resize(pieces);
  }
  void Run(const Live& live, int phase) override { RunSlice(ArgsOf(live, args_.rank), phase); }
  void Reads(const Live& live, int phase, int member, comm::ReadVisit visit) override {
    method_->reads(ArgsOf(live, member), phase, visit);
  }

 private:
  comm::DispatchRowsArgs ArgsOf(const Live& live, int member) {
    comm::DispatchRowsArgs args = args_;
    args.rank = member;
    args.tokens = live.tokens;
    args.first = static_cast<int32_t>(experts_[static_cast<size_t>(member)].begin);
    args.count = static_cast<int32_t>(experts_[static_cast<size_t>(member)].size());
    args.held = held_.data();
    for (size_t m = 0; m < members_.size(); ++m) {
      int64_t row = 0;
      for (int i = 0; i < members_[m].rows.rows.pieces(); ++i) {
        const plan::RowRange piece = members_[m].rows.rows.piece(i, live.tokens);
        comm::HeldRows& held = held_[static_cast<size_t>(args.held_count++)];
        held = {.from = static_cast<int32_t>(m), .begin = piece.begin, .end = piece.end};
        for (int p = 0; p < args.planes; ++p) {
          const Plane& plane = members_[m].planes[static_cast<size_t>(p)];
          held.planes[p] = {plane.data + row * plane.stride, plane.stride};
        }
        row += piece.size();
      }
    }
    // ExecFaults::rows_of_another_owner: the neighbour's first row, if it has one.
    for (size_t h = 0; other_owner_ && h + 1 < held_.size(); ++h) {
      if (held_[h + 1].end == held_[h + 1].begin) continue;
      for (int p = 0; p < args.planes; ++p) held_[h].planes[p] = {held_[h + 1].planes[p].data, 0};
    }
    return args;
  }

  comm::DispatchRowsArgs args_;
  std::vector<Held> members_;
  std::vector<graph::ElementRange> experts_;
  const bool other_owner_;
  std::vector<comm::HeldRows> held_;
};

// Rows of this rank's tokens, out of the windows of those who have their experts.
class CombineRowsRunner final : public ExchangeRunner<comm::CombineRowsArgs> {
 public:
  // `args`: all but what is live. `held`, `own`: of all members, by place.
  CombineRowsRunner(const BindContext& c, const comm::Method<comm::CombineRowsArgs>* method,
                    Split split, std::span<const int> group, comm::CombineRowsArgs args,
                    std::vector<comm::HeldExperts> held, std::vector<LiveRows> own,
                    bool other_owner)
      : ExchangeRunner(c, method, split, group),
        args_(args),
        held_(std::move(held)),
        own_(std::move(own)) {
    // ExecFaults::rows_of_another_owner: the neighbour's first row.
    for (size_t m = 0; other_owner && m + 1 < held_.size(); ++m)
      held_[m].rows = {held_[m + 1].rows.data, 0};
    int pieces = 0;
    for (const LiveRows& rows : own_) pieces = std::max(pieces, rows.rows.pieces());
    ranges_.resize(static_cast<size_t>(pieces));
  }
  void Run(const Live& live, int phase) override { RunSlice(ArgsOf(live, args_.rank), phase); }
  void Reads(const Live& live, int phase, int member, comm::ReadVisit visit) override {
    method_->reads(ArgsOf(live, member), phase, visit);
  }

 private:
  comm::CombineRowsArgs ArgsOf(const Live& live, int member) {
    comm::CombineRowsArgs args = args_;
    args.rank = member;
    args.tokens = live.tokens;
    args.held = held_.data();
    args.held_count = static_cast<int>(held_.size());
    const plan::LocalRows& rows = own_[static_cast<size_t>(member)].rows;
    args.own = ranges_.data();
    args.own_count = rows.pieces();
    for (int i = 0; i < rows.pieces(); ++i) {
      const plan::RowRange piece = rows.piece(i, live.tokens);
      ranges_[static_cast<size_t>(i)] = {piece.begin, piece.end};
    }
    return args;
  }

  comm::CombineRowsArgs args_;
  std::vector<comm::HeldExperts> held_;
  std::vector<LiveRows> own_;
  std::vector<comm::TokenRange> ranges_;
};

class PairMaxRunner final : public ExchangeRunner<comm::PairMaxArgs> {
 public:
  PairMaxRunner(const BindContext& c, const std::string& method, Split split,
                std::vector<const kernels::ValueIndex*> peers, kernels::ValueIndex* out)
      : ExchangeRunner(c, MethodNamed(comm::PairMaxMethods(), method), split, c.fabric->GroupOf(0)),
        peers_(std::move(peers)) {
    args_.rank = c.rank;
    args_.ranks = static_cast<int>(peers_.size());
    args_.peers = peers_.data();
    args_.out = out;
  }
  void Run(const Live& live, int phase) override {
    args_.rows = live.head_rows;
    RunSlice(args_, phase);
  }
  void Reads(const Live& live, int phase, int member, comm::ReadVisit visit) override {
    comm::PairMaxArgs theirs = args_;
    theirs.rows = live.head_rows;
    theirs.rank = member;
    method_->reads(theirs, phase, visit);
  }

 private:
  std::vector<const kernels::ValueIndex*> peers_;
  comm::PairMaxArgs args_;
};

}  // namespace weft::exec
