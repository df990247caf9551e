#include "models/blocks/source.h"

#include <fmt/format.h>

namespace weft::models {
namespace {

Status CheckShape(const io::Checkpoint& checkpoint, const WeightSource& source,
                  const std::vector<int64_t>& expected) {
  if (source.shape == expected) return Status::Ok();
  return Status::Invalid("{}: tensor '{}' has shape [{}], [{}] expected", checkpoint.path(),
                         source.tensor().name, fmt::join(source.shape, ", "),
                         fmt::join(expected, ", "));
}

Status CheckFormat(const io::Checkpoint& checkpoint, const io::Tensor& tensor) {
  const DType dtype = tensor.dtype;
  if (IsQuantised(dtype) || dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF32)
    return Status::Ok();
  return Status::Unsupported(
      "{}: tensor '{}' is {}; a weight is bfloat16, float16, float32 or a GGUF block format",
      checkpoint.path(), tensor.name, NameOf(dtype));
}

}  // namespace

LayerSite LayerSite::Of(int64_t layer) {
  return {fmt::format("model.layers.{}.", layer), fmt::format("L{:02}", layer), layer};
}
LayerSite LayerSite::Draft(int64_t layers) { return {"mtp.layers.0.", "mtp", layers}; }

Result<DType> ParamSource::FormatOf(const std::string& name) const {
  WEFT_ASSIGN_OR_RETURN(const WeightSource source, FindWeight(*checkpoint_, name));
  return source.dtype();
}

Result<graph::ValueId> ParamSource::Matrix(const std::string& name, graph::Dim n, graph::Dim k) {
  WEFT_ASSIGN_OR_RETURN(const WeightSource source, FindWeight(*checkpoint_, name));
  WEFT_RETURN_IF_ERROR(CheckShape(*checkpoint_, source, {n.n, k.n}));
  WEFT_RETURN_IF_ERROR(CheckFormat(*checkpoint_, source.tensor()));
  return builder_->Param(name, source.dtype(), {n, k});
}

Result<graph::ValueId> ParamSource::Vector(const std::string& name, graph::Dim n) {
  WEFT_ASSIGN_OR_RETURN(const WeightSource source, FindWeight(*checkpoint_, name));
  WEFT_RETURN_IF_ERROR(CheckShape(*checkpoint_, source, {n.n}));
  WEFT_RETURN_IF_ERROR(CheckFormat(*checkpoint_, source.tensor()));
  return builder_->Param(name, DType::kF32, {n});
}

Result<graph::ValueId> ParamSource::Experts(const std::string& name, graph::Dim e, graph::Dim n,
                                            graph::Dim k) {
  WEFT_ASSIGN_OR_RETURN(const WeightSource source, FindWeight(*checkpoint_, name));
  WEFT_RETURN_IF_ERROR(CheckShape(*checkpoint_, source, {e.n, n.n, k.n}));
  WEFT_RETURN_IF_ERROR(CheckFormat(*checkpoint_, source.tensor()));
  return builder_->Param(name, source.dtype(), {e, n, k});
}

Result<graph::ValueId> ParamSource::Filter(const std::string& name, graph::Dim channels,
                                           int64_t taps) {
  WEFT_ASSIGN_OR_RETURN(const WeightSource source, FindWeight(*checkpoint_, name));
  WEFT_RETURN_IF_ERROR(CheckShape(*checkpoint_, source, {channels.n, taps}));
  WEFT_RETURN_IF_ERROR(CheckFormat(*checkpoint_, source.tensor()));
  return builder_->Param(name, DType::kF32, {channels, graph::Dim::C(taps)});
}

}  // namespace weft::models
