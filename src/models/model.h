// A model architecture: how its files become a graph. One file and one row of model_list.cc each.
// A model file names neither ranks nor collectives; it says by intention what may be cut, with the
// leaf tables of docs/numerics.md 4.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "io/checkpoint.h"

namespace weft::models {

struct ModelOptions {
  DType model_dtype = DType::kBF16;  // --dtype: bfloat16 or float32
  bool int8_activations = true;      // --activation-dtype: inputs of quantised weights
};

// What the head does with its rows.
struct HeadOptions {
  bool sample = false;       // fp32 logits gathered, one sampler; else argmax by vocabulary shards
  bool hash_logits = false;  // also a hash of every row's logits
};

// The order of a weight's rows in the file, told as where row i of ours lies.
enum class RowOrder : uint8_t {
  kAsIs,
  kRopePairs,  // GGUF's llama: per head [D/2][2] in the file, [2][D/2] here
};

// Where a param's bits come from.
struct WeightSource {
  const io::Tensor* tensor = nullptr;
  RowOrder order = RowOrder::kAsIs;
  int64_t head_dim = 0;  // with kRopePairs

  // The file's row that holds our row i.
  int64_t FileRow(int64_t i) const {
    if (order == RowOrder::kAsIs) return i;
    const int64_t head = i / head_dim, r = i % head_dim, half = head_dim / 2;
    return head * head_dim + (r % half) * 2 + r / half;
  }
};

struct Model {
  std::string_view family;  // io::ModelConfig::family
  std::string_view examples;  // for people
  // ids, positions, slots, segments -> hidden [T, H], before the last norm. Words of intention.
  Result<graph::Graph> (*build_body)(const io::Checkpoint&, const ModelOptions&);
  // hidden [T, H], head_rows [R] -> ids (and hashes).
  Result<graph::Graph> (*build_head)(const io::Checkpoint&, const ModelOptions&, const HeadOptions&);
};

std::span<const Model> AllModels();
// Errors: kUnsupported naming the family and those that there are.
Result<const Model*> FindModel(const io::ModelConfig& config);

// The param of a graph (Hugging Face spelling) in this file, by whatever name the format has.
// Errors: kInvalid naming file and tensor.
Result<WeightSource> FindWeight(const io::Checkpoint& checkpoint, std::string_view param);

// A tensor that no graph reads belongs to another architecture, or to another configuration, than the
// one that would be computed without it. What changes nothing may stay: old files keep the rotary
// frequencies, tied ones a copy of the embedding.
// Errors: kInvalid naming file, tensor and shape.
Status CheckAllUsed(const io::Checkpoint& checkpoint, std::span<const graph::Graph* const> graphs);

// Inverse frequencies of the rotary embedding [rot/2] in double, scaled as the config says; the
// caller computes the tables. `base`: theta^(-2i/rot), by the caller's pow.
// Errors: kInvalid for a rope_freqs tensor of the wrong size.
Result<std::vector<double>> ScaleRopeFrequencies(const io::Checkpoint& checkpoint,
                                                 std::vector<double> base);

}  // namespace weft::models
