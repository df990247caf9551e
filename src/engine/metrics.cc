#include "engine/metrics.h"

#include <algorithm>

#include "engine/metrics_book.h"

namespace weft::engine {
namespace {

Histogram Make(std::vector<double> bounds) {
  Histogram histogram;
  histogram.counts.assign(bounds.size() + 1, 0);
  histogram.bounds = std::move(bounds);
  return histogram;
}

// 1, 2, 5, 10, 20, 50, ... up to the first that is not below `max`; vLLM's buckets for lengths.
std::vector<double> Decades(double max) {
  std::vector<double> bounds;
  for (double power = 1;; power *= 10) {
    for (double digit : {1.0, 2.0, 5.0}) {
      if (!bounds.empty() && bounds.back() >= max) return bounds;
      bounds.push_back(digit * power);
    }
  }
}

}  // namespace

void Histogram::Observe(double value) {
  const auto at = std::lower_bound(bounds.begin(), bounds.end(), value);
  ++counts[at - bounds.begin()];
  sum += value;
}

MetricsSnapshot MakeMetrics(int32_t max_model_len) {
  MetricsSnapshot m;
  const std::vector<double> request_s{0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                      30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
  m.time_to_first_token_s =
      Make({0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
            1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560});
  // vLLM's begin at 10 ms, too coarse for a token every 5 ms.
  m.inter_token_latency_s =
      Make({0.0005, 0.001, 0.0025, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
            0.3,    0.4,   0.5,    0.75,  1,      2.5,  5,     7.5,  10,    20,  40,   80});
  m.e2e_request_latency_s = Make(request_s);
  m.request_queue_time_s = Make(request_s);
  m.request_prompt_tokens = Make(Decades(max_model_len));
  m.request_generation_tokens = Make(Decades(max_model_len));
  m.iteration_tokens = Make({1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384});
  return m;
}

}  // namespace weft::engine
