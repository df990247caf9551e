// What a model's files say about its shape, in one form whatever the source.
// Filled by hf_config.h (config.json) and gguf_config.h (GGUF metadata), which check ranges; the
// relations between fields are checked here.
// Thread: plain data.
#pragma once

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

// What the model's authors want a request without its own values to get.
struct SamplingDefaults {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
};

struct ModelConfig {
  std::string source;        // the file, for messages
  std::string architecture;  // as written: "LlamaForCausalLM", "qwen3"
  std::string family;        // "llama", "qwen2" or "qwen3"

  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;  // never hidden_size / heads by assumption
  int64_t intermediate_size = 0;
  int64_t vocab_size = 0;
  int64_t max_position = 0;
  int64_t experts = 0;  // routed ones of a layer; 0: dense, as all families so far
  double rms_norm_eps = 0;
  RopeConfig rope;

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
};

// Bounds of single fields. They are far above any real model and keep products inside int64.
struct ConfigLimits {
  static constexpr int64_t kHiddenMax = 1 << 20;
  static constexpr int64_t kLayersMax = 4096;
  static constexpr int64_t kHeadsMax = 1 << 16;
  static constexpr int64_t kHeadDimMax = 4096;
  static constexpr int64_t kIntermediateMax = 1 << 24;
  static constexpr int64_t kVocabMax = 1 << 24;
  static constexpr int64_t kPositionMax = 1 << 30;
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
};

// What must hold between fields: heads divide, rope fits the head, special ids are tokens.
// Errors: kInvalid naming file, key, what was expected and what was found.
Status CheckConfig(const ModelConfig& config, const ConfigNames& names);

// "config.json: 'hidden_size' must be ..., found ...".
Status BadField(std::string_view file, std::string_view key, std::string_view expected,
                std::string_view found);

}  // namespace weft::io
