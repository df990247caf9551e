// The language in which a model file speaks: values and words of intention. It names neither ranks
// nor collectives; the placement of everything follows later, by law.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace weft::graph {

class Builder {
 public:
  // model_dtype: float32 or bfloat16 (docs/numerics.md 3).
  Builder(std::string model, DType model_dtype);

  // Names the layer that the next nodes belong to: "L03.attn".
  void Layer(std::string name) { layer_ = std::move(name); }
  DType model_dtype() const { return model_dtype_; }

  int Table(std::string name, LeafTable leaves);
  // A table by which sums go as ever, though its axis stays whole wherever the model runs.
  int WholeTable(std::string name, LeafTable leaves);
  // A table whose leaves (`width` elements each) serve `follow_width` elements of `follows` each.
  int FollowingTable(std::string name, int64_t n, int64_t width, int follows, int64_t follow_width);

  ValueId Input(std::string name, DType dtype, std::vector<Dim> dims);
  ValueId State(std::string name, std::vector<Dim> dims, std::optional<DType> dtype = std::nullopt);
  // name: as in the checkpoint (Hugging Face spelling); dims [N, K] or [N].
  ValueId Param(std::string name, DType dtype, std::vector<Dim> dims);

  ValueId Embedding(ValueId ids, ValueId table);
  // Several weights over one input are one node: y_i = x w_i^T + b_i, in the model dtype unless
  // told otherwise.
  std::vector<ValueId> ColumnLinear(ValueId x, std::vector<ValueId> weights,
                                    std::vector<ValueId> biases, std::vector<std::string> names,
                                    std::optional<DType> dtype = std::nullopt);
  ValueId RowLinear(ValueId x, ValueId weight, ValueId bias, std::string name);
  ValueId LmHead(ValueId x, ValueId weight);
  // groups > 1: a norm per head. The row statistic's leaves are LeafTable::Make(width, leaf_atom).
  ValueId RmsNorm(ValueId x, ValueId gain, double eps, int64_t groups, int64_t leaf_atom,
                  std::string name);
  ValueId Add(ValueId a, ValueId b, std::string name);
  ValueId Rope(ValueId x, ValueId positions, int64_t head_dim, int64_t rot, std::string name);
  struct AttentionArgs {
    ValueId q, k, v, kv, slots, segments;
    int64_t head_dim, group;  // group: query heads per kv head
    double scale;
  };
  // Returns (output, kv').
  std::pair<ValueId, ValueId> SelfAttention(const AttentionArgs& args);
  ValueId SwiGlu(ValueId gate, ValueId up);
  // x * sigmoid(gate), by element or (gate [T,1] float32) by row.
  ValueId SigmoidMul(ValueId x, ValueId gate, std::string name);
  ValueId GateRows(ValueId x, ValueId gate, std::string name);
  // [T,A], [T,B] -> [T,A+B].
  ValueId Concat(ValueId a, ValueId b, std::string name);
  struct ExpertArgs {
    ValueId x, logits;              // [T,H], [T,E] float32
    ValueId gate, up, down;         // [E,I,H], [E,I,H], [E,H,I]; E has a leaf table
    ValueId correction = kNoValue;  // [E], added to the scores that are compared
    int64_t top_k = 1;
    bool sigmoid = false;      // scores; else softmax over all experts
    bool renormalise = false;  // the weights of the chosen ones sum up to 1
    double scale = 1;
    int64_t groups = 1, groups_kept = 1;  // experts are chosen from the best groups only
  };
  ValueId Experts(const ExpertArgs& args);
  // Depthwise convolution over the last w.dims[1] tokens, then silu. `conv` [taps-1,C]: the state.
  ValueId CausalConv(ValueId conv, ValueId x, ValueId w, ValueId segments, std::string name);
  struct DeltaArgs {
    ValueId state;          // [Dk, Hv*Dv] float32
    ValueId q, k, v, a, b;  // [T,Hk*Dk] twice, [T,Hv*Dv], [T,Hv] twice
    ValueId neg_exp_a, dt_bias, segments;
    int64_t key_dim, value_dim;
    bool tiled =
        false;  // value head h has key head h % Hk, and q and k are whole; else h / (Hv / Hk)
  };
  ValueId GatedDelta(const DeltaArgs& args);
  // rms_norm(x) per head times act(z); `sigmoid`: the gate's activation, else silu.
  ValueId GatedRmsNorm(ValueId x, ValueId z, ValueId gain, double eps, int64_t groups,
                       int64_t leaf_atom, bool sigmoid, std::string name);
  ValueId GatherRows(ValueId x, ValueId rows);
  ValueId Argmax(ValueId logits);
  ValueId Sample(ValueId logits);
  ValueId HashLogits(ValueId logits);

  Graph Finish(std::vector<ValueId> outputs);

 private:
  ValueId Temp(std::string name, DType dtype, std::vector<Dim> dims);
  ValueId NextVersion(ValueId state);
  Node& Emit(Op op, std::vector<ValueId> in, std::vector<ValueId> out);
  const Value& at(ValueId id) const { return graph_.values[id]; }

  Graph graph_;
  DType model_dtype_;
  std::string layer_;
  std::unordered_map<std::string, ValueId> params_;
};

// Turns every word of intention into primitive ops; the fixed step before any pass.
struct ExpandOptions {
  bool int8_activations = true;  // --activation-dtype int8: inputs of quantised weights
};
Graph Expand(const Graph& graph, const ExpandOptions& options);

}  // namespace weft::graph
