#include "io/model_config.h"

#include <fmt/core.h>

#include <functional>

namespace weft::io {
namespace {

using Bad = std::function<Status(std::string_view key, const std::string& expected, int64_t found)>;

Status CheckLinearAttention(const LinearAttentionConfig& c, const ConfigNames& names,
                            const Bad& bad) {
  if (c.key_heads == 0) return Status::Ok();
  if (c.value_heads % c.key_heads != 0) {
    return bad(names.value_heads,
               fmt::format("a multiple of '{}' = {}", names.key_heads, c.key_heads), c.value_heads);
  }
  struct Width {
    std::string_view name;
    int64_t heads, dim;
  };
  for (const Width& w : {Width{names.key_heads, c.key_heads, c.key_dim},
                         Width{names.value_heads, c.value_heads, c.value_dim}}) {
    if (w.heads * w.dim <= ConfigLimits::kHiddenMax) continue;
    return bad(w.name,
               fmt::format("at most {} with heads of {}", ConfigLimits::kHiddenMax / w.dim, w.dim),
               w.heads);
  }
  return Status::Ok();
}

Status CheckExperts(const ModelConfig& c, const ConfigNames& names, const Bad& bad) {
  const bool some_dense = c.experts == 0 || !c.dense_layers.empty();
  if (some_dense && c.intermediate_size < 1) {
    return bad(names.intermediate_size, "above 0 since there are layers without experts",
               c.intermediate_size);
  }
  if (c.experts > 0 && c.experts_per_token > c.experts) {
    return bad(names.experts_per_token, fmt::format("at most '{}' = {}", names.experts, c.experts),
               c.experts_per_token);
  }
  return Status::Ok();
}

}  // namespace

Status BadField(std::string_view file, std::string_view key, std::string_view expected,
                std::string_view found) {
  return Status::Invalid("{}: '{}' must be {}, found {}", file, key, expected, found);
}

Status CheckConfig(const ModelConfig& c, const ConfigNames& names) {
  const auto bad = [&c](std::string_view key, const std::string& expected, int64_t found) {
    return BadField(c.source, key, expected, fmt::format("{}", found));
  };
  if (c.heads % c.kv_heads != 0) {
    return bad(names.kv_heads, fmt::format("a divisor of '{}' = {}", names.heads, c.heads),
               c.kv_heads);
  }
  if (c.head_dim % 2 != 0) return bad(names.head_dim, "even", c.head_dim);
  if (c.rope.dims < 2 || c.rope.dims % 2 != 0 || c.rope.dims > c.head_dim) {
    return bad(names.rope_dims,
               fmt::format("even and from 2 to '{}' = {}", names.head_dim, c.head_dim),
               c.rope.dims);
  }
  if (c.heads * c.head_dim > ConfigLimits::kHiddenMax) {
    return bad(names.heads,
               fmt::format("at most {} with '{}' = {}", ConfigLimits::kHiddenMax / c.head_dim,
                           names.head_dim, c.head_dim),
               c.heads);
  }
  if (c.rope.scaling == RopeScaling::kLlama3 &&
      !(c.rope.high_freq_factor > c.rope.low_freq_factor)) {
    return BadField(c.source, "high_freq_factor",
                    fmt::format("above 'low_freq_factor' = {}", c.rope.low_freq_factor),
                    fmt::format("{}", c.rope.high_freq_factor));
  }
  WEFT_RETURN_IF_ERROR(CheckLinearAttention(c.linear, names, bad));
  WEFT_RETURN_IF_ERROR(CheckExperts(c, names, bad));
  const std::string token = fmt::format("a token id from 0 to {}", c.vocab_size - 1);
  if (c.bos_id && (*c.bos_id < 0 || *c.bos_id >= c.vocab_size)) {
    return bad(names.bos_id, token, *c.bos_id);
  }
  for (const int64_t id : c.eos_ids) {
    if (id < 0 || id >= c.vocab_size) return bad(names.eos_ids, token, id);
  }
  return Status::Ok();
}

}  // namespace weft::io
