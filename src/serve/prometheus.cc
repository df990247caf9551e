#include "serve/prometheus.h"

#include <fmt/format.h>

#include <array>

#include "engine/request.h"

namespace weft::serve {
namespace {

// Writes families; a family is its HELP and TYPE lines and then its samples.
class Text {
 public:
  explicit Text(std::string_view model_name) {
    labels_ = fmt::format("engine=\"0\",model_name=\"{}\"", Escape(model_name));
  }

  void Gauge(std::string_view name, std::string_view help, double value) {
    Family(name, help, "gauge");
    Sample(name, "", value);
  }
  void Counter(std::string_view name, std::string_view help, double value) {
    Family(name, help, "counter");
    Sample(name, "", value);
  }
  void Family(std::string_view name, std::string_view help, std::string_view type) {
    out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void Sample(std::string_view name, std::string_view more_labels, double value) {
    out_ += fmt::format("{}{{{}{}{}}} {}\n", name, labels_, more_labels.empty() ? "" : ",",
                        more_labels, value);
  }
  void Histogram(std::string_view name, std::string_view help, const engine::Histogram& h) {
    Family(name, help, "histogram");
    uint64_t below = 0;
    const std::string bucket = fmt::format("{}_bucket", name);
    for (size_t i = 0; i < h.bounds.size(); ++i) {
      if (i < h.counts.size()) below += h.counts[i];
      Sample(bucket, fmt::format("le=\"{}\"", h.bounds[i]), static_cast<double>(below));
    }
    if (h.counts.size() > h.bounds.size()) below += h.counts[h.bounds.size()];
    Sample(bucket, "le=\"+Inf\"", static_cast<double>(below));
    Sample(fmt::format("{}_sum", name), "", h.sum);
    Sample(fmt::format("{}_count", name), "", static_cast<double>(below));
  }
  std::string Take() { return std::move(out_); }

  static std::string Escape(std::string_view value) {
    std::string out;
    for (const char c : value) {
      if (c == '\\' || c == '"') out += '\\';
      if (c == '\n') {
        out += "\\n";
      } else {
        out += c;
      }
    }
    return out;
  }

 private:
  std::string labels_;
  std::string out_;
};

}  // namespace

std::string PrometheusText(const engine::MetricsSnapshot& m, const ServeCounts& counts,
                           std::string_view model_name, int32_t max_model_len) {
  const auto n = [](auto value) { return static_cast<double>(value); };
  Text text(model_name);
  text.Gauge("vllm:num_requests_running", "Requests in the running batch.", n(m.requests_running));
  text.Gauge("vllm:num_requests_waiting", "Requests that wait to be scheduled.",
             n(m.requests_waiting));
  text.Gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use; 1 is full.",
             m.kv_cache_usage);
  text.Counter("vllm:num_preemptions_total", "Requests taken out of the batch for want of memory.",
               n(m.preemptions));
  text.Counter("vllm:prompt_tokens_total", "Prompt tokens, computed or cached.",
               n(m.prompt_tokens));
  text.Counter("vllm:generation_tokens_total", "Tokens generated.", n(m.generation_tokens));
  text.Counter("vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache.",
               n(m.prefix_cache_queries));
  text.Counter("vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.",
               n(m.prefix_cache_hits));
  text.Counter("weft:state_checkpoints_total", "Recurrent states of prefixes that were kept.",
               n(m.state_checkpoints));
  text.Counter("weft:state_checkpoint_hits_total", "Requests that began from a kept state.",
               n(m.state_checkpoint_hits));
  if (m.spec_decode_tokens > 0) {
    text.Counter("vllm:spec_decode_num_drafts_total",
                 "Steps of requests in which drafts were verified.", n(m.spec_decode_drafts));
    text.Counter("vllm:spec_decode_num_draft_tokens_total", "Drafts that were verified.",
                 n(m.spec_decode_draft_tokens));
    text.Counter("vllm:spec_decode_num_accepted_tokens_total", "Drafts that were accepted.",
                 n(m.spec_decode_accepted_tokens));
    text.Family("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                "Drafts that were accepted, by place among those of a step.", "counter");
    for (int32_t j = 0; j < m.spec_decode_tokens; ++j) {
      text.Sample("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                  fmt::format("position=\"{}\"", j),
                  n(m.spec_decode_accepted_per_pos[static_cast<size_t>(j)]));
    }
  }
  text.Family("vllm:request_success_total", "Requests that ended, by how.", "counter");
  constexpr std::array<std::string_view, 5> kReasons{"", "stop", "length", "abort", "error"};
  for (size_t i = 1; i < kReasons.size(); ++i) {
    text.Sample("vllm:request_success_total", fmt::format("finished_reason=\"{}\"", kReasons[i]),
                n(m.finished[i]));
  }
  text.Histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.",
                 m.time_to_first_token_s);
  text.Histogram("vllm:inter_token_latency_seconds", "Between two tokens of a request.",
                 m.inter_token_latency_s);
  text.Histogram("vllm:e2e_request_latency_seconds", "From arrival to the end.",
                 m.e2e_request_latency_s);
  text.Histogram("vllm:request_queue_time_seconds", "From arrival to the first step.",
                 m.request_queue_time_s);
  text.Histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.",
                 m.request_prompt_tokens);
  text.Histogram("vllm:request_generation_tokens", "Generated tokens of a request.",
                 m.request_generation_tokens);
  text.Histogram("vllm:iteration_tokens_total", "Tokens of one step.", m.iteration_tokens);

  text.Counter("weft:steps_total", "Steps run.", n(m.steps));
  text.Counter("weft:tokens_scheduled_total", "Rows of all steps.", n(m.tokens_scheduled));
  text.Family("weft:step_seconds_total", "Time of steps by where it went.", "counter");
  text.Sample("weft:step_seconds_total", "phase=\"run\"", m.step_s);
  text.Sample("weft:step_seconds_total", "phase=\"host\"", m.host_s);
  text.Gauge("weft:max_model_len", "Longest prompt plus answer, in tokens.", n(max_model_len));
  text.Family("weft:http_requests_total", "HTTP requests answered, by class of status.", "counter");
  text.Sample("weft:http_requests_total", "status=\"2xx\"", n(counts.http_requests_2xx));
  text.Sample("weft:http_requests_total", "status=\"4xx\"", n(counts.http_requests_4xx));
  text.Sample("weft:http_requests_total", "status=\"5xx\"", n(counts.http_requests_5xx));
  text.Counter("weft:http_disconnects_total", "Requests whose client went away.",
               n(counts.disconnects));
  text.Gauge("weft:http_connections", "Open connections.", n(counts.connections));
  // Labels of these come from plans: row counts, and names of schedules and passes.
  text.Family("weft:schedule_info",
              "What steps of these row counts do where ranks exchange, and why not as asked.",
              "gauge");
  const auto rows = [](const plan::SchedulePart& p) {
    return fmt::format("rows=\"{}-{}\"", p.rows_min, p.rows_max);
  };
  for (const plan::SchedulePart& p : m.schedules) {
    text.Sample(
        "weft:schedule_info",
        fmt::format("{},schedule=\"{}\",reason=\"{}\"", rows(p), p.schedule, Text::Escape(p.note)),
        1);
  }
  text.Family("weft:pass_rewrites",
              "Rewrites of passes that were switched on by name, in the plans of these row counts.",
              "gauge");
  for (const plan::SchedulePart& p : m.schedules) {
    for (const auto& [pass, rewrites] : p.rewrites)
      text.Sample("weft:pass_rewrites", fmt::format("{},pass=\"{}\"", rows(p), pass), rewrites);
  }
  return text.Take();
}

}  // namespace weft::serve
