// The engine's counters in Prometheus' text format, under vLLM's names so that its dashboards work.
// Labels are the served name and the engine's number: nothing that a client writes.
// Thread: pure function.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/metrics.h"

namespace weft::serve {

// What serve itself counts.
struct ServeCounts {
  uint64_t http_requests_2xx = 0;
  uint64_t http_requests_4xx = 0;
  uint64_t http_requests_5xx = 0;
  uint64_t disconnects = 0;  // requests ended because their client went away
  uint64_t connections = 0;  // open now
};

inline constexpr std::string_view kPrometheusContentType =
    "text/plain; version=0.0.4; charset=utf-8";

std::string PrometheusText(const engine::MetricsSnapshot& metrics, const ServeCounts& counts,
                           std::string_view model_name, int32_t max_model_len);

}  // namespace weft::serve
