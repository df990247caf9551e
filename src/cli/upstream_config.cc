#include "cli/upstream_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/json_option.h"
#include "io/json_fields.h"

namespace weft::cli {
namespace {

// The options and their keys are those of vLLM 0.18 to 0.23 and of vllm-ascend 0.18, 0.23 and main,
// so that a launch line of any of them is taken. Acted on: what ReadUpstream reads; the others say
// in one line that they change nothing.
constexpr std::string_view kCompilationKeys[] = {"backend",
                                                 "bs_to_padded_graph_size",
                                                 "cache_dir",
                                                 "compile_cache_save_format",
                                                 "compile_mm_encoder",
                                                 "compile_ranges_endpoints",
                                                 "compile_ranges_split_points",
                                                 "compile_sizes",
                                                 "cudagraph_capture_sizes",
                                                 "cudagraph_copy_inputs",
                                                 "cudagraph_mode",
                                                 "cudagraph_num_of_warmups",
                                                 "cudagraph_specialize_lora",
                                                 "custom_ops",
                                                 "debug_dump_path",
                                                 "dynamic_shapes_config",
                                                 "fast_moe_cold_start",
                                                 "full_cuda_graph",
                                                 "inductor_compile_config",
                                                 "inductor_passes",
                                                 "level",
                                                 "local_cache_dir",
                                                 "max_cudagraph_capture_size",
                                                 "mode",
                                                 "pass_config",
                                                 "splitting_ops",
                                                 "use_cudagraph",
                                                 "use_inductor",
                                                 "use_inductor_graph_partition"};
constexpr std::string_view kPassKeys[] = {"eliminate_noops",
                                          "enable_async_tp",
                                          "enable_attn_fusion",
                                          "enable_fi_allreduce_fusion",
                                          "enable_fusion",
                                          "enable_noop",
                                          "enable_qk_norm_rope_fusion",
                                          "enable_sequence_parallelism",
                                          "enable_sp",
                                          "fi_allreduce_fusion_max_size_mb",
                                          "fi_allreduce_fusion_max_token_num",
                                          "fuse_act_padding",
                                          "fuse_act_quant",
                                          "fuse_allreduce_rms",
                                          "fuse_attn_quant",
                                          "fuse_gemm_comms",
                                          "fuse_norm_quant",
                                          "fuse_rope_kvcache",
                                          "rope_kvcache_fusion_max_token_num",
                                          "sp_min_token_num"};
constexpr std::string_view kAdditionalKeys[] = {"SLO_limits_for_dynamic_batch",
                                                "ascend_compilation_config",
                                                "ascend_fusion_config",
                                                "ascend_log_path",
                                                "ascend_scheduler_config",
                                                "batch_job_sched_config",
                                                "c8_enable_reshape_optim",
                                                "draft_window_size",
                                                "dump_config",
                                                "dump_config_path",
                                                "dynamic_spec_config",
                                                "enable_async_exponential",
                                                "enable_balance_scheduling",
                                                "enable_context_parallel",
                                                "enable_cpu_binding",
                                                "enable_dsa_cp",
                                                "enable_flashcomm1",
                                                "enable_flashcomm2_parallel_size",
                                                "enable_force_eplb",
                                                "enable_fused_mc2",
                                                "enable_kv_nz",
                                                "enable_matmul_allreduce",
                                                "enable_mc2_hierarchy_comm",
                                                "enable_mlapo",
                                                "enable_npugraph_ex",
                                                "enable_pcp_o_proj_weight_sharding",
                                                "enable_prefill_mc2",
                                                "enable_reduce_sample",
                                                "enable_shared_expert_dp",
                                                "enable_sleep_mode_extra_cleanup",
                                                "enable_sparse_c8",
                                                "enable_sparse_li_c8",
                                                "enable_sparse_sfa_c8",
                                                "enable_transpose_kv_cache_by_block",
                                                "eplb_config",
                                                "expert_map_path",
                                                "finegrained_tp_config",
                                                "flashcomm2_parallel_size",
                                                "layer_sharding",
                                                "mega_moe_max_tokens",
                                                "mix_placement",
                                                "mlapo_keep_prefill_weights",
                                                "msmonitor_use_daemon",
                                                "multistream_dsv4_dsa_overlap",
                                                "multistream_overlap_gate",
                                                "multistream_overlap_shared_expert",
                                                "pa_shape_list",
                                                "profiling_chunk_config",
                                                "quest_decode_config",
                                                "recompute_scheduler_enable",
                                                "refresh",
                                                "rejection_sampler_config",
                                                "rl_config",
                                                "scheduler_config",
                                                "short_request_first_config",
                                                "sparse_kv_offload_config",
                                                "torchair_graph_config",
                                                "weight_nz_mode",
                                                "weight_prefetch_config",
                                                "xlite_graph_config"};
constexpr std::string_view kFinegrainedKeys[] = {
    "embedding_tensor_parallel_size", "lmhead_tensor_parallel_size", "mlp_tensor_parallel_size",
    "oproj_tensor_parallel_size"};
constexpr std::string_view kPrefetchKeys[] = {"enabled", "prefetch_ratio"};
constexpr std::string_view kKvTransferKeys[] = {"enable_permute_local_kv",
                                                "engine_id",
                                                "kv_buffer_device",
                                                "kv_buffer_size",
                                                "kv_connector",
                                                "kv_connector_extra_config",
                                                "kv_connector_module_path",
                                                "kv_ip",
                                                "kv_load_failure_policy",
                                                "kv_parallel_size",
                                                "kv_port",
                                                "kv_rank",
                                                "kv_role"};

constexpr std::string_view kFlashComm1 = "VLLM_ASCEND_ENABLE_FLASHCOMM1",
                           kOldFlashComm1 = "VLLM_ASCEND_ENABLE_FLASHCOMM",
                           kFlashComm2 = "VLLM_ASCEND_FLASHCOMM2_PARALLEL_SIZE",
                           kMatmulAllReduce = "VLLM_ASCEND_ENABLE_MATMUL_ALLREDUCE",
                           kOProjAllReduce = "VLLM_ASCEND_FUSED_O_PROJ_AR",
                           kFusedMc2 = "VLLM_ASCEND_ENABLE_FUSED_MC2",
                           kAttentionPrefetch = "VLLM_ASCEND_ATTN_WEIGHT_PREFETCH";
constexpr std::string_view kVariables[] = {
    kFlashComm1, kOldFlashComm1, kFlashComm2, kMatmulAllReduce, kOProjAllReduce, kFusedMc2,
    kAttentionPrefetch,
    // Without effect, from here on.
    "HCCL_BUFFSIZE", "HCCL_OP_EXPANSION_MODE", "PYTORCH_NPU_ALLOC_CONF", "TASK_QUEUE_ENABLE",
    "VLLM_ASCEND_BALANCE_SCHEDULING", "VLLM_ASCEND_ENABLE_CONTEXT_PARALLEL",
    "VLLM_ASCEND_ENABLE_MLAPO", "VLLM_ASCEND_ENABLE_NZ",
    "VLLM_ASCEND_FUSION_OP_TRANSPOSE_KV_CACHE_BY_BLOCK", "VLLM_ASCEND_KEEP_MAMBA_MODE"};
constexpr size_t kVariablesRead = 7;

constexpr std::string_view kCompilation = "--compilation-config",
                           kAdditional = "--additional-config",
                           kKvTransfer = "--kv-transfer-config";
constexpr std::string_view kJsonOptions[] = {kCompilation, kAdditional, kKvTransfer,
                                             "--speculative-config"};

// The object below `key`, or null. Errors: it is none.
Result<const Json*> Inner(const io::JsonFields& fields, std::string_view key) {
  const Json* inner = fields.Find(key);
  if (inner != nullptr && !inner->is_object()) return fields.Bad(key, "an object", *inner);
  return inner;
}

Status ReadBool(const io::JsonFields& fields, std::string_view key,
                std::optional<Asked<bool>>* out) {
  if (fields.Find(key) == nullptr) return Status::Ok();
  WEFT_ASSIGN_OR_RETURN(const bool value, fields.BoolOr(key, false));
  *out = {value, fmt::format("{} {}", fields.file(), key)};
  return Status::Ok();
}

Status ReadInt(const io::JsonFields& fields, std::string_view key, int64_t least,
               std::optional<Asked<int32_t>>* out) {
  WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> value,
                        fields.IntIfAny(key, {least, INT32_MAX}));
  if (value) *out = {static_cast<int32_t>(*value), fmt::format("{} {}", fields.file(), key)};
  return Status::Ok();
}

void TellIdle(std::string_view option, const std::vector<std::string>& idle, std::string_view why,
              UpstreamConfig* out) {
  if (!idle.empty())
    out->notices.push_back({LogLevel::kWarning, fmt::format("{}: {}: taken, without effect here{}",
                                                            option, fmt::join(idle, ", "), why)});
}

Status ReadCompilation(const std::vector<std::string>& words, UpstreamConfig* out) {
  WEFT_ASSIGN_OR_RETURN(const Json json, ReadObject(words, kCompilation));
  constexpr std::string_view kRead[] = {"pass_config"};
  constexpr std::string_view kPassRead[] = {"enable_sp", "enable_sequence_parallelism",
                                            "sp_min_token_num", "fuse_gemm_comms",
                                            "enable_async_tp"};
  std::vector<std::string> idle;
  WEFT_RETURN_IF_ERROR(
      CheckKeys(json, std::string(kCompilation), "", kCompilationKeys, kRead, &idle));
  const io::JsonFields fields(json, std::string(kCompilation));
  WEFT_ASSIGN_OR_RETURN(const Json* passes, Inner(fields, "pass_config"));
  if (passes != nullptr) {
    const io::JsonFields inner(*passes, fmt::format("{} pass_config", kCompilation));
    WEFT_RETURN_IF_ERROR(
        CheckKeys(*passes, inner.file(), "pass_config.", kPassKeys, kPassRead, &idle));
    WEFT_RETURN_IF_ERROR(ReadBool(inner, "enable_sequence_parallelism",
                                  &out->sequence_parallel));  // before vLLM 0.12
    WEFT_RETURN_IF_ERROR(ReadBool(inner, "enable_sp", &out->sequence_parallel));
    WEFT_RETURN_IF_ERROR(ReadInt(inner, "sp_min_token_num", 0, &out->sp_min_token_num));
    // vLLM turns SP on for them: they fuse its exchanges with the matmuls.
    for (const std::string_view key : {"enable_async_tp", "fuse_gemm_comms"}) {
      std::optional<Asked<bool>> fuse;
      WEFT_RETURN_IF_ERROR(ReadBool(inner, key, &fuse));
      if (!fuse || !fuse->value) continue;
      out->sequence_parallel = fuse;
      out->notices.push_back(
          {LogLevel::kWarning,
           fmt::format("{}: turns SP on, as in vLLM; no matmul is fused with an exchange here",
                       fuse->by)});
    }
  }
  TellIdle(kCompilation, idle, " (plans for all sizes are made at start; passes are --opt)", out);
  return Status::Ok();
}

Status ReadLayerSharding(const io::JsonFields& fields, UpstreamConfig* out) {
  const Json* list = fields.Find("layer_sharding");
  if (list == nullptr || *list == Json(Json::Object{}))
    return Status::Ok();  // {} is the documented default
  const Status wrong = fields.Bad("layer_sharding", "an array of names of linear layers", *list);
  if (!list->is_array()) return wrong;
  for (const Json& name : list->as_array()) {
    if (!name.is_string()) return wrong;
    out->layer_sharding.push_back(name.as_string());
  }
  return Status::Ok();
}

Status ReadAdditional(const std::vector<std::string>& words, UpstreamConfig* out) {
  WEFT_ASSIGN_OR_RETURN(const Json json, ReadObject(words, kAdditional));
  constexpr std::string_view kRead[] = {"enable_flashcomm1",
                                        "enable_flashcomm2_parallel_size",
                                        "flashcomm2_parallel_size",
                                        "layer_sharding",
                                        "enable_matmul_allreduce",
                                        "finegrained_tp_config",
                                        "multistream_overlap_shared_expert",
                                        "enable_shared_expert_dp",
                                        "weight_prefetch_config"};
  constexpr std::string_view kPrefetchRead[] = {"enabled"};
  constexpr std::string_view kFinegrainedRead[] = {"oproj_tensor_parallel_size"};
  std::vector<std::string> idle;
  WEFT_RETURN_IF_ERROR(
      CheckKeys(json, std::string(kAdditional), "", kAdditionalKeys, kRead, &idle));
  const io::JsonFields fields(json, std::string(kAdditional));
  WEFT_RETURN_IF_ERROR(ReadBool(fields, "enable_flashcomm1", &out->flashcomm1));
  std::optional<Asked<int32_t>> documented;
  WEFT_RETURN_IF_ERROR(ReadInt(fields, "enable_flashcomm2_parallel_size", INT32_MIN,
                               &out->flashcomm2_parallel_size));
  WEFT_RETURN_IF_ERROR(ReadInt(fields, "flashcomm2_parallel_size", INT32_MIN, &documented));
  if (documented && out->flashcomm2_parallel_size &&
      documented->value != out->flashcomm2_parallel_size->value) {
    return Status::Invalid(
        "{}: 'enable_flashcomm2_parallel_size' is {} and 'flashcomm2_parallel_size' {}; they are "
        "two names of one size",
        kAdditional, out->flashcomm2_parallel_size->value, documented->value);
  }
  if (documented) out->flashcomm2_parallel_size = documented;
  WEFT_RETURN_IF_ERROR(ReadLayerSharding(fields, out));
  WEFT_RETURN_IF_ERROR(
      ReadBool(fields, "multistream_overlap_shared_expert", &out->overlap_shared_expert));
  WEFT_RETURN_IF_ERROR(ReadBool(fields, "enable_shared_expert_dp", &out->shared_expert_dp));
  std::optional<Asked<bool>> fuse;
  WEFT_RETURN_IF_ERROR(ReadBool(fields, "enable_matmul_allreduce", &fuse));
  if (fuse) out->matmul_all_reduce.push_back(*fuse);
  WEFT_ASSIGN_OR_RETURN(const Json* finegrained, Inner(fields, "finegrained_tp_config"));
  if (finegrained != nullptr) {
    const io::JsonFields inner(*finegrained, fmt::format("{} finegrained_tp_config", kAdditional));
    WEFT_RETURN_IF_ERROR(CheckKeys(*finegrained, inner.file(), "finegrained_tp_config.",
                                   kFinegrainedKeys, kFinegrainedRead, &idle));
    WEFT_RETURN_IF_ERROR(
        ReadInt(inner, "oproj_tensor_parallel_size", 0, &out->oproj_tensor_parallel_size));
  }
  WEFT_ASSIGN_OR_RETURN(const Json* prefetch, Inner(fields, "weight_prefetch_config"));
  if (prefetch != nullptr) {
    const io::JsonFields inner(*prefetch, fmt::format("{} weight_prefetch_config", kAdditional));
    WEFT_RETURN_IF_ERROR(CheckKeys(*prefetch, inner.file(), "weight_prefetch_config.",
                                   kPrefetchKeys, kPrefetchRead, &idle));
    WEFT_RETURN_IF_ERROR(ReadBool(inner, "enabled", &out->prefetch_weights));
  }
  TellIdle(kAdditional, idle, "", out);
  return Status::Ok();
}

Status ReadKvTransfer(const std::vector<std::string>& words, UpstreamConfig* out) {
  if (words.empty()) return Status::Ok();
  WEFT_ASSIGN_OR_RETURN(const Json json, ReadObject(words, kKvTransfer));
  std::vector<std::string> idle;
  WEFT_RETURN_IF_ERROR(
      CheckKeys(json, std::string(kKvTransfer), "", kKvTransferKeys, kKvTransferKeys, &idle));
  const io::JsonFields fields(json, std::string(kKvTransfer));
  WEFT_ASSIGN_OR_RETURN(out->kv_role, fields.StringOr("kv_role", ""));
  if (!out->kv_role.empty() && out->kv_role != "kv_producer" && out->kv_role != "kv_consumer" &&
      out->kv_role != "kv_both") {
    return fields.Bad("kv_role", "kv_producer, kv_consumer or kv_both", *fields.Find("kv_role"));
  }
  out->kv_transfer = true;
  out->notices.push_back(
      {LogLevel::kWarning,
       fmt::format(
           "{}: no KV cache leaves this engine; only kv_role is looked at, by FlashComm2's rules",
           kKvTransfer)});
  return Status::Ok();
}

Result<std::optional<Asked<int32_t>>> ReadVariable(const UpstreamWords& words,
                                                   std::string_view name) {
  const auto it = words.environment.find(name);
  if (it == words.environment.end() || it->second.empty()) return std::optional<Asked<int32_t>>();
  const std::string& text = it->second;
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return Status::Invalid("{}='{}': an integer wanted", name, text);
  return std::make_optional(Asked<int32_t>{value, fmt::format("{}={}", name, text)});
}

// An option goes over a variable; that it does is told if they differ.
template <typename T>
void GiveWay(const Asked<T>& variable, std::optional<Asked<T>>* option, UpstreamConfig* out) {
  if (!*option) {
    *option = variable;
  } else if ((*option)->value != variable.value) {
    out->notices.push_back(
        {LogLevel::kInfo, fmt::format("{} gives way to {}", variable.by, (*option)->by)});
  }
}

Status ReadEnvironment(const UpstreamWords& words, UpstreamConfig* out) {
  WEFT_ASSIGN_OR_RETURN(auto flashcomm1, ReadVariable(words, kFlashComm1));
  WEFT_ASSIGN_OR_RETURN(const auto old, ReadVariable(words, kOldFlashComm1));
  if (!flashcomm1 || (flashcomm1->value == 0 && old)) flashcomm1 = old;  // either turns it on
  if (flashcomm1)
    GiveWay(Asked<bool>{flashcomm1->value != 0, flashcomm1->by}, &out->flashcomm1, out);
  WEFT_ASSIGN_OR_RETURN(const auto flashcomm2, ReadVariable(words, kFlashComm2));
  if (flashcomm2) GiveWay(*flashcomm2, &out->flashcomm2_parallel_size, out);

  std::optional<Asked<bool>> option;
  if (!out->matmul_all_reduce.empty()) option = out->matmul_all_reduce.front();
  WEFT_ASSIGN_OR_RETURN(const auto fuse, ReadVariable(words, kMatmulAllReduce));
  if (fuse) GiveWay(Asked<bool>{fuse->value != 0, fuse->by}, &option, out);
  out->matmul_all_reduce.clear();
  if (option && option->value) out->matmul_all_reduce.push_back(*option);
  WEFT_ASSIGN_OR_RETURN(const auto o_proj, ReadVariable(words, kOProjAllReduce));
  if (o_proj && o_proj->value != 0) out->matmul_all_reduce.push_back({true, o_proj->by});

  WEFT_ASSIGN_OR_RETURN(const auto fused, ReadVariable(words, kFusedMc2));
  if (fused && (fused->value < 0 || fused->value > 2))
    return Status::Invalid("{}: 0, 1 or 2 wanted", fused->by);
  if (fused && fused->value > 0) {
    out->notices.push_back(
        {LogLevel::kInfo,
         fmt::format("{}: rows go to their experts in place, by exchange_experts (--opt) where a "
                     "schedule cuts rows; there is no capacity, so no step falls back and no row "
                     "is dropped",
                     fused->by)});
  }

  WEFT_ASSIGN_OR_RETURN(const auto prefetch, ReadVariable(words, kAttentionPrefetch));
  if (prefetch)
    GiveWay(Asked<bool>{prefetch->value != 0, prefetch->by}, &out->prefetch_weights, out);

  std::vector<std::string_view> idle;
  for (const std::string_view name : Names(kVariables).subspan(kVariablesRead)) {
    const auto it = words.environment.find(name);
    if (it != words.environment.end() && !it->second.empty()) idle.push_back(name);
  }
  if (!idle.empty())
    out->notices.push_back({LogLevel::kInfo, fmt::format("environment: {}: without effect here",
                                                         fmt::join(idle, ", "))});
  return Status::Ok();
}

}  // namespace

std::span<const std::string_view> UpstreamVariables() { return kVariables; }

std::span<const std::string_view> JsonOptions() { return kJsonOptions; }

Result<UpstreamConfig> ReadUpstream(const UpstreamWords& words) {
  UpstreamConfig out;
  WEFT_RETURN_IF_ERROR(ReadCompilation(words.compilation_config, &out));
  WEFT_RETURN_IF_ERROR(ReadAdditional(words.additional_config, &out));
  WEFT_RETURN_IF_ERROR(ReadKvTransfer(words.kv_transfer_config, &out));
  WEFT_RETURN_IF_ERROR(ReadEnvironment(words, &out));
  return out;
}

}  // namespace weft::cli
