// An op of a graph, on a rank, as the arguments of its kernel family without any memory: what a
// target asks kernels about and what bind.cc then fills with pointers. One place says how a graph's
// words become a kernel's numbers.
#pragma once

#include <string>
#include <string_view>

#include "comm/method.h"
#include "graph/graph.h"
#include "kernels/activation/sigmoid_mul.h"
#include "kernels/activation/silu_mul.h"
#include "kernels/attention/attention.h"
#include "kernels/copy/concat.h"
#include "kernels/copy/gather_rows.h"
#include "kernels/embed/embed.h"
#include "kernels/gdn/causal_conv.h"
#include "kernels/gdn/gated_delta.h"
#include "kernels/matmul/matmul.h"
#include "kernels/moe/combine.h"
#include "kernels/moe/group_routes.h"
#include "kernels/moe/grouped_matmul.h"
#include "kernels/moe/route.h"
#include "kernels/quant/quantised_rows.h"
#include "kernels/reduce/finish.h"
#include "kernels/rms_norm/gated_rms_norm.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/sample/argmax.h"
#include "kernels/sample/sample.h"

namespace weft::exec {

// The value whose rows a step walks.
graph::ValueId RowsOfStep(const graph::Node& node);

// A value's rows on a rank, without memory.
View ShapeOf(const graph::Graph& g, graph::ValueId id, int64_t rows, int rank);

kernels::MatmulArgs MatmulShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                int rank);
kernels::QuantiseRowsArgs QuantiseShape(const graph::Graph& g, const graph::Node& node,
                                        int64_t rows, int rank);
kernels::EmbedArgs EmbedShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                              int rank);
kernels::FinishArgs FinishShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                int rank);
kernels::RmsNormArgs RmsNormShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                  int rank);
kernels::AddArgs AddShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::RopeArgs RopeShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::KvWriteArgs KvWriteShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                  int rank);
kernels::AttentionArgs AttentionShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                      int rank);
kernels::SiluMulArgs SiluMulShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                  int rank);
kernels::SigmoidMulArgs SigmoidMulShape(const graph::Graph& g, const graph::Node& node,
                                        int64_t rows, int rank);
kernels::GatedRmsNormArgs GatedRmsNormShape(const graph::Graph& g, const graph::Node& node,
                                            int64_t rows, int rank);
kernels::CausalConvArgs CausalConvShape(const graph::Graph& g, const graph::Node& node,
                                        int64_t rows, int rank);
kernels::GatedDeltaArgs GatedDeltaShape(const graph::Graph& g, const graph::Node& node,
                                        int64_t rows, int rank);
kernels::RouteArgs RouteShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                              int rank);
kernels::GroupRoutesArgs GroupRoutesShape(const graph::Graph& g, const graph::Node& node,
                                          int64_t rows, int rank);
// What the product of every expert has, for `rows` routes.
kernels::MatmulArgs ExpertMatmulShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                      int rank);
kernels::CombineArgs CombineShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                  int rank);
// Of the owner of tokens, who has the whole tree over experts.
kernels::CombineArgs CombineRowsShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                      int rank);
kernels::ConcatArgs ConcatShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                int rank);
kernels::GatherRowsArgs GatherRowsShape(const graph::Graph& g, const graph::Node& node,
                                        int64_t rows, int rank);
kernels::GatherRowsArgs DispatchShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                      int rank);
kernels::ArgmaxArgs ArgmaxShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                int rank);
kernels::SampleArgs SampleShape(const graph::Graph& g, const graph::Node& node, int64_t rows,
                                int rank);

// What a fused step runs, as one name of a plan: "avx512:4x16+two_shot+avx512".
struct FusedImpl {
  std::string matmul, method, norm;  // norm: "" of a reduce-scatter
  static FusedImpl Of(std::string_view impl);
  std::string Name() const { return matmul + "+" + method + (norm.empty() ? "" : "+" + norm); }
};

// A slot of a convolution's window. REQUIRES: log_max is set.
inline int64_t ConvSlotElements(const kernels::CausalConvArgs& a) {
  return (a.slot_rows() * a.state_row_stride + 31) / 32 * 32;
}

// Of one slot of the state that a node writes. REQUIRES: it is recurrent, not a kv cache.
int64_t StateSlotBytes(const graph::Graph& g, const graph::Node& node, int rank, int log_rows);

// The layer whose cache a kv state is: "kv.7" and "kv.7'" are layer 7.
int KvLayerOf(const graph::Value& state);

}  // namespace weft::exec
