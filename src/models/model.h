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
#include "models/weight_source.h"

namespace weft::models {

struct ModelOptions {
  DType model_dtype = DType::kBF16;  // --dtype: bfloat16 or float32
  bool int8_activations = true;      // --activation-dtype: inputs of quantised weights
  bool whole_shared_expert = false;  // --enable-shared-expert-dp: its width is never cut
};

// What the head does with its rows.
struct HeadOptions {
  bool sample = false;       // fp32 logits gathered, one sampler; else argmax by vocabulary shards
  bool hash_logits = false;  // also a hash of every row's logits
  bool normed = false;       // hidden comes out of the draft head, behind its norm
};

// Whose hidden rows a draft head reads: the body's, before the last norm, or its own of the step
// before.
enum class DraftInput : uint8_t { kBody, kDraft };

struct Model {
  std::string_view family;    // io::ModelConfig::family
  std::string_view examples;  // for people
  // ids, positions, slots, segments -> hidden [T, H], before the last norm. Words of intention.
  Result<graph::Graph> (*build_body)(const io::Checkpoint&, const ModelOptions&);
  // hidden [T, H], head_rows [R] -> ids (and hashes).
  Result<graph::Graph> (*build_head)(const io::Checkpoint&, const ModelOptions&,
                                     const HeadOptions&);
  // ids (of the token behind each row), positions, slots, segments, hidden [T, H] -> hidden [T, H],
  // normed. nullptr: the family has no draft head.
  Result<graph::Graph> (*build_draft)(const io::Checkpoint&, const ModelOptions&,
                                      DraftInput) = nullptr;
};

std::span<const Model> AllModels();
// Errors: kUnsupported naming the family and those that there are.
Result<const Model*> FindModel(const io::ModelConfig& config);

// The param of a graph in this file, by whatever name and in whatever arrangement the format has
// it. Params are spelt as Hugging Face does ("model.layers.3.mlp.up_proj.weight"; a
// "language_model." of the file is left out; the draft head is "mtp."). What the file fuses has
// names of our own:
//   self_attn.q_proj, self_attn.q_gate           rows of q alone and, with attn_output_gate, of its gate
//   linear_attn.in_proj_{q,k,v,z,b,a}.weight     [width, H]; b and a [value heads, H]
//   linear_attn.conv1d_{q,k,v}.weight            [channels, taps]
//   linear_attn.A_log                            its values are -exp(A_log), whatever the file has
//   mlp.experts.{gate,up}_proj.weight            [E, I, H]
//   mlp.experts.down_proj.weight                 [E, H, I]
// Value heads are in the order in which key head g has the heads g * ratio ..., but for
// HasTiledHeads(). The values of a gain are what multiplies: 1 + w where the file has w. Errors:
// kInvalid naming file and tensor (missing, or a section of another shape).
Result<WeightSource> FindWeight(const io::Checkpoint& checkpoint, std::string_view param);

// Whether a layer's value heads stand as GGUF's converter puts them, head h beside h + 1 of the
// next key head: where blocks of out_proj's columns reach over heads (K-quants), so that these
// cannot be put into our order. `prefix`: "model.layers.3.".
bool HasTiledHeads(const io::Checkpoint& checkpoint, std::string_view prefix);

// Whether the files hold the draft head of which the configuration speaks.
bool HasDraftHead(const io::Checkpoint& checkpoint);

// A tensor that no graph reads belongs to another architecture, or to another configuration, than
// the one that would be computed without it. What changes nothing may stay: old files keep the
// rotary frequencies, tied ones a copy of the embedding. So may an image encoder and a draft head
// of which no graph reads anything; `notes` then says so. Errors: kInvalid naming file, tensor and
// shape.
Status CheckAllUsed(const io::Checkpoint& checkpoint, std::span<const graph::Graph* const> graphs,
                    std::vector<std::string>* notes = nullptr);

// Inverse frequencies of the rotary embedding [rot/2] in double, scaled as the config says; the
// caller computes the tables. `base`: theta^(-2i/rot), by the caller's pow.
// Errors: kInvalid for a rope_freqs tensor of the wrong size.
Result<std::vector<double>> ScaleRopeFrequencies(const io::Checkpoint& checkpoint,
                                                 std::vector<double> base);

}  // namespace weft::models
