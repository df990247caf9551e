// A model as a list of typed, placed values. Written by models/, rewritten by passes, checked by
// the verifier, frozen by plan. Knows neither ranks nor kernels.
//
// Thread: none; a Graph is a plain value. Invariant: nodes are in topological order, every value
// has one producer (a node, or none for inputs and params).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/op.h"
#include "graph/placement.h"
#include "tensor/dtype.h"

namespace weft::graph {

enum class Sym : uint8_t { kConst, kTokens, kHeadRows, kRoutes };

// One dimension: live token rows "T", head rows "R", routes "T*k" (each token's k experts; a rank
// has those to the experts that it owns of `table`, so how many is known only when a step runs), or
// a constant, which a leaf table may cut.
struct Dim {
  Sym sym = Sym::kConst;
  int64_t n = 0;
  int table = -1;
  static Dim T() { return {Sym::kTokens, 0, -1}; }
  static Dim HeadRows() { return {Sym::kHeadRows, 0, -1}; }
  static Dim Routes(int64_t per_token, int experts) { return {Sym::kRoutes, per_token, experts}; }
  static Dim C(int64_t n, int table = -1) { return {Sym::kConst, n, table}; }
  friend bool operator==(const Dim&, const Dim&) = default;
};

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

enum class ValueKind : uint8_t {
  kTemp,   // made by a node
  kInput,  // live data of a step: ids, positions, slots, segments, rows, hidden
  kParam,  // a weight of the checkpoint
  kState,  // a versioned effect: a layer's kv cache, convolution window or recurrent state
};

struct Value {
  std::string name;
  ValueKind kind = ValueKind::kTemp;
  DType dtype = DType::kBF16;
  bool int8_rows = false;  // quantised activations: int8 with scales and sums per 32
  bool pairs = false;      // (value, index) pairs of an argmax
  std::vector<Dim> dims;
  Placements on;  // empty until the graph is placed
};

using AttrValue = std::variant<int64_t, double, std::string>;
struct Attr {
  std::string key;
  AttrValue value;
  friend bool operator==(const Attr&, const Attr&) = default;
};

struct Node {
  Op op = Op::kCount;
  std::vector<ValueId> in;
  std::vector<ValueId> out;
  std::vector<Attr> attrs;
  std::string layer;  // who asked: "L03.attn"

  // REQUIRES for Int/Real/Text: the attribute exists with that type.
  bool Has(std::string_view key) const;
  int64_t Int(std::string_view key) const;
  double Real(std::string_view key) const;
  const std::string& Text(std::string_view key) const;
  int64_t IntOr(std::string_view key, int64_t otherwise) const;
  void Set(std::string_view key, AttrValue value);
};

// The role of each input of ops whose inputs vary in number is told by attrs: a matmul with
// "weights"=n has in = [x, w_0..w_{n-1}, biases...] and "biases" as a bit mask over the weights.
struct Graph {
  std::string model;
  Mesh mesh;
  std::vector<AxisTable> tables;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> outputs;

  const Value& value(ValueId id) const { return values[id]; }
  Value& value(ValueId id) { return values[id]; }
  // The value with this name, or kNoValue.
  ValueId Find(std::string_view name) const;
  // The node that makes `id`, or -1. A walk over all nodes: who asks for many takes Uses.
  int ProducerOf(ValueId id) const;
  bool placed() const { return !mesh.axes.empty(); }
};

// Who makes and who reads each value, found in one walk. It tells of the graph as it was then: a
// rewrite that moves nodes makes it stale.
class Uses {
 public:
  explicit Uses(const Graph& graph);
  // The node that makes `id` (the last one, in a graph that breaks the law of one), or -1.
  int ProducerOf(ValueId id) const { return producer_[id]; }
  // Nodes that read `id`, in order; one that reads it twice is told once.
  std::span<const int> ReadersOf(ValueId id) const {
    return {readers_.data() + begin_[id], readers_.data() + begin_[id + 1]};
  }

 private:
  std::vector<int> producer_;  // by value
  std::vector<int> begin_;     // by value, into readers_
  std::vector<int> readers_;
};

// What a rank holds of one dimension of a value: of an axis of features its elements, and their
// leaves if it has a leaf table (all of either if the placement does not cut it). REQUIRES: a
// contiguous cut.
ElementRange ElementsOf(const Graph& graph, const Value& value, int dim, int rank);
LeafRange LeavesOf(const Graph& graph, const Value& value, int dim, int rank);
// Bytes of `width` elements of a row, as they lie in memory and cross between ranks: a pair takes
// 12, quantised rows have a scale and a sum per 32 elements of one byte.
int64_t BytesOfRow(const Value& value, int64_t width);
// The ranks that an exchange is among, seen from `rank`, in order of place; only itself for other
// ops.
std::vector<int> GroupOf(const Graph& graph, const Node& node, int rank);
// Ranks in such a group.
int GroupSizeOf(const Graph& graph, const Node& node);

// The chain that a fused node stands for, as nodes over its values: whatever asks what a fused node
// computes, costs or needs asks its chain. An exchange on all axes of the mesh. REQUIRES:
// IsFused(node.op).
struct FusedChain {
  Node matmul;    // x, w -> roots
  Node exchange;  // roots, bias -> y
  Node norm;      // add_rms_norm: r, y, gain -> r', normed; op kCount of a reduce-scatter
};
FusedChain ChainOf(const Node& fused);
// The fused node of a chain: of whatever its nodes say, and placed nowhere yet. No norm: nullptr.
Node FuseChain(const Node& matmul, const Node& exchange, const Node* norm);
// The node makes `id` as fp32 roots of a leaf tree, one plane for each.
bool MakesRoots(const Node& node, ValueId id);
// Whose operand 0 is a version of a state and whose last result is the next one.
inline bool WritesState(Op op) { return FactsOf(op).effect && !IsIntention(op); }
// The grouping of routes by expert that group_routes makes: no rows of numbers, but who goes where.
inline bool IsGrouping(const Value& v) {
  return v.dims.size() == 1 && v.dims[0].sym == Sym::kRoutes;
}

// Views of a matmul's inputs by role; of an expert_matmul too.
struct MatmulOperands {
  ValueId x = kNoValue;
  std::vector<ValueId> weights;
  std::vector<ValueId> biases;  // per weight, kNoValue where there is none
};
MatmulOperands OperandsOf(const Node& matmul);

// Text form: one value or node a line; Parse(Print(g)) == g (graph/text.cc).
std::string Print(const Graph& graph);

}  // namespace weft::graph
