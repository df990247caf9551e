#include "plan/arena_layout.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "plan/local_rows.h"

namespace weft::plan {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;
using graph::ValueId;

namespace {

constexpr int64_t kAlign = 256;  // cache lines in pairs, and the widest vector

struct Block {
  Region region;
  std::vector<ValueId> group;
  int64_t bytes = 0;
  int begin = 0, end = 0;  // steps, inclusive
  int64_t offset = 0;
};

// Ops whose first output takes over their operand's memory, when nothing reads that afterwards.
int InPlaceOperand(Op op) {
  switch (op) {
    case Op::kRope:
    case Op::kAddRmsNorm: return 0;
    case Op::kMatmulAllReduceNorm: return 2;
    default: return -1;
  }
}

int64_t BytesOfValue(const Graph& g, ValueId id, int64_t rows_max, int rank) {
  const Value& v = g.value(id);
  if (IsGrouping(v)) return GroupingBytes(g, v, rows_max);
  return RowCapacity(g, id, rows_max) * BytesOfRow(v, LocalWidth(g, v, rank));
}

// Planes that a node makes of a value: one for each root.
int64_t PlanesOf(const Graph& g, const Node& maker, ValueId id, int rank) {
  return MakesRoots(maker, id) ? std::max(1, RootsOf(g, maker, rank)) : 1;
}

class Arena {
 public:
  explicit Arena(Plan& plan)
      : plan_(plan), g_(plan.graph), uses_(plan.graph), block_of_(g_.values.size(), -1) {
    const int steps = static_cast<int>(plan.steps.size());
    until_rank_.resize(steps);
    until_group_.resize(steps);
    // Whoever stands between a post and its wait holds nobody up who is past the wait.
    struct Window {
      int posted, wait, beyond;
    } between{steps, steps, 0};
    for (int s = steps - 1, rank = steps - 1, group = steps - 1; s >= 0; --s) {
      until_rank_[s] = s > between.posted && rank == between.wait - 1 ? between.beyond : rank;
      until_group_[s] = group;
      if (const int posted = plan.steps[s].posted_behind; posted >= 0 && plan.shared_memory)
        between = {posted, s, rank};
      if (plan.steps[s].wait != Wait::kNone) rank = s - 1;
      if (plan.steps[s].wait == Wait::kGroup) group = s - 1;
      // A wait in the middle of a step: somebody may be behind while the step already writes.
      if (MeetsInside(NodeAt(s))) {
        group = s;
        if (plan.steps[s].wait == Wait::kNone) rank = s;
      }
    }
  }

  void MakeBlocks() {
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
      const Node& node = NodeAt(s);
      std::vector<ValueId> fresh;
      for (size_t i = 0; i < node.out.size(); ++i) {
        const ValueId id = node.out[i];
        if (plan_.layouts[id].region == Region::kNone) continue;
        if (i == 0 && TakesOverItsOperand(s)) {
          // The value stands where its operand stood, in the same group and column.
          const ValueId from = node.in[InPlaceOperand(node.op)];
          std::vector<ValueId>& group = plan_.layouts[id].group;
          group = plan_.layouts[from].group;
          std::replace(group.begin(), group.end(), from, id);
          block_of_[id] = block_of_[from];
        } else {
          fresh.push_back(id);
        }
      }
      // A matmul's outputs stand side by side; any other op's apart.
      if (node.op == Op::kMatmul || node.op == Op::kExpertMatmul) {
        MakeBlock(s, fresh);
      } else {
        for (ValueId id : fresh) MakeBlock(s, {id});
      }
    }
  }

  void ExtendLifetimes() {
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
      for (const auto* ids : {&NodeAt(s).in, &NodeAt(s).out}) {
        for (ValueId id : *ids) {
          if (block_of_[id] < 0) continue;
          Block& block = blocks_[block_of_[id]];
          block.end = std::max(block.end, TouchedUntil(block.region, s, id));
        }
      }
    }
    // What the plan answers is read after its last step.
    for (ValueId id : g_.outputs) {
      if (block_of_[id] >= 0) blocks_[block_of_[id]].end = std::numeric_limits<int>::max();
    }
  }

  // Largest first, each at the lowest offset where no living block is.
  void Place() {
    std::vector<Block*> order;
    for (Block& b : blocks_) order.push_back(&b);
    std::stable_sort(order.begin(), order.end(),
                     [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
    std::vector<const Block*> placed, near;
    for (Block* block : order) {
      near.clear();
      for (const Block* other : placed) {
        const bool meet = other->begin <= block->end && block->begin <= other->end;
        if (meet && other->region == block->region) near.push_back(other);
      }
      std::sort(near.begin(), near.end(),
                [](const Block* a, const Block* b) { return a->offset < b->offset; });
      for (const Block* other : near) {
        if (other->offset >= block->offset + block->bytes) break;
        block->offset = std::max(block->offset, other->offset + other->bytes);
      }
      placed.push_back(block);
      const bool own = block->region == Region::kWorker;
      int64_t& total = own ? plan_.worker_arena_bytes : plan_.rank_arena_bytes;
      total = std::max(total, block->offset + block->bytes);
    }
    for (size_t id = 0; id < g_.values.size(); ++id) {
      if (block_of_[id] >= 0) plan_.layouts[id].offset = blocks_[block_of_[id]].offset;
    }
  }

 private:
  const Node& NodeAt(int s) const { return g_.nodes[plan_.steps[s].node]; }

  // The last step at which somebody may be reading or writing memory that step `s` touches: a
  // worker who is behind, until the next wait of the rank; a peer, until the next wait of the
  // group.
  int TouchedUntil(Region region, int s, ValueId id) const {
    const bool alone = region == Region::kWorker || plan_.workers_per_rank == 1;
    const bool exchange = GroupSizeOf(g_, NodeAt(s)) > 1 && !IsFused(NodeAt(s).op);
    const bool peers = exchange || PeersReadInside(plan_.steps[s], NodeAt(s), id);
    return std::max(alone ? s : until_rank_[s], peers ? until_group_[s] : s);
  }

  bool TakesOverItsOperand(int s) const {
    const Node& node = NodeAt(s);
    const int operand = InPlaceOperand(node.op);
    if (operand < 0) return false;
    const ValueId from = node.in[operand];
    const Region region = plan_.layouts[from].region;
    if (block_of_[from] < 0 || region != plan_.layouts[node.out[0]].region) return false;
    if (std::count(g_.outputs.begin(), g_.outputs.end(), from) > 0) return false;
    // Whoever made it or read it before must be done, or be this very worker; a reader who comes
    // later needs it whole.
    const Step& step = plan_.steps[s];
    const auto done = [&](int at) {
      const Step& other = plan_.steps[at];
      const bool self = step.split == Split::kHeads && other.split == Split::kHeads &&
                        other.heads_of == step.heads_of;
      return at <= s && (self || TouchedUntil(region, at, from) < s);
    };
    const auto readers = uses_.ReadersOf(from);
    return done(uses_.ProducerOf(from)) && std::all_of(readers.begin(), readers.end(), [&](int r) {
             return r == plan_.steps[s].node || done(r);
           });
  }

  void MakeBlock(int s, std::vector<ValueId> group) {
    Block block{plan_.layouts[group[0]].region, std::move(group), 0, s, s, 0};
    for (int r = 0; r < g_.mesh.ranks(); ++r) {
      int64_t bytes = 0;
      for (ValueId id : block.group) {
        bytes += BytesOfValue(g_, id, plan_.bucket.rows_max, r) * PlanesOf(g_, NodeAt(s), id, r);
      }
      block.bytes = std::max(block.bytes, bytes);
    }
    // Rounded up, and then one more: kernels may load a tail whole.
    block.bytes = (block.bytes + kAlign - 1) / kAlign * kAlign + kAlign;
    for (ValueId id : block.group) {
      block_of_[id] = static_cast<int>(blocks_.size());
      plan_.layouts[id].group = block.group;
    }
    blocks_.push_back(std::move(block));
  }

  Plan& plan_;
  const Graph& g_;
  graph::Uses uses_;
  std::vector<int> block_of_;  // by value, -1: it has none
  std::vector<Block> blocks_;
  // By step: the last one before the next wait of the rank, or of the group.
  std::vector<int> until_rank_, until_group_;
};

}  // namespace

void LayOutArena(Plan& plan) {
  Arena arena(plan);
  arena.MakeBlocks();
  arena.ExtendLifetimes();
  arena.Place();
  if (plan.bucket.kind == Bucket::Kind::kBody) {
    const ValueId hidden = plan.graph.outputs[0];
    plan.layouts[hidden] = {Region::kHidden, 0, {hidden}};
  }
}

}  // namespace weft::plan
