// Words on a command line, as option structs: vLLM's flags by their names, and ours. The only
// reader of the environment (WEFT_* and the few that users of Hugging Face and vLLM set).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "cli/schedule_flags.h"
#include "cli/speculation_flags.h"
#include "engine/engine.h"
#include "exec/model_instance.h"
#include "io/model_config.h"
#include "serve/service.h"

namespace CLI {
class App;
}

namespace weft::cli {

// What every command that runs a model takes.
struct ModelFlags {
  std::string model;      // --model or the first argument
  std::string tokenizer;  // --tokenizer: another directory or .gguf for the text side
  std::string revision = "main";
  std::string chat_template;  // --chat-template: a file
  std::string dtype = "auto";
  std::string activation_dtype = "int8";
  int tensor_parallel_size = 1;
  int threads = 0;
  bool enable_expert_parallel = true;
  std::vector<std::pair<std::string, std::string>>
      idle;  // vLLM's flags that change nothing here, and why
  ScheduleFlags schedule;
  SpeculationFlags speculation;
  std::string max_model_len = "auto";  // also "32k", "32K"
  std::string max_num_batched_tokens = "2048";
  int max_num_seqs = 128;
  int block_size = 16;
  std::string kv_cache_memory_bytes = "auto";
  bool enforce_eager = false;
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  std::string state_checkpoints = "auto";  // or a number
  int state_checkpoint_interval = 0;
  int long_prefill_token_threshold = 0;
  std::string scheduling_policy = "fcfs";
  int max_num_queued_reqs = 1024;
  uint64_t seed = 0;
  double wait_timeout_s = 60;
  std::vector<std::string> opt;   // --opt name=on|off|auto
  std::vector<std::string> impl;  // --impl family=name
  std::string profile;            // --profile: this machine's figures
  std::string isa = "auto";       // --isa avx2|avx512|...: at most this
  bool reference = false;         // --reference: contracts on virtual ranks
};

// Which model, and how a step of it runs. The defaults that --help shows are those in *flags;
// variables of UpstreamVariables() are read into it.
void AddModelFlags(CLI::App& app, ModelFlags* flags);
// How requests become steps; only for commands that have requests.
void AddEngineFlags(CLI::App& app, ModelFlags* flags);

// Notices about the schedule go to `log`. Errors: kInvalid naming the flag, its value and what it
// takes.
Result<exec::ExecConfig> ExecConfigOf(const ModelFlags& flags, LogSink* log);
// What depends on the model's facts: thresholds that no flag names. REQUIRES: *config is of these
// flags.
void FitToModel(const ModelFlags& flags, const io::ModelConfig& model, exec::ExecConfig* config);
Result<engine::EngineConfig> EngineConfigOf(const ModelFlags& flags, std::vector<int32_t> eos);

// "32k" = 32,000, "32K" = 32,768 (vLLM), plain numbers; `flag` for the message.
Result<int64_t> ParseSize(const std::string& text, std::string_view flag);

}  // namespace weft::cli
