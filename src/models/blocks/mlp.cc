#include "models/blocks/mlp.h"

#include "models/blocks/tables.h"

namespace weft::models {

using graph::Dim;
using graph::kNoValue;
using graph::ValueId;

Result<ValueId> BuildMlp(graph::Builder& b, ParamSource& params, const io::ModelConfig& config,
                         const ModelOptions& options, const MlpPart& part, ValueId x) {
  const std::string& prefix = part.prefix;
  const int64_t width = part.width;
  b.Layer(part.layer);
  WEFT_ASSIGN_OR_RETURN(const DType format, params.FormatOf(prefix + "down_proj.weight"));
  const LeafTable leaves =
      LeafTable::Make(width, WidthAtom(QuantBlockOf(format, options.int8_activations)));
  const int ffn = part.whole ? b.WholeTable(part.table, leaves) : b.Table(part.table, leaves);
  std::vector<ValueId> weights, biases(2, kNoValue);
  for (const char* name : {"gate_proj", "up_proj"}) {
    WEFT_ASSIGN_OR_RETURN(
        const ValueId w,
        params.Matrix(prefix + name + ".weight", Dim::C(width, ffn), Dim::C(config.hidden_size)));
    if (config.mlp_bias) {
      WEFT_ASSIGN_OR_RETURN(biases[weights.size()],
                            params.Vector(prefix + name + ".bias", Dim::C(width, ffn)));
    }
    weights.push_back(w);
  }
  const std::vector<ValueId> gate_up = b.ColumnLinear(x, weights, biases, {"gate", "up"});
  const ValueId h = b.SwiGlu(gate_up[0], gate_up[1]);
  WEFT_ASSIGN_OR_RETURN(
      const ValueId down,
      params.Matrix(prefix + "down_proj.weight", Dim::C(config.hidden_size), Dim::C(width, ffn)));
  ValueId bias = kNoValue;
  if (config.mlp_bias) {
    WEFT_ASSIGN_OR_RETURN(bias,
                          params.Vector(prefix + "down_proj.bias", Dim::C(config.hidden_size)));
  }
  return b.RowLinear(h, down, bias, "down_proj");
}

}  // namespace weft::models
