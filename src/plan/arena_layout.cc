#include "plan/arena_layout.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

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
  int begin = 0, end = 0;  // waits, inclusive
  int64_t offset = 0;
};

// Ops whose first output takes over their operand's memory, when nothing reads that afterwards.
int InPlaceOperand(Op op) {
  switch (op) {
    case Op::kRope: case Op::kAddRmsNorm: return 0;
    default: return -1;
  }
}

int64_t BytesOfValue(const Graph& g, ValueId id, int64_t rows, int rank) {
  const Value& v = g.value(id);
  const int64_t width = LocalWidth(g, v, rank);
  if (v.pairs) return rows * 12;
  if (v.int8_rows) return rows * (width + width / 32 * 8);
  return rows * width * FactsOf(v.dtype).block_bytes;
}

}  // namespace

void LayOutArena(Plan& plan) {
  const Graph& g = plan.graph;
  const graph::Uses uses(g);
  const int steps = static_cast<int>(plan.steps.size());
  std::vector<int> epoch(steps), group_epoch_after(steps);
  int now = 0;
  for (int s = 0; s < steps; ++s) {
    if (plan.steps[s].wait != Wait::kNone) ++now;
    epoch[s] = now;
  }
  // The last epoch before the next wait of the group: until then a peer may still be reading.
  int until = std::numeric_limits<int>::max();
  for (int s = steps - 1; s >= 0; --s) {
    group_epoch_after[s] = until;
    if (plan.steps[s].wait == Wait::kGroup) until = epoch[s] - 1;
  }

  std::vector<int> block_of(g.values.size(), -1);
  std::vector<Block> blocks;
  for (int s = 0; s < steps; ++s) {
    const Node& node = g.nodes[plan.steps[s].node];
    const int64_t rows = plan.bucket.rows_max;
    const int operand = InPlaceOperand(node.op);
    std::vector<ValueId> fresh;
    for (size_t i = 0; i < node.out.size(); ++i) {
      const ValueId id = node.out[i];
      if (plan.layouts[id].region == Region::kNone) continue;
      if (operand >= 0 && i == 0) {
        const ValueId from = node.in[operand];
        const bool last = uses.ReadersOf(from).back() == plan.steps[s].node;
        if (last && block_of[from] >= 0 && plan.layouts[from].region == plan.layouts[id].region) {
          // In place: the value stands where its operand stood, in the same group and column.
          plan.layouts[id].group = plan.layouts[from].group;
          std::replace(plan.layouts[id].group.begin(), plan.layouts[id].group.end(), from, id);
          block_of[id] = block_of[from];
          continue;
        }
      }
      fresh.push_back(id);
    }
    // A matmul's outputs stand side by side; any other op's apart.
    const bool together = node.op == Op::kMatmul;
    for (size_t i = 0; i < fresh.size(); i += together ? fresh.size() : 1) {
      Block block{plan.layouts[fresh[i]].region, {}, 0, epoch[s], epoch[s], 0};
      if (together) block.group = fresh; else block.group = {fresh[i]};
      for (int r = 0; r < g.mesh.ranks(); ++r) {
        int64_t bytes = 0;
        for (ValueId id : block.group) {
          int64_t one = BytesOfValue(g, id, rows, r);
          if (node.Has("roots")) {
            const KLeaves leaves = LeavesOf(g, node.in[1], r);
            const int64_t roots = leaves.table == nullptr ? 1 : static_cast<int64_t>(MaximalSubtrees(leaves.table->count(), leaves.range).size());
            one *= std::max<int64_t>(roots, 1);
          }
          bytes += one;
        }
        block.bytes = std::max(block.bytes, bytes);
      }
      block.bytes = (block.bytes + kAlign - 1) / kAlign * kAlign + kAlign;  // kernels may load a tail whole
      for (ValueId id : block.group) {
        block_of[id] = static_cast<int>(blocks.size());
        plan.layouts[id].group = block.group;
      }
      blocks.push_back(std::move(block));
    }
  }
  for (int s = 0; s < steps; ++s) {
    const Node& node = g.nodes[plan.steps[s].node];
    for (const auto& ids : {node.in, node.out}) {
      for (ValueId id : ids) {
        if (block_of[id] < 0) continue;
        Block& block = blocks[block_of[id]];
        block.end = std::max(block.end, epoch[s]);
        if (plan.steps[s].wait == Wait::kGroup) block.end = std::max(block.end, group_epoch_after[s]);
      }
    }
  }
  // What the plan answers is read after its last step.
  for (ValueId id : g.outputs) {
    if (block_of[id] >= 0) blocks[block_of[id]].end = std::numeric_limits<int>::max();
  }

  // Largest first, each at the lowest offset where no living block is.
  std::vector<Block*> order;
  for (Block& b : blocks) order.push_back(&b);
  std::stable_sort(order.begin(), order.end(), [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
  std::vector<Block*> placed;
  for (Block* block : order) {
    std::vector<const Block*> near;
    for (const Block* other : placed) {
      if (other->region == block->region && other->begin <= block->end && block->begin <= other->end) near.push_back(other);
    }
    std::sort(near.begin(), near.end(), [](const Block* a, const Block* b) { return a->offset < b->offset; });
    int64_t offset = 0;
    for (const Block* other : near) {
      if (other->offset >= offset + block->bytes) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    block->offset = offset;
    placed.push_back(block);
    int64_t& total = block->region == Region::kWorker ? plan.worker_arena_bytes : plan.rank_arena_bytes;
    total = std::max(total, offset + block->bytes);
  }
  for (size_t id = 0; id < g.values.size(); ++id) {
    if (block_of[id] >= 0) plan.layouts[id].offset = blocks[block_of[id]].offset;
  }
  if (plan.bucket.kind == Bucket::Kind::kBody) {
    Layout& hidden = plan.layouts[g.outputs[0]];
    hidden.region = Region::kHidden;
    hidden.offset = 0;
    hidden.group = {g.outputs[0]};
  }
}

}  // namespace weft::plan
