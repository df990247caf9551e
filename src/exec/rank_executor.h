// Runs plans on rank teams of this machine; and, for tests, on virtual ranks in plain order.
#pragma once

#include <memory>
#include <span>

#include "base/log.h"
#include "exec/model_instance.h"
#include "exec/step_trace.h"
#include "plan/executor.h"

namespace weft::exec {

// Every rank is a team of pinned workers; the caller of Run() is worker 0 of rank 0.
// Errors of Create: kInvalid naming the flag; kUnsupported for the model or the CPU.
Result<std::unique_ptr<plan::Executor>> CreateRankExecutor(const io::Checkpoint& checkpoint,
                                                           ExecConfig config, LogSink* log);
// One thread walks step by step, rank by rank, with the contracts as kernels: the reference.
Result<std::unique_ptr<plan::Executor>> CreateReferenceExecutor(const io::Checkpoint& checkpoint,
                                                                ExecConfig config, LogSink* log);

// Where config.link makes ranks processes, Run() on rank 0 takes the others along: they call this
// instead, until rank 0 ends it. Returns ok then, or why a step failed.
Status FollowRankZero(plan::Executor& executor);
// On rank 0 before it leaves; nothing where all ranks are here.
Status EndFollowers(plan::Executor& executor);

// Body and head of a step; of a draft step behind it, of one behind another, and of either's head.
enum class PlanKind : uint8_t { kBody, kHead, kDraft, kNextDraft, kDraftHead };
// The plan that would run, without loading a weight. REQUIRES: config.draft_head for plans of
// drafts.
Result<plan::Plan> ExplainPlan(const io::Checkpoint& checkpoint, const ExecConfig& config,
                               PlanKind kind, int32_t rows);

// From the next step on every step of a rank executor's plans is written down; nullptr: no longer.
// It costs two clock readings a step. The trace lives as long as it is set.
void SetTrace(plan::Executor& executor, StepTrace* trace);

// The instance behind either, for benches and tests.
const ModelInstance& InstanceOf(const plan::Executor& executor);
// The float32 logits [V] of head row `row` of the last step, which ran with kSample; until the
// next.
std::span<const float> LogitsOf(const plan::Executor& executor, int32_t row);

}  // namespace weft::exec
