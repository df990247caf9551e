#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "cli/machine_limits.h"
#include "cli/plan_switches.h"

namespace weft::cli {
namespace {

Status BadValue(std::string_view flag, const std::string& value, std::string_view wants) {
  return Status::Invalid("{} '{}': {}", flag, value, wants);
}

Result<std::pair<std::string, std::string>> NameValue(const std::string& text,
                                                      std::string_view flag) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return BadValue(flag, text, "name=value wanted");
  return std::make_pair(text.substr(0, equals), text.substr(equals + 1));
}

// Flags of vLLM's launch lines that mean nothing here; each that is given says so in one line.
struct IdleFlag {
  const char *name, *takes, *why;  // takes: "" for a flag without a value
};
constexpr IdleFlag kIdleFlags[] = {
    {"--quantization,-q", "NAME", "weights are in the formats that their file says"},
    {"--load-format", "NAME", "the format is the file's"},
    {"--tokenizer-mode", "NAME", "there is one"},
    {"--gpu-memory-utilization", "SHARE",
     "--kv-cache-memory-bytes and --max-num-seqs say what is set aside"},
    {"--swap-space", "GIB", "preempted requests are computed again"},
    {"--distributed-executor-backend", "NAME", "ranks are threads, or processes under mpirun"},
    {"--trust-remote-code", "", "no code of a model is ever run"},
    {"--async-scheduling", "", "a step is committed before the next is made"},
    {"--disable-log-stats", "", "statistics are metrics, and cost nothing"},
    {"--disable-log-requests", "", "requests are not logged"},
};

void AddIdleFlags(CLI::App& app, ModelFlags* f) {
  for (const IdleFlag& idle : kIdleFlags) {
    const std::string name(idle.name, std::min(std::string_view(idle.name).find(','),
                                               std::string_view(idle.name).size()));
    const auto note = [f, name, why = std::string(idle.why)] { f->idle.emplace_back(name, why); };
    const char* group = "Of vLLM, without effect";
    if (*idle.takes == '\0') {
      app.add_flag_callback(idle.name, note, idle.why)->group(group);
    } else {
      app.add_option_function<std::string>(
             idle.name, [note](const std::string&) { note(); }, idle.why)
          ->type_name(idle.takes)
          ->group(group);
    }
  }
}

}  // namespace

void AddModelFlags(CLI::App& app, ModelFlags* f) {
  const auto add = [&app](const char* group, const char* name, auto* value, const char* takes,
                          const char* text) {
    return app.add_option(name, *value, text)
        ->type_name(takes)
        ->capture_default_str()
        ->group(group);
  };
  const char* model = "Model";
  add(model, "model_tag,--model", &f->model, "PATH|NAME",
      "directory with config.json, .gguf file, or a name in the Hugging Face cache; the word after "
      "the command may be it too");
  add(model, "--revision", &f->revision, "NAME", "of a name in the cache");
  add(model, "--tokenizer", &f->tokenizer, "PATH|NAME",
      "take tokenizer and chat template from there");
  add(model, "--chat-template", &f->chat_template, "FILE", "a Jinja chat template");
  add(model, "--dtype", &f->dtype, "TYPE", "auto (bfloat16), bfloat16 or float32");
  add(model, "--activation-dtype", &f->activation_dtype, "TYPE",
      "inputs of quantised weights: int8 or bf16");
  add(model, "--max-model-len", &f->max_model_len, "N",
      "longest prompt + answer; auto: the model's");

  const char* ranks = "Ranks and kernels";
  add(ranks, "--tensor-parallel-size", &f->tensor_parallel_size, "N",
      "ranks that share every layer (-tp N)");
  add(ranks, "--threads", &f->threads, "N", "compute threads of all ranks; 0: every core");
  app.add_flag("--enforce-eager", f->enforce_eager, "plans without passes and chaining")
      ->group(ranks);
  app.add_option("--opt", f->opt, "one optimisation; repeatable")
      ->type_name("NAME=on|off|auto")
      ->group(ranks);
  app.add_option("--impl", f->impl, "force a kernel, as matmul=ref; repeatable")
      ->type_name("FAMILY=NAME")
      ->group(ranks);
  add(ranks, "--profile", &f->profile, "FILE",
      "this machine's figures, as `weft bench machine --output` wrote them: what exchanges cost "
      "[those of profiles/xeon-spr-2.json]");
  add(ranks, "--isa", &f->isa, "NAME", "at most: portable, avx2, avx512, avx512vnni, avx512bf16");
  add(ranks, "--wait-timeout", &f->wait_timeout_s, "SECONDS",
      "a rank that does not arrive in time ends the step");
  app.add_flag("--reference", f->reference, "run the contracts on virtual ranks, one thread (slow)")
      ->group(ranks);

  app.add_flag("--enable-expert-parallel,!--no-enable-expert-parallel", f->enable_expert_parallel,
               "experts whole on ranks, as they are in any case")
      ->group(ranks);

  AddScheduleFlags(app, &f->schedule);
  for (const std::string_view name : UpstreamVariables()) {
    const std::string variable(name);
    if (const char* value = std::getenv(variable.c_str()); value != nullptr)
      f->schedule.upstream.environment[variable] = value;
  }

  const char* memory = "Batching and KV cache";
  add(memory, "--max-num-batched-tokens", &f->max_num_batched_tokens, "N", "tokens of one step");
  add(memory, "--max-num-seqs", &f->max_num_seqs, "N", "requests of one step");
  add(memory, "--block-size", &f->block_size, "N", "tokens of a KV block, a multiple of 16");
  add(memory, "--kv-cache-memory-bytes", &f->kv_cache_memory_bytes, "N",
      "of all ranks, as 2G; auto: by memory and --max-num-seqs");
}

void AddEngineFlags(CLI::App& app, ModelFlags* f) {
  AddIdleFlags(app, f);
  AddSpeculationFlags(app, &f->speculation);
  const char* group = "Batching and KV cache";
  app.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", f->enable_prefix_caching,
               "share KV blocks of equal prefixes [on]")
      ->group(group);
  app.add_flag("--enable-chunked-prefill,!--no-enable-chunked-prefill", f->enable_chunked_prefill,
               "cut prompts to the token budget [on]")
      ->group(group);
  const auto add = [&](const char* name, auto* value, const char* takes, const char* text) {
    return app.add_option(name, *value, text)
        ->type_name(takes)
        ->capture_default_str()
        ->group(group);
  };
  add("--state-checkpoints", &f->state_checkpoints, "N",
      "of models with recurrent layers: states of prefixes that are kept; auto: up to "
      "--max-num-seqs, by memory");
  add("--state-checkpoint-interval", &f->state_checkpoint_interval, "N",
      "tokens of a prompt between them, beside its end and where prompts part; 0: only there");
  add("--long-prefill-token-threshold", &f->long_prefill_token_threshold, "N",
      "tokens of one prompt per step; 0: no cap");
  add("--scheduling-policy", &f->scheduling_policy, "NAME", "fcfs or priority");
  add("--max-num-queued-reqs,--queue-max", &f->max_num_queued_reqs, "N",
      "waiting requests before 429");
  add("--seed", &f->seed, "N", "of the generator that seeds requests without one");
}

Result<int64_t> ParseSize(const std::string& text, std::string_view flag) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || value < 0)
    return BadValue(flag, text, "a number, as 4096, 32k (thousands) or 32K (1024s)");
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  constexpr std::pair<std::string_view, int64_t> kUnits[] = {
      {"", 1},        {"k", 1000},    {"m", 1000000}, {"g", 1000000000},
      {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}};
  for (const auto& [name, factor] : kUnits) {
    if (suffix != name) continue;
    if (value > INT64_MAX / factor) return BadValue(flag, text, "too large");
    return value * factor;
  }
  return BadValue(flag, text, "unknown unit; k, m, g are decimal, K, M, G binary");
}

Result<exec::ExecConfig> ExecConfigOf(const ModelFlags& f, LogSink* log) {
  exec::ExecConfig config;
  config.ranks = f.tensor_parallel_size;
  config.threads = f.threads;
  if (config.ranks < 1 || config.ranks > 64)
    return Status::Invalid("--tensor-parallel-size {} must be 1 to 64", config.ranks);
  if (config.threads < 0 || config.threads > 1024)
    return Status::Invalid("--threads {} must be 0 to 1024", config.threads);
  if (f.dtype == "auto" || f.dtype == "bfloat16" || f.dtype == "bf16") {
    config.model_dtype = DType::kBF16;
  } else if (f.dtype == "float32" || f.dtype == "float") {
    config.model_dtype = DType::kF32;
  } else {
    return BadValue("--dtype", f.dtype, "auto, bfloat16 or float32");
  }
  if (f.activation_dtype != "int8" && f.activation_dtype != "bf16")
    return BadValue("--activation-dtype", f.activation_dtype, "int8 or bf16");
  config.int8_activations = f.activation_dtype == "int8";
  WEFT_ASSIGN_OR_RETURN(const int64_t tokens,
                        ParseSize(f.max_num_batched_tokens, "--max-num-batched-tokens"));
  if (tokens < 1 || tokens > 65536)
    return Status::Invalid("--max-num-batched-tokens {} must be 1 to 65536", tokens);
  config.tokens_max = static_cast<int32_t>(tokens);
  if (f.max_num_seqs < 1 || f.max_num_seqs > 4096)
    return Status::Invalid("--max-num-seqs {} must be 1 to 4096", f.max_num_seqs);
  config.seqs_max = f.max_num_seqs;
  if (f.max_model_len != "auto" && f.max_model_len != "-1") {
    WEFT_ASSIGN_OR_RETURN(const int64_t length, ParseSize(f.max_model_len, "--max-model-len"));
    if (length > INT32_MAX) return Status::Invalid("--max-model-len {} is too large", length);
    config.positions_max = static_cast<int32_t>(length);
  }
  config.page_tokens = f.block_size;
  if (f.enable_prefix_caching) {
    config.state_checkpoints = exec::kCheckpointsByMemory;
    if (f.state_checkpoints != "auto") {
      WEFT_ASSIGN_OR_RETURN(const int64_t slots,
                            ParseSize(f.state_checkpoints, "--state-checkpoints"));
      if (slots > 1 << 20)
        return Status::Invalid("--state-checkpoints {} must be at most {}", slots, 1 << 20);
      config.state_checkpoints = static_cast<int32_t>(slots);
    }
  }
  if (f.kv_cache_memory_bytes != "auto") {
    WEFT_ASSIGN_OR_RETURN(config.kv_bytes,
                          ParseSize(f.kv_cache_memory_bytes, "--kv-cache-memory-bytes"));
  }
  config.compile.eager = f.enforce_eager;
  if (f.enforce_eager) config.each_rows_max = 0;
  if (!(f.wait_timeout_s > 0 && f.wait_timeout_s <= 86400))
    return Status::Invalid("--wait-timeout {} must be above 0 and at most 86400 seconds",
                           f.wait_timeout_s);
  config.wait_timeout_ns = static_cast<int64_t>(f.wait_timeout_s * 1e9);
  WEFT_ASSIGN_OR_RETURN(const ScheduleChoice choice,
                        ChooseSchedule(f.schedule, config.ranks, graph::AllPasses()));
  // --opt goes over both.
  config.compile.interleave = choice.interleave.value_or(config.compile.interleave);
  config.compile.prefetch_weights =
      choice.prefetch_weights.value_or(config.compile.prefetch_weights);
  for (const std::string& text : f.opt) {
    WEFT_ASSIGN_OR_RETURN(const auto pair, NameValue(text, "--opt"));
    graph::Switch value = graph::Switch::kAuto;
    if (pair.second == "on")
      value = graph::Switch::kOn;
    else if (pair.second == "off")
      value = graph::Switch::kOff;
    else if (pair.second != "auto")
      return BadValue("--opt", text, "on, off or auto");
    std::vector<std::string_view> names;
    bool known = false;
    for (const PlanSwitch& of_plan : PlanSwitches()) {
      names.push_back(of_plan.name);
      if (of_plan.name != pair.first) continue;
      known = true;
      of_plan.set(config,
                  value == graph::Switch::kAuto ? of_plan.by_default : value == graph::Switch::kOn);
    }
    for (const graph::Pass& pass : graph::AllPasses()) {
      names.push_back(pass.name);
      if (pass.name != pair.first) continue;
      known = true;
      config.compile.switches[pair.first] = value;
    }
    if (!known) return BadValue("--opt", text, fmt::format("there are {}", fmt::join(names, ", ")));
  }
  config.schedule = choice.config;
  config.whole_shared_expert = choice.whole_shared_expert && config.ranks > 1;
  if (choice.whole_shared_expert && config.ranks == 1)
    log->Warning("--enable-shared-expert-dp changes nothing: one rank has all of every expert");
  config.compile.switches.insert(choice.switches.begin(),
                                 choice.switches.end());  // --opt goes before them
  for (const Notice& notice : choice.notices) log->Write(notice.level, notice.text);
  for (const auto& [flag, why] : f.idle)
    log->Warning("{}: taken, without effect here: {}", flag, why);
  if (!f.enable_expert_parallel) {
    log->Warning(
        "--no-enable-expert-parallel changes nothing: no expert is cut over ranks, each is whole "
        "on the rank that has it");
  }
  WEFT_ASSIGN_OR_RETURN(const SpeculationChoice speculation, ChooseSpeculation(f.speculation));
  config.draft_tokens = speculation.config.tokens;
  config.draft_head = speculation.config.method == engine::SpeculationMethod::kMtp;
  for (const Notice& notice : speculation.notices) log->Write(notice.level, notice.text);
  for (const std::string& text : f.impl) {
    WEFT_ASSIGN_OR_RETURN(auto pair, NameValue(text, "--impl"));
    config.impl[pair.first] = pair.second;
  }
  constexpr std::pair<std::string_view, kernels::Isa> kIsas[] = {
      {"auto", kernels::kIsaMax},
      {"portable", kernels::Isa::kPortable},
      {"avx2", kernels::Isa::kAvx2},
      {"avx512", kernels::Isa::kAvx512},
      {"avx512vnni", kernels::Isa::kAvx512Vnni},
      {"avx512bf16", kernels::Isa::kAvx512Bf16},
      {"amx", kernels::Isa::kAmxInt8}};
  const auto isa = std::find_if(std::begin(kIsas), std::end(kIsas),
                                [&](const auto& i) { return i.first == f.isa; });
  if (isa == std::end(kIsas))
    return BadValue("--isa", f.isa, "auto, portable, avx2, avx512, avx512vnni, avx512bf16 or amx");
  config.isa_max = isa->second;
  config.reference = f.reference;
  if (!f.profile.empty()) {
    WEFT_ASSIGN_OR_RETURN(const MachineLimits limits, ReadProfile(f.profile));
    auto costs = CostTableOf(limits);
    if (!costs.ok()) return costs.status().In(fmt::format("--profile {}", f.profile));
    if (config.ranks > 1 && costs->exchanges.empty()) {
      return Status::Invalid(
          "--profile {}: it has no costs of exchanges; `weft bench machine --output` measures them",
          f.profile);
    }
    config.costs = std::move(costs).value();
  }
  return config;
}

void FitToModel(const ModelFlags& f, const io::ModelConfig& model, exec::ExecConfig* config) {
  const Result<ScheduleChoice> choice =
      ChooseSchedule(f.schedule, config->ranks, graph::AllPasses());
  SetThresholds(choice.value().thresholds, model.experts > 0, &config->schedule);
}

Result<engine::EngineConfig> EngineConfigOf(const ModelFlags& f, std::vector<int32_t> eos) {
  engine::EngineConfig config;
  WEFT_ASSIGN_OR_RETURN(const int64_t tokens,
                        ParseSize(f.max_num_batched_tokens, "--max-num-batched-tokens"));
  config.max_num_batched_tokens = static_cast<int32_t>(tokens);
  config.max_num_seqs = std::min(f.max_num_seqs, config.max_num_batched_tokens);
  config.enable_prefix_caching = f.enable_prefix_caching;
  config.enable_chunked_prefill = f.enable_chunked_prefill;
  config.state_checkpoint_interval = f.state_checkpoint_interval;
  config.long_prefill_token_threshold = f.long_prefill_token_threshold;
  config.scheduling_policy = f.scheduling_policy;
  config.queue_max = f.max_num_queued_reqs;
  config.eos_token_ids = std::move(eos);
  config.seed = f.seed;
  WEFT_ASSIGN_OR_RETURN(const SpeculationChoice speculation, ChooseSpeculation(f.speculation));
  config.speculation = speculation.config;
  return config;
}

}  // namespace weft::cli
