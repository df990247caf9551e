// The engine's parts and its loop; engine.cc has the life of the engine, commit.cc what a step's
// results do to its requests, draft.cc what the next one shall verify.
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
#include "engine/speculation/draft_inputs.h"
#include "engine/speculation/pace.h"
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
  // False if the sequence ended with an error, and is gone.
  bool CommitSequence(Sequence* s, size_t head, int64_t now_ns);
  // Of parts_: what was computed becomes findable, and who ended leaves.
  void Settle(int64_t now_ns);
  void AddPromptLogprob(Sequence* s, size_t head);
  void AddToken(Sequence* s, int32_t id, size_t head, int64_t now_ns);
  Status CheckRow(const SampleOut& row) const;
  void CountDrafts(int32_t drafted, int32_t accepted);
  void FailStep(std::span<Sequence* const> step, const Status& status);
  // Of parts_, those who ended leave as they would have, the others with the error. None is left.
  void FailDraft(const Status& status, int64_t now_ns);
  void EndAll(FinishReason reason, const Status& why);
  // The last event, without a token.
  void End(Sequence* s, FinishReason reason, const Status& why, bool discard = false);
  void Emit(Sequence* s, TokenEvent event);
  // Takes the sequence out of everything and destroys it.
  void Forget(Sequence* s, FinishReason reason, int64_t now_ns, bool discard);
  std::vector<TokenLogprob> TopOf(size_t head, int32_t count) const;

  // draft.cc
  // Drafts for the sequences of parts_, after Commit().
  Status Draft();
  Status Guess(const Pace::Choice& pace);
  Status DraftByHead(const Pace::Choice& pace);
  // Whether the draft head computes what the sequence does.
  bool FollowsWithDrafts(const Sequence& s, const Pace::Choice& pace) const;
  int32_t DraftsFor(const Sequence& s, const Pace::Choice& pace) const;
  // verified: drafts that each of the step's sequences had, all of them decodes; -1: they were not
  // alike.
  void NotePace(std::span<Sequence* const> step, int32_t verified, int64_t step_ns,
                int64_t draft_ns);

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
  Pace pace_;
  DraftInputsBuilder draft_inputs_;
  std::vector<DraftPart> parts_;     // of the step that was run
  std::vector<DraftPart> drafting_;  // those of them that draft
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
