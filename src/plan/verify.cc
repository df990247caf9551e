#include "plan/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "plan/local_rows.h"

namespace weft::plan {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;
using graph::ValueId;

namespace {

class Checker {
 public:
  explicit Checker(const Plan& plan) : p_(plan), g_(plan.graph), uses_(plan.graph) {}

  Status Check(Law law) const {
    if (law == Law::kOrder) return Order();
    // The other laws speak of steps and values by their numbers.
    if (p_.steps.size() != g_.nodes.size() || p_.layouts.size() != g_.values.size()) return Order();
    switch (law) {
      case Law::kWaits: return Waits();
      case Law::kMemory: return Memory();
      case Law::kRegions: return Regions();
      case Law::kPosts: return Posts();
      case Law::kFetches: return Fetches();
      default: return Bounds();
    }
  }

 private:
  static constexpr ValueId kNoId = graph::kNoValue;

  Status Broken(std::string_view law, size_t step, ValueId id, std::string_view why) const {
    return Status::Internal("{}: step {} {} at {}: value '{}': {}", law, step,
                            NameOf(g_.nodes[step].op), g_.nodes[step].layer,
                            id == kNoId ? "-" : g_.value(id).name, why);
  }
  // Peers read its operands.
  bool Crosses(size_t step) const {
    return GroupSizeOf(g_, g_.nodes[step]) > 1 && !IsFused(g_.nodes[step].op);
  }

  Status Order() const {
    if (p_.steps.size() != g_.nodes.size() || p_.layouts.size() != g_.values.size()) {
      return Status::Internal("P1: {} steps of {} nodes, {} layouts of {} values", p_.steps.size(),
                              g_.nodes.size(), p_.layouts.size(), g_.values.size());
    }
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      if (p_.steps[s].node != static_cast<int>(s)) {
        return Broken("P1", s, kNoId, "it runs another node");
      }
      if (p_.steps[s].split == Split::kHeads && SharedOut(s) == nullptr) {
        return Broken("P1", s, kNoId, "its heads are no attention's or recurrence's");
      }
    }
    return Status::Ok();
  }

  // The attention or recurrence whose heads are shared out, or nullptr.
  const Node* SharedOut(size_t step) const {
    const int heads_of = p_.steps[step].heads_of;
    if (heads_of < 0 || heads_of >= static_cast<int>(g_.nodes.size())) return nullptr;
    const Node& node = g_.nodes[static_cast<size_t>(heads_of)];
    return node.op == Op::kAttention || node.op == Op::kGatedDelta ? &node : nullptr;
  }

  // A worker does the same heads in both steps.
  bool SameHands(size_t a, size_t b) const {
    return p_.steps[a].split == Split::kHeads && p_.steps[b].split == Split::kHeads &&
           p_.steps[a].heads_of == p_.steps[b].heads_of;
  }

  // Each head of the step's outputs is made of the same head of what it reads.
  bool WorksOnHeads(size_t step) const {
    const Node* attention = SharedOut(step);
    if (attention == nullptr) return true;  // P1 speaks of that
    const Node& node = g_.nodes[step];
    if (attention->op == Op::kGatedDelta) return WorksOnKeys(*attention, node);
    const char* width = node.op == Op::kRmsNorm ? "width" : "head_dim";
    if (!node.Has(width) || node.Int(width) != attention->Int("head_dim")) return false;
    const auto table = [&](ValueId id) { return g_.value(id).dims[1].table; };
    return table(node.out[0]) == table(attention->in[0]) ||
           table(node.out[0]) == table(attention->in[1]);
  }

  // The same of a recurrence: a key head, and the value heads side by side that read it.
  bool WorksOnKeys(const Node& delta, const Node& node) const {
    if (delta.Has("tiled")) return false;
    const auto table = [&](ValueId id) { return g_.value(id).dims[1].table; };
    const bool values = table(node.out[0]) == table(delta.in[3]),
               keys = table(node.out[0]) == table(delta.in[2]);
    if (node.op == Op::kGatedRmsNorm) return values && node.Int("width") == delta.Int("value_dim");
    return &node == &delta || (node.op == Op::kCausalConv && (values || keys));
  }

  // A step after `maker` and up to `step` begins with a wait that reaches as far as `kind` and was
  // posted behind `maker`, or one before `step` waits for everybody while it runs. At the end of a
  // transfer a rank's workers meet.
  bool WaitsBetween(size_t maker, size_t step, Wait kind) const {
    for (size_t s = maker + 1; s <= step; ++s) {
      if (s < step && MeetsInside(g_.nodes[s])) return true;
      const int posted = p_.steps[s].posted_behind;
      const bool covers = posted < 0 || static_cast<size_t>(posted) >= maker ||
                          (kind == Wait::kRank && !p_.shared_memory);
      if ((p_.steps[s].wait == Wait::kGroup && covers) ||
          (p_.steps[s].wait == Wait::kRank && kind == Wait::kRank)) {
        return true;
      }
    }
    return false;
  }

  Status Posts() const {
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      const int posted = p_.steps[s].posted_behind;
      if (posted < 0) continue;
      if (p_.steps[s].wait != Wait::kGroup || MeetsInside(g_.nodes[s]) ||
          posted + 1 >= static_cast<int>(s)) {
        return Broken("P6", s, g_.nodes[s].in[0], "nothing of it is under way before it waits");
      }
      for (size_t between = static_cast<size_t>(posted) + 1; between < s; ++between) {
        if (p_.steps[between].wait == Wait::kGroup || GroupSizeOf(g_, g_.nodes[between]) > 1) {
          return Broken("P6", s, g_.nodes[s].in[0],
                        fmt::format("it is under way while step {} meets peers", between));
        }
      }
      if (GroupSizeOf(g_, g_.nodes[s]) <= 1)
        return Broken("P6", s, g_.nodes[s].in[0], "it is no exchange");
    }
    return Status::Ok();
  }

  Status Fetches() const {
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      const int of = p_.steps[s].fetches;
      if (of < 0) continue;
      if (of < static_cast<int>(s) || of >= static_cast<int>(p_.steps.size()) ||
          g_.nodes[static_cast<size_t>(of)].op != Op::kMatmul) {
        return Broken("P7", s, g_.nodes[s].out[0],
                      fmt::format("step {} is no product of weights that is still to come", of));
      }
    }
    return Status::Ok();
  }

  Status Waits() const {
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      if (p_.steps[s].split == Split::kHeads && !WorksOnHeads(s)) {
        return Broken("P2", s, g_.nodes[s].out[0], "it reaches over the heads of one worker");
      }
      for (ValueId id : g_.nodes[s].in) {
        const int maker = uses_.ProducerOf(id);
        if (maker < 0) continue;
        // Of an exchange peers hold the first operand; others are the rank's own.
        if (Crosses(s) && id == g_.nodes[s].in[0] && !WaitsBetween(maker, s, Wait::kGroup)) {
          return Broken("P2", s, id, "a peer's part is not waited for");
        }
        const bool own = p_.workers_per_rank == 1 || p_.steps[maker].split == Split::kEach ||
                         SameHands(maker, s);
        if (!own && !WaitsBetween(maker, s, Wait::kRank)) {
          return Broken("P2", s, id, "the other workers' parts are not waited for");
        }
      }
    }
    return Status::Ok();
  }

  Status Regions() const {
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      const bool each = p_.steps[s].split == Split::kEach;
      for (ValueId id : g_.nodes[s].out) {
        const Region region = p_.layouts[id].region;
        if (g_.value(id).kind != graph::ValueKind::kTemp) {
          if (region != Region::kNone) return Broken("P4", s, id, "a state is bound by name");
          continue;
        }
        const bool own = each && !(IsFused(g_.nodes[s].op) && MakesRoots(g_.nodes[s], id));
        if (own != (region == Region::kWorker)) {
          return Broken("P4", s, id,
                        "what every worker makes is its own, what they share is the rank's");
        }
      }
      if (GroupSizeOf(g_, g_.nodes[s]) > 1 && p_.steps[s].phases > 1 && each) {
        return Broken("P4", s, g_.nodes[s].out[0], "a peer cannot read what one worker keeps");
      }
      if (Crosses(s) && p_.layouts[g_.nodes[s].in[0]].region != Region::kRank) {
        return Broken("P4", s, g_.nodes[s].in[0], "a peer cannot read it");
      }
    }
    return Status::Ok();
  }

  // Bytes of the values that stand side by side, on the rank that has most of them.
  int64_t BytesOf(const std::vector<ValueId>& group) const {
    int64_t most = 0;
    for (int r = 0; r < g_.mesh.ranks(); ++r) {
      int64_t bytes = 0;
      for (ValueId id : group) {
        const Value& v = g_.value(id);
        if (IsGrouping(v)) {
          bytes += GroupingBytes(g_, v, p_.bucket.rows_max);
          continue;
        }
        int64_t row = BytesOfRow(v, LocalWidth(g_, v, r));
        const int maker = uses_.ProducerOf(id);
        if (maker >= 0 && MakesRoots(g_.nodes[maker], id)) {
          row *= std::max(1, RootsOf(g_, g_.nodes[maker], r));
        }
        bytes += row * RowCapacity(g_, id, p_.bucket.rows_max);
      }
      most = std::max(most, bytes);
    }
    return most;
  }

  // Memory that is made once and handed on: a matmul's outputs side by side, and what stands in
  // place of one of them because its maker was the last to read it.
  struct Buffer {
    ValueId first;
    Region region;
    int64_t begin, end;  // bytes
    size_t from, to;     // steps: until nobody can still be reading it
  };

  // The later phases of an exchange read what its first phase made, on every rank.
  bool PeersReadWhatItMade(ValueId id) const {
    const int maker = uses_.ProducerOf(id);
    if (maker < 0) return false;
    const Step& step = p_.steps[maker];
    return (Crosses(static_cast<size_t>(maker)) && step.phases > 1) ||
           PeersReadInside(step, g_.nodes[maker], id);
  }

  // What is read at `step` may be read by somebody until the next wait that reaches him: peers if
  // the step is an exchange, else the rank's workers, else nobody.
  size_t ReadUntil(ValueId id, size_t step, bool peers) const {
    size_t last = step;
    const bool alone = p_.layouts[id].region == Region::kWorker || p_.workers_per_rank == 1;
    if (alone && !peers) return last;
    const Wait reach = peers ? Wait::kGroup : Wait::kRank;
    while (last + 1 < p_.steps.size() && !WaitsBetween(step, last + 1, reach)) ++last;
    return last;
  }

  // The last step at which somebody may still be reading `id`.
  size_t AliveUntil(ValueId id, size_t made) const {
    if (std::count(g_.outputs.begin(), g_.outputs.end(), id) > 0) return p_.steps.size();
    size_t last = ReadUntil(id, made, PeersReadWhatItMade(id));
    for (int reader : uses_.ReadersOf(id)) {
      last = std::max(last, ReadUntil(id, static_cast<size_t>(reader), Crosses(reader)));
    }
    return last;
  }

  static ValueId OperandInPlace(const Node& node) {
    return node.in[node.op == Op::kMatmulAllReduceNorm ? 2 : 0];
  }

  // The step writes over its operand, element by element, when nobody else may be reading that.
  bool InPlace(size_t step, ValueId id) const {
    const Node& node = g_.nodes[step];
    const bool fused = node.op == Op::kMatmulAllReduceNorm;
    if ((node.op != Op::kRope && node.op != Op::kAddRmsNorm && !fused) || node.out[0] != id)
      return false;
    const ValueId from = OperandInPlace(node);
    const Layout &l = p_.layouts[id], &was = p_.layouts[from];
    const int maker = uses_.ProducerOf(from);
    if (maker < 0 || l.region != was.region || l.offset != was.offset) return false;
    if (std::count(g_.outputs.begin(), g_.outputs.end(), from) > 0) return false;
    std::vector<ValueId> group = was.group;
    std::replace(group.begin(), group.end(), from, id);
    if (l.group != group) return false;
    if (!SameHands(maker, step) && ReadUntil(from, maker, PeersReadWhatItMade(from)) >= step) {
      return false;
    }
    const auto readers = uses_.ReadersOf(from);
    return std::all_of(readers.begin(), readers.end(), [&](int reader) {
      const auto at = static_cast<size_t>(reader);
      return at == step || (at < step && SameHands(at, step)) ||
             ReadUntil(from, at, Crosses(at)) < step;
    });
  }

  bool HasMemory(ValueId id) const {
    const Region region = p_.layouts[id].region;
    return region == Region::kRank || region == Region::kWorker;
  }

  Status Bounds() const {
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      for (ValueId id : g_.nodes[s].out) {
        if (!HasMemory(id)) continue;
        const Layout& l = p_.layouts[id];
        const int64_t arena =
            l.region == Region::kRank ? p_.rank_arena_bytes : p_.worker_arena_bytes;
        if (l.offset < 0 || l.offset + BytesOf(l.group) > arena) {
          return Broken("P5", s, id, "it ends outside its arena");
        }
      }
    }
    return Status::Ok();
  }

  Status Memory() const {
    std::vector<Buffer> buffers;
    std::vector<int> buffer_of(g_.values.size(), -1);
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      for (ValueId id : g_.nodes[s].out) {
        if (!HasMemory(id)) continue;
        const Layout& l = p_.layouts[id];
        if (std::count(l.group.begin(), l.group.end(), id) != 1) {
          return Broken("P3", s, id, "it is no column of its own buffer");
        }
        const size_t to = AliveUntil(id, s);
        int& buffer = buffer_of[id];
        if (InPlace(s, id)) {
          buffer = buffer_of[OperandInPlace(g_.nodes[s])];
        } else if (const ValueId side = g_.nodes[s].out[0]; side != id &&
                                                            p_.layouts[side].group == l.group &&
                                                            p_.layouts[side].offset == l.offset) {
          buffer = buffer_of[side];
        }
        if (buffer >= 0) {
          buffers[buffer].to = std::max(buffers[buffer].to, to);
        } else {
          buffer = static_cast<int>(buffers.size());
          buffers.push_back({id, l.region, l.offset, l.offset + BytesOf(l.group), s, to});
        }
      }
    }
    for (size_t b = 0; b < buffers.size(); ++b) {
      for (size_t a = 0; a < b; ++a) {
        const Buffer &x = buffers[a], &y = buffers[b];
        if (x.region != y.region || x.end <= y.begin || y.end <= x.begin || x.to < y.from) continue;
        return Broken(
            "P3", y.from, y.first,
            fmt::format("it lies on '{}', which may still be read", g_.value(x.first).name));
      }
    }
    return Status::Ok();
  }

  const Plan& p_;
  const Graph& g_;
  graph::Uses uses_;
};

}  // namespace

Status VerifyLaw(const Plan& plan, Law law) { return Checker(plan).Check(law); }

Status VerifyPlan(const Plan& plan) {
  const Checker checker(plan);
  for (Law law : kLaws) WEFT_RETURN_IF_ERROR(checker.Check(law));
  return Status::Ok();
}

}  // namespace weft::plan
