// What vLLM's and vllm-ascend's own words ask for: their JSON options and environment variables,
// with names and types checked. What it means here is schedule_flags.h's. Thread: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "base/result.h"

namespace weft::cli {

// One line for the log.
struct Notice {
  LogLevel level = LogLevel::kWarning;
  std::string text;
};

// A value, and who asked for it: "--additional-config enable_flashcomm1", "VLLM_ASCEND_...".
template <typename T>
struct Asked {
  T value{};
  std::string by;
};

// JSON options as they were given. Each may come several times; the later goes over the earlier,
// key by key.
struct UpstreamWords {
  std::vector<std::string> compilation_config, additional_config, kv_transfer_config;
  std::map<std::string, std::string, std::less<>> environment;  // of UpstreamVariables()
};

// nullopt: nobody said. A variable gives way to an option (and says so if it is of another mind).
struct UpstreamConfig {
  std::optional<Asked<bool>> sequence_parallel;
  std::optional<Asked<int32_t>> sp_min_token_num;
  std::optional<Asked<bool>> flashcomm1;
  std::optional<Asked<int32_t>> flashcomm2_parallel_size;  // 0 and below: off
  std::optional<Asked<int32_t>> oproj_tensor_parallel_size;
  std::vector<Asked<bool>> matmul_all_reduce;  // each switch that is on
  std::optional<Asked<bool>> overlap_shared_expert;
  std::optional<Asked<bool>> shared_expert_dp;
  std::optional<Asked<bool>> prefetch_weights;
  std::vector<std::string> layer_sharding;
  bool kv_transfer = false;  // there is a --kv-transfer-config
  std::string kv_role;       // "kv_producer", "kv_consumer", "kv_both", or ""
  std::vector<Notice> notices;
};

// The environment variables that ReadUpstream looks at.
std::span<const std::string_view> UpstreamVariables();

// Options that take a JSON object and may be spelled with dots ("--compilation-config.mode 3").
std::span<const std::string_view> JsonOptions();

// Errors: kInvalid naming the option or variable, the key, what was found and what it takes; for a
// key that nobody knows the nearest one.
Result<UpstreamConfig> ReadUpstream(const UpstreamWords& words);

}  // namespace weft::cli
