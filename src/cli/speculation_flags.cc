#include "cli/speculation_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/json_option.h"
#include "io/json_fields.h"

namespace weft::cli {

using engine::SpeculationConfig;
using engine::SpeculationMethod;

namespace {

constexpr std::string_view kOption = "--speculative-config";
constexpr int32_t kAutoTokens = 4;  // the most that "auto" tries

// Keys of vLLM's SpeculativeConfig, 0.18 to 0.23.
constexpr std::string_view kKeys[] = {"attention_backend",
                                      "code",
                                      "disable_by_batch_size",
                                      "disable_logprobs",
                                      "disable_padded_drafter_batch",
                                      "draft_load_config",
                                      "draft_sample_method",
                                      "draft_tensor_parallel_size",
                                      "enforce_eager",
                                      "kv_cache_dtype",
                                      "max_model_len",
                                      "method",
                                      "model",
                                      "moe_backend",
                                      "num_speculative_tokens",
                                      "num_speculative_tokens_per_batch_size",
                                      "parallel_drafting",
                                      "posterior_alpha",
                                      "posterior_threshold",
                                      "prompt_lookup_max",
                                      "prompt_lookup_min",
                                      "quantization",
                                      "rejection_sample_method",
                                      "revision",
                                      "speculative_token_tree",
                                      "synthetic_acceptance_length",
                                      "synthetic_acceptance_rates",
                                      "use_local_argmax_reduction"};
constexpr std::string_view kRead[] = {"draft_sample_method",         "method",
                                      "num_speculative_tokens",      "prompt_lookup_max",
                                      "prompt_lookup_min",           "rejection_sample_method",
                                      "synthetic_acceptance_length", "synthetic_acceptance_rates"};
constexpr std::string_view kOtherMethods[] = {
    "custom_class", "deepseek_mtp_eagle",    "dflash", "draft_model",    "dspark", "eagle",
    "eagle3",       "extract_hidden_states", "medusa", "mlp_speculator", "suffix"};

Result<SpeculationMethod> MethodNamed(const std::string& name) {
  if (name == "mtp" || name.ends_with("_mtp")) return SpeculationMethod::kMtp;
  if (name == "ngram" || name == "ngram_gpu") return SpeculationMethod::kNgram;
  const bool known = std::find(std::begin(kOtherMethods), std::end(kOtherMethods), name) !=
                     std::end(kOtherMethods);
  if (known)
    return Status::Unsupported("{}: method '{}' is not built; there are mtp and ngram", kOption,
                               name);
  return Status::Invalid("{}: method '{}': mtp (the checkpoint's draft head) or ngram", kOption,
                         name);
}

Status ReadTokens(const io::JsonFields& fields, SpeculationConfig* out) {
  const Json* tokens = fields.Find("num_speculative_tokens");
  if (tokens != nullptr && tokens->is_string() && tokens->as_string() == "auto") {
    out->automatic = true;
    out->tokens = kAutoTokens;
    return Status::Ok();
  }
  if (tokens == nullptr) {
    return Status::Invalid(
        "{}: num_speculative_tokens is missing; 1 to {}, or \"auto\" for as many as pay", kOption,
        engine::kDraftTokensMax);
  }
  WEFT_ASSIGN_OR_RETURN(const int64_t count,
                        fields.Int("num_speculative_tokens", {1, engine::kDraftTokensMax}));
  out->tokens = static_cast<int32_t>(count);
  return Status::Ok();
}

// One given, the other is the same; none, both are vLLM's 5.
Status ReadLookup(const io::JsonFields& fields, SpeculationConfig* out) {
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> low,
                        fields.IntIfAny("prompt_lookup_min", {1, 1024}));
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> high,
                        fields.IntIfAny("prompt_lookup_max", {1, 1024}));
  out->lookup_min = static_cast<int32_t>(low ? *low : high.value_or(5));
  out->lookup_max = static_cast<int32_t>(high ? *high : low.value_or(5));
  return Status::Ok();
}

// Rates r_j = f^j whose sum is the wanted number of accepted drafts.
std::vector<double> RatesOfLength(double accepted, int32_t tokens) {
  double low = 0, high = 1;
  const auto sum = [&](double f) {
    double total = 0, rate = 1;
    for (int32_t j = 0; j < tokens; ++j) total += rate *= f;
    return total;
  };
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (sum(middle) < accepted ? low : high) = middle;
  }
  std::vector<double> rates;
  for (double rate = high; static_cast<int32_t>(rates.size()) < tokens; rate *= high)
    rates.push_back(rate);
  return rates;
}

Status ReadSampling(const io::JsonFields& fields, SpeculationConfig* out) {
  WEFT_ASSIGN_OR_RETURN(const std::string drafts, fields.StringOr("draft_sample_method", "greedy"));
  if (drafts != "greedy" && drafts != "probabilistic")
    return fields.Bad("draft_sample_method", "greedy or probabilistic",
                      *fields.Find("draft_sample_method"));
  out->drawn = drafts == "probabilistic";
  WEFT_ASSIGN_OR_RETURN(const std::string method,
                        fields.StringOr("rejection_sample_method", "standard"));
  const Json* rates = fields.Find("synthetic_acceptance_rates");
  WEFT_ASSIGN_OR_RETURN(const std::optional<double> length,
                        fields.RealIfAny("synthetic_acceptance_length", {1, 1.0 + out->tokens}));
  if (method == "block")
    return Status::Unsupported(
        "{}: rejection_sample_method 'block' is not built: it would change seeded answers",
        kOption);
  if (method != "standard" && method != "synthetic")
    return fields.Bad("rejection_sample_method", "standard or synthetic",
                      *fields.Find("rejection_sample_method"));
  if (method == "standard") {
    if (rates == nullptr && !length) return Status::Ok();
    return Status::Invalid(
        "{}: synthetic_acceptance_{} needs \"rejection_sample_method\":\"synthetic\"", kOption,
        rates != nullptr ? "rates" : "length");
  }
  std::vector<double> wanted;
  if (rates != nullptr) {
    if (length)
      return Status::Invalid(
          "{}: synthetic_acceptance_rates and synthetic_acceptance_length are two ways to say the "
          "same; give one",
          kOption);
    if (!rates->is_array())
      return fields.Bad("synthetic_acceptance_rates", "an array of numbers", *rates);
    for (const Json& rate : rates->as_array()) {
      if (!rate.is_number())
        return fields.Bad("synthetic_acceptance_rates", "an array of numbers", *rates);
      wanted.push_back(rate.as_double());
    }
  } else if (length) {
    wanted = RatesOfLength(*length - 1, out->tokens);
  } else {
    return Status::Invalid(
        "{}: rejection_sample_method 'synthetic' needs synthetic_acceptance_rates or "
        "synthetic_acceptance_length",
        kOption);
  }
  WEFT_ASSIGN_OR_RETURN(out->synthetic, engine::ConditionalRates(wanted));
  return Status::Ok();
}

}  // namespace

void AddSpeculationFlags(CLI::App& app, SpeculationFlags* f) {
  const char* group = "Speculation";
  app.add_option(std::string(kOption), f->config,
                 "as {\"method\":\"mtp\",\"num_speculative_tokens\":2}: mtp drafts by the "
                 "checkpoint's draft head, ngram by what came before; \"auto\" as many as pay")
      ->type_name("JSON")
      ->group(group);
  app.add_option("--spec-method", f->method, "mtp or ngram")->type_name("NAME")->group(group);
  app.add_option("--spec-tokens", f->tokens, "drafts of a request and step, at most")
      ->type_name("N")
      ->group(group);
}

Result<SpeculationChoice> ChooseSpeculation(const SpeculationFlags& flags) {
  SpeculationChoice choice;
  if (flags.config.empty() && !flags.method && !flags.tokens) return choice;
  WEFT_ASSIGN_OR_RETURN(Json json, ReadObject(flags.config, kOption));
  if (flags.method) json.Set("method", *flags.method);
  if (flags.tokens) json.Set("num_speculative_tokens", *flags.tokens);
  std::vector<std::string> idle;
  WEFT_RETURN_IF_ERROR(CheckKeys(json, std::string(kOption), "", kKeys, kRead, &idle));
  const io::JsonFields fields(json, std::string(kOption));
  if (fields.Find("method") == nullptr)
    return Status::Invalid("{}: method is missing: mtp (the checkpoint's draft head) or ngram",
                           kOption);
  WEFT_ASSIGN_OR_RETURN(const std::string method, fields.StringOr("method", ""));
  SpeculationConfig& config = choice.config;
  WEFT_ASSIGN_OR_RETURN(config.method, MethodNamed(method));
  WEFT_RETURN_IF_ERROR(ReadTokens(fields, &config));
  WEFT_RETURN_IF_ERROR(ReadLookup(fields, &config));
  WEFT_RETURN_IF_ERROR(ReadSampling(fields, &config));
  WEFT_RETURN_IF_ERROR(engine::Validate(config));
  if (!config.synthetic.empty()) {
    choice.notices.push_back(
        {LogLevel::kWarning,
         fmt::format("{}: drafts are accepted by chance (rejection_sample_method 'synthetic'): for "
                     "benches; the text means nothing",
                     kOption)});
  }
  if (!idle.empty()) {
    choice.notices.push_back({LogLevel::kWarning, fmt::format("{}: {}: taken, without effect here",
                                                              kOption, fmt::join(idle, ", "))});
  }
  return choice;
}

}  // namespace weft::cli
