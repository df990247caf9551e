// What `weft run --json` prints: everything that two runs can be compared by.
#pragma once

#include <vector>

#include "base/json.h"
#include "cli/session.h"
#include "engine/metrics.h"

namespace weft::cli {

// Floats stand as decimals and, under *_hex, with all their bits. `metrics`: of the engine that ran
// it alone.
Json AnswerJson(const LoadedModel& model, const plan::Executor& executor, size_t prompt_tokens,
                const Answer& answer, const engine::MetricsSnapshot& metrics);

}  // namespace weft::cli
