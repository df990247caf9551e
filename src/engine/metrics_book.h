// The engine's counters with vLLM's histogram bounds, empty.
#pragma once

#include <cstdint>

#include "engine/metrics.h"

namespace weft::engine {

MetricsSnapshot MakeMetrics(int32_t max_model_len);

}  // namespace weft::engine
