// What a model's files say about its shape, in one form whatever the source.
// Filled by hf_config.h (config.json) and gguf_config.h (GGUF metadata), which check ranges; the
// relations between fields are checked here.
// Thread: plain data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace weft::io {

enum class RopeScaling {
  kNone,
  kLinear,         // positions divided by factor
  kLlama3,         // per frequency, from the four numbers below
  kFactorsTensor,  // GGUF: frequencies divided by the tensor rope_freqs.weight [dims / 2]
};

struct RopeConfig {
  double theta = 0;
  int64_t dims = 0;  // leading elements of a head that turn; may be below head_dim
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 1;
  int64_t original_max_position = 0;
};

enum class LayerKind : uint8_t {
  kFullAttention,    // softmax over the keys of a cache
  kLinearAttention,  // the gated delta rule: a recurrence over one state per value head
};

enum class GateActivation : uint8_t { kSilu, kSigmoid };

// The layers of kind kLinearAttention. Value head j reads key head j / (value_heads / key_heads).
struct LinearAttentionConfig {
  int64_t key_heads = 0;  // 0: the model has no such layer
  int64_t value_heads = 0;
  int64_t key_dim = 0;  // of one head
  int64_t value_dim = 0;
  int64_t conv_kernel = 0;  // taps of the causal convolution, the token's own included
  GateActivation output_gate = GateActivation::kSilu;

  int64_t key_width() const { return key_heads * key_dim; }
  int64_t value_width() const { return value_heads * value_dim; }
  int64_t channels() const {
    return 2 * key_width() + value_width();
  }  // q | k | v of the convolution
};

// What the model's authors want a request without its own values to get.
struct SamplingDefaults {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
};

struct ModelConfig {
  std::string source;        // the file, for messages
  std::string architecture;  // as written: "LlamaForCausalLM", "qwen3"
  std::string family;        // "llama", "qwen2", "qwen3", "qwen3_moe", "qwen3_next" or "qwen3_5"

  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;           // never hidden_size / heads by assumption
  int64_t intermediate_size = 0;  // of dense layers; where there is none it may be 0
  int64_t vocab_size = 0;
  int64_t max_position = 0;
  double rms_norm_eps = 0;
  RopeConfig rope;

  std::vector<LayerKind> layer_kinds;  // one a layer; empty: all are kFullAttention
  LinearAttentionConfig linear;
  bool attn_output_gate = false;  // full attention is multiplied by sigmoid(gate), rows of q_proj
  bool gain_plus_one = false;     // gains of norms are stored as w and mean 1 + w

  int64_t experts = 0;  // routed ones of a layer; 0: all layers are dense
  int64_t experts_per_token = 0;
  int64_t moe_intermediate_size = 0;
  int64_t shared_expert_intermediate_size = 0;  // 0: none
  bool norm_topk_prob = false;        // weights of the chosen experts are divided by their sum
  std::vector<int64_t> dense_layers;  // with experts: the layers that have none, ascending

  // Layers of the draft head that the model was trained with. The files need not hold them.
  int64_t mtp_layers = 0;
  bool vision = false;  // the files may hold an image encoder, which is not read

  bool tie_word_embeddings = false;
  bool attention_bias = false;         // of q, k and v
  bool attention_output_bias = false;  // of o
  bool mlp_bias = false;               // of gate, up and down

  std::optional<int64_t> bos_id;
  std::vector<int64_t> eos_ids;  // each ends an answer; the first is the model's own
  SamplingDefaults sampling;
  std::optional<DType> dtype;  // that the checkpoint was saved in, if it says

  std::vector<std::string> notes;  // what was ignored, for the log

  float rms_norm_eps_float() const { return static_cast<float>(rms_norm_eps); }
  LayerKind KindOf(int64_t layer) const {
    return layer_kinds.empty() ? LayerKind::kFullAttention
                               : layer_kinds[static_cast<size_t>(layer)];
  }
  bool IsMoe(int64_t layer) const {
    return experts > 0 && !std::binary_search(dense_layers.begin(), dense_layers.end(), layer);
  }
};

// Every fourth layer of a hybrid has full attention, unless its file tells another interval.
inline constexpr int64_t kHybridFullInterval = 4;

// Bounds of single fields. They are far above any real model and keep products inside int64.
struct ConfigLimits {
  static constexpr int64_t kHiddenMax = 1 << 20;
  static constexpr int64_t kLayersMax = 4096;
  static constexpr int64_t kHeadsMax = 1 << 16;
  static constexpr int64_t kHeadDimMax = 4096;
  static constexpr int64_t kIntermediateMax = 1 << 24;
  static constexpr int64_t kVocabMax = 1 << 24;
  static constexpr int64_t kPositionMax = 1 << 30;
  static constexpr int64_t kExpertsMax = 1 << 16;
  static constexpr int64_t kConvKernelMax = 64;
  static constexpr int64_t kMtpLayersMax = 16;
};

// How the source names the fields, for the messages of CheckConfig.
struct ConfigNames {
  std::string_view hidden_size;
  std::string_view heads;
  std::string_view kv_heads;
  std::string_view head_dim;
  std::string_view rope_dims;
  std::string_view bos_id;
  std::string_view eos_ids;
  std::string_view intermediate_size;
  std::string_view key_heads;
  std::string_view value_heads;
  std::string_view experts;
  std::string_view experts_per_token;
};

// What must hold between fields: heads divide, rope fits the head, special ids are tokens, no more
// experts are chosen than there are.
// Errors: kInvalid naming file, key, what was expected and what was found.
Status CheckConfig(const ModelConfig& config, const ConfigNames& names);

// "config.json: 'hidden_size' must be ..., found ...".
Status BadField(std::string_view file, std::string_view key, std::string_view expected,
                std::string_view found);

}  // namespace weft::io
