// What the results of a step do to its requests: tokens, ends, errors.
#include <algorithm>

#include "engine/engine_impl.h"

namespace weft::engine {

void EngineImpl::Commit(std::span<Sequence* const> step, int64_t now_ns) {
  size_t head = 0;
  int32_t row = 0;
  parts_.clear();
  for (Sequence* s : step) {
    const int32_t heads = s->chunk_heads, rows = s->chunk, begin = s->computed;
    if (CommitSequence(s, head, now_ns)) {
      // A draft that was accepted and ended its request has nothing behind it.
      const int32_t followed = std::min(s->computed, s->length() - 1) - begin;
      parts_.push_back({.sequence = s, .row = row, .rows = followed, .position = begin});
    }
    head += heads;
    row += rows;
  }
}

bool EngineImpl::CommitSequence(Sequence* s, size_t head, int64_t now_ns) {
  const int32_t chunk = std::exchange(s->chunk, 0);
  const int32_t heads = std::exchange(s->chunk_heads, 0);
  const int32_t drafts = std::exchange(s->chunk_drafts, 0);
  const int32_t first_head = s->computed + chunk - heads;
  const int32_t length = s->length();
  int32_t accepted = 0;
  for (int32_t j = 0; j < heads; ++j, ++head) {
    const SampleOut& row = outputs_.rows[head];
    if (Status status = CheckRow(row); !status.ok()) {
      log_->Warning("request '{}', token {}: {}", s->request->id, s->length(), status.message());
      End(s, FinishReason::kError, status, /*discard=*/true);
      return false;
    }
    if (first_head + j + 1 < length) {
      AddPromptLogprob(s, head);
      continue;
    }
    const bool drafted = accepted < drafts;
    bool accept = drafted && row.id == s->drafts[accepted];
    if (drafted && !config_.speculation.synthetic.empty())
      accept = SyntheticAccepts(config_.speculation, s->seed, length + accepted, accepted);
    AddToken(s, accept ? s->drafts[accepted] : row.id, head, now_ns);
    if (accept) ++accepted;
    if (!accept || s->ended != FinishReason::kNone) break;
  }
  s->computed += chunk - drafts + accepted;
  s->replay = accepted + (faults_.accepted_off_by_one && accepted < drafts ? 1 : 0);
  s->drafts.clear();
  if (drafts > 0) CountDrafts(drafts, accepted);
  if (length < s->length()) {
    if (s->last_token_ns != 0) {
      live_.inter_token_latency_s.Observe(static_cast<double>(now_ns - s->last_token_ns) /
                                          kNsPerSecond);
    }
    s->last_token_ns = now_ns;
  }
  return true;
}

void EngineImpl::Settle(int64_t now_ns) {
  for (const DraftPart& part : parts_) {
    Sequence* s = part.sequence;
    cache_.Publish(s->tokens, s->computed, s->request->cache_salt, &s->kv);
    if (scheduler_.KeepsStateAt(*s, s->computed)) {
      if (const int32_t slot = cache_.Checkpoint(s->computed, s->kv); slot != 0) {
        copies_.push_back({s->seat + 1, slot});
        ++live_.state_checkpoints;
      }
    }
    if (s->ended != FinishReason::kNone) Forget(s, s->ended, now_ns, /*discard=*/false);
  }
}

void EngineImpl::CountDrafts(int32_t drafted, int32_t accepted) {
  pace_.Verified(drafted, accepted);
  ++live_.spec_decode_drafts;
  live_.spec_decode_draft_tokens += static_cast<uint64_t>(drafted);
  live_.spec_decode_accepted_tokens += static_cast<uint64_t>(accepted);
  for (int32_t j = 0; j < accepted; ++j)
    ++live_.spec_decode_accepted_per_pos[static_cast<size_t>(j)];
}

Status EngineImpl::CheckRow(const SampleOut& row) const {
  if (row.has_nan != 0) {
    return Status::Internal("the logits contain NaN, so there is no next token");
  }
  if (row.id < 0 || row.id >= limits_.vocab_size) {
    return Status::Internal("the sampler gave token id {}, outside of 0 .. {}", row.id,
                            limits_.vocab_size - 1);
  }
  return Status::Ok();
}

void EngineImpl::AddPromptLogprob(Sequence* s, size_t head) {
  const SampleOut& row = outputs_.rows[head];
  s->prompt_logprobs.push_back({.token = {.id = row.id, .logprob = row.logprob, .rank = row.rank},
                                .top = TopOf(head, *s->sampling().prompt_logprobs)});
  ++s->prompt_logprobs_known;
}

void EngineImpl::AddToken(Sequence* s, int32_t id, size_t head, int64_t now_ns) {
  const SampleOut& row = outputs_.rows[head];
  s->tokens.push_back(id);
  s->seen.Add(id);
  TokenEvent event{.id = id, .at_ns = now_ns};
  if (s->sampling().logprobs) {
    event.logprob = TokenLogprob{.id = id, .logprob = row.logprob, .rank = row.rank};
    event.top = TopOf(head, *s->sampling().logprobs);
  }
  if (hashed_ && s->request->hash_logits) event.logits_hash = outputs_.logits_hash[head];

  const StopMask::Verdict verdict = s->stop.Judge(id, s->outputs());
  event.stop_token = verdict.stop_token;
  if (verdict.stop) {
    event.finish = FinishReason::kStop;
  } else if (s->length() >= s->tokens_max) {
    event.finish = FinishReason::kLength;
  }
  ++live_.generation_tokens;
  if (s->outputs() == 1) {
    live_.prompt_tokens += s->prompt_tokens;
    live_.time_to_first_token_s.Observe(static_cast<double>(now_ns - s->request->arrival_ns) /
                                        kNsPerSecond);
  }
  s->ended = event.finish;
  Emit(s, std::move(event));
}

std::vector<TokenLogprob> EngineImpl::TopOf(size_t head, int32_t count) const {
  std::vector<TokenLogprob> top;
  const int32_t n = std::min({count, top_stride_, limits_.vocab_size});
  top.reserve(n);
  for (int32_t i = 0; i < n; ++i) {
    const size_t at = head * top_stride_ + i;
    top.push_back(
        {.id = outputs_.top_ids[at], .logprob = outputs_.top_logprobs[at], .rank = i + 1});
  }
  return top;
}

void EngineImpl::FailStep(std::span<Sequence* const> step, const Status& status) {
  log_->Error("a step of {} requests failed: {}", step.size(), status.message());
  // A rank that did not arrive will not arrive for the next step either.
  if (status.code() == StatusCode::kDeadline || status.code() == StatusCode::kUnavailable) {
    {
      std::lock_guard lock(health_mutex_);
      health_ = Status::Unavailable("the executor is unusable: {}", status.message());
    }
    state_.store(State::kDead, std::memory_order_release);
    EndAll(FinishReason::kError, status);
    return;
  }
  for (Sequence* s : step) End(s, FinishReason::kError, status);
}

void EngineImpl::FailDraft(const Status& status, int64_t now_ns) {
  std::vector<Sequence*> left;
  for (const DraftPart& part : parts_) {
    if (part.sequence->ended == FinishReason::kNone) {
      left.push_back(part.sequence);
    } else {
      Forget(part.sequence, part.sequence->ended, now_ns, /*discard=*/true);
    }
  }
  parts_.clear();
  FailStep(left, status);
}

void EngineImpl::EndAll(FinishReason reason, const Status& why) {
  // In order of acceptance, so that a replay tells the same story.
  std::vector<Sequence*> all;
  all.reserve(sequences_.size());
  for (const auto& [id, s] : sequences_) all.push_back(s.get());
  std::sort(all.begin(), all.end(),
            [](const Sequence* a, const Sequence* b) { return a->number < b->number; });
  for (Sequence* s : all) End(s, reason, why);
}

void EngineImpl::End(Sequence* s, FinishReason reason, const Status& why, bool discard) {
  const int64_t now_ns = clock_->NowNs();
  Emit(s, TokenEvent{.finish = reason, .error = why, .at_ns = now_ns});
  Forget(s, reason, now_ns, discard);
}

void EngineImpl::Emit(Sequence* s, TokenEvent event) {
  if (!s->heard) {
    s->heard = true;
    event.cached_tokens = std::max(s->cached_tokens, 0);
    event.seed = s->seed;
    event.prompt_logprobs = std::move(s->prompt_logprobs);
  }
  s->request->sink(std::move(event));
}

void EngineImpl::Forget(Sequence* s, FinishReason reason, int64_t now_ns, bool discard) {
  if (s->queued) queued_.fetch_sub(1, std::memory_order_relaxed);
  if (s->request->deadline_ns != 0) --with_deadline_;
  ++live_.finished[static_cast<size_t>(reason)];
  live_.e2e_request_latency_s.Observe(static_cast<double>(now_ns - s->request->arrival_ns) /
                                      kNsPerSecond);
  live_.request_prompt_tokens.Observe(s->prompt_tokens);
  live_.request_generation_tokens.Observe(s->outputs());
  scheduler_.Remove(s, discard);
  sequences_.erase(sequences_.find(s->request->id));
}

}  // namespace weft::engine
