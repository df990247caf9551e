#include <fmt/format.h>

#include <array>

#include "models/model.h"

namespace weft::models {

extern const Model kLlama;
extern const Model kQwen2;
extern const Model kQwen3;
extern const Model kQwen3Moe;
extern const Model kQwen3Next;
extern const Model kQwen3_5;

std::span<const Model> AllModels() {
  static const std::array<Model, 6> kModels{kLlama,    kQwen2,     kQwen3,
                                            kQwen3Moe, kQwen3Next, kQwen3_5};
  return kModels;
}

Result<const Model*> FindModel(const io::ModelConfig& config) {
  std::string known;
  for (const Model& model : AllModels()) {
    if (model.family == config.family) return &model;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", model.family);
  }
  return Status::Unsupported("{}: architecture '{}' is not built in; there are {}", config.source,
                             config.architecture, known);
}

}  // namespace weft::models
