// Params of a checkpoint as values of a graph: looked up, checked for shape, given their format.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "graph/builder.h"
#include "models/model.h"

namespace weft::models {

// A layer of the model or of its draft head: how its tensors, its values and its states are called.
struct LayerSite {
  std::string prefix;  // "model.layers.3."
  std::string label;   // "L03"
  int64_t number = 0;  // of its states: "kv.3"
  static LayerSite Of(int64_t layer);
  // The draft head's layer, behind the `layers` of the model.
  static LayerSite Draft(int64_t layers);
};

class ParamSource {
 public:
  ParamSource(graph::Builder* builder, const io::Checkpoint* checkpoint)
      : builder_(builder), checkpoint_(checkpoint) {}

  // A matrix keeps the format of its bits; a vector is read as float32 (exact for all formats).
  // Errors: kInvalid naming file, tensor, expected and found shape; kUnsupported for other formats.
  Result<graph::ValueId> Matrix(const std::string& name, graph::Dim n, graph::Dim k);
  Result<graph::ValueId> Vector(const std::string& name, graph::Dim n);
  // Weights of all experts [E, N, K], each a matrix of its own.
  Result<graph::ValueId> Experts(const std::string& name, graph::Dim e, graph::Dim n, graph::Dim k);
  // A filter of `taps` taps for each channel, read as float32.
  Result<graph::ValueId> Filter(const std::string& name, graph::Dim channels, int64_t taps);
  Result<DType> FormatOf(const std::string& name) const;
  const io::Checkpoint& checkpoint() const { return *checkpoint_; }

 private:
  graph::Builder* builder_;
  const io::Checkpoint* checkpoint_;
};

}  // namespace weft::models
