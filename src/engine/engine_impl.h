// The engine's parts and its loop; engine.cc has the life of the engine, commit.cc what a step's
// results do to its requests.
// Thread: as engine.h. What other threads touch is marked below; the rest is the engine thread's.
#pragma once

#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/mailbox.h"
#include "engine/engine.h"
#include "engine/faults.h"
#include "engine/sampling/params.h"
#include "engine/scheduler/scheduler.h"
#include "engine/step_inputs.h"

namespace weft::engine {

class EngineImpl final : public Engine {
 public:
  static Result<std::unique_ptr<EngineImpl>> Create(EngineConfig config, plan::Executor* executor,
                                                    const Clock* clock, LogSink* log,
                                                    const EngineFaults& faults = {});
  ~EngineImpl() override;

  Status Submit(std::unique_ptr<Request> request) override;
  void Abort(const std::string& request_id) override;
  bool Step() override;
  void Run() override;
  void Stop(bool drain) override;
  MetricsSnapshot Metrics() const override;
  const EngineConfig& config() const override { return config_; }
  Status Health() const override;

  // For tests that look behind the door.
  const KvCache& cache() const { return cache_; }
  const SlotMap& slots() const { return slots_; }
  const StepInputsBuilder& inputs() const { return inputs_; }

 private:
  enum class State : int { kServing, kDraining, kAborting, kDead };
  struct Command {
    std::unique_ptr<Sequence> sequence;  // submitted, or
    std::string abort_id;                // aborted, or neither: a wake-up
  };

  EngineImpl(EngineConfig config, plan::Executor* executor, const Clock* clock, LogSink* log,
             const EngineFaults& faults);

  // engine.cc
  std::unique_ptr<Sequence> MakeSequence(std::unique_ptr<Request> request) const;
  bool TakeCommands();
  void Accept(std::unique_ptr<Sequence> sequence);
  void ExpireDeadlines(int64_t now_ns);
  void NoteAdmitted(std::span<Sequence* const> step);
  void Publish();

  // commit.cc
  void Commit(std::span<Sequence* const> step, int64_t now_ns);
  void CommitSequence(Sequence* s, size_t head, int64_t now_ns);
  void AddPromptLogprob(Sequence* s, size_t head);
  void AddToken(Sequence* s, size_t head, int64_t now_ns);
  Status CheckRow(const SampleOut& row) const;
  void FailStep(std::span<Sequence* const> step, const Status& status);
  void EndAll(FinishReason reason, const Status& why);
  // The last event, without a token.
  void End(Sequence* s, FinishReason reason, const Status& why, bool discard = false);
  void Emit(Sequence* s, TokenEvent event);
  // Takes the sequence out of everything and destroys it.
  void Forget(Sequence* s, FinishReason reason, int64_t now_ns, bool discard);
  std::vector<TokenLogprob> TopOf(size_t head, int32_t count) const;

  const EngineConfig config_;
  plan::Executor* const executor_;
  const Clock* const clock_;
  LogSink* const log_;
  const plan::ExecutorLimits limits_;
  const RequestLimits request_limits_;
  const EngineFaults faults_;

  // Any thread.
  std::atomic<State> state_{State::kServing};
  std::atomic<int32_t> queued_{0};  // accepted and never run yet, wherever they are
  Mailbox<Command> commands_;
  std::mutex overflow_mutex_;  // aborts must not be lost when the mailbox is full
  std::vector<std::string> overflow_aborts_;
  std::atomic<bool> overflowed_{false};
  mutable std::mutex metrics_mutex_;
  MetricsSnapshot published_;
  mutable std::mutex health_mutex_;
  Status health_;

  // The engine's thread.
  KvCache cache_;
  SlotMap slots_;
  Scheduler scheduler_;
  StepInputsBuilder inputs_;
  plan::StepOutputs outputs_;
  std::vector<plan::StateCopy> copies_;  // before the next step
  std::vector<Command> arrived_;
  std::vector<std::string> late_aborts_;
  std::unordered_map<std::string, std::unique_ptr<Sequence>> sequences_;
  uint64_t next_number_ = 0;
  int32_t with_deadline_ = 0;
  int top_stride_ = 0;   // of the step's outputs
  bool hashed_ = false;  // the step's outputs have logits hashes
  MetricsSnapshot live_;
};

}  // namespace weft::engine
