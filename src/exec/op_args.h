// An op of a graph, on a rank, as the arguments of its kernel family without any memory: what a
// target asks kernels about and what bind.cc then fills with pointers. One place says how a graph's
// words become a kernel's numbers.
#pragma once

#include <string>
#include <string_view>

#include "comm/method.h"
#include "graph/graph.h"
#include "kernels/activation/silu_mul.h"
#include "kernels/attention/attention.h"
#include "kernels/copy/gather_rows.h"
#include "kernels/embed/embed.h"
#include "kernels/matmul/matmul.h"
#include "kernels/quant/quantised_rows.h"
#include "kernels/reduce/finish.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/sample/argmax.h"
#include "kernels/sample/sample.h"

namespace weft::exec {

// A value's rows on a rank, without memory.
View ShapeOf(const graph::Graph& g, graph::ValueId id, int64_t rows, int rank);

kernels::MatmulArgs MatmulShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::QuantiseRowsArgs QuantiseShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::EmbedArgs EmbedShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::FinishArgs FinishShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::RmsNormArgs RmsNormShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::AddArgs AddShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::RopeArgs RopeShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::KvWriteArgs KvWriteShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::AttentionArgs AttentionShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::SiluMulArgs SiluMulShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::GatherRowsArgs GatherRowsShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::ArgmaxArgs ArgmaxShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);
kernels::SampleArgs SampleShape(const graph::Graph& g, const graph::Node& node, int64_t rows, int rank);

// What a fused step runs, as one name of a plan: "avx512:4x16+two_shot+avx512".
struct FusedImpl {
  std::string matmul, method, norm;  // norm: "" of a reduce-scatter
  static FusedImpl Of(std::string_view impl);
  std::string Name() const { return matmul + "+" + method + (norm.empty() ? "" : "+" + norm); }
};

// The layer whose cache a kv state is: "kv.7" and "kv.7'" are layer 7.
int KvLayerOf(const graph::Value& state);

}  // namespace weft::exec
