#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace weft::engine {
Scheduler::Scheduler(const SchedulerConfig& config, KvCache* cache, SlotMap* slots)
    : config_(config), cache_(cache), slots_(slots) {
  running_.reserve(config.max_num_seqs);
  step_.reserve(config.max_num_seqs);
  order_.reserve(config.max_num_seqs);
  restores_.reserve(config.max_num_seqs);
}

void Scheduler::Add(Sequence* sequence) { Enqueue(sequence); }

void Scheduler::Remove(Sequence* sequence, bool discard) {
  if (discard) {
    cache_->Discard(&sequence->kv);
  } else {
    cache_->Release(&sequence->kv);
  }
  if (sequence->seat >= 0) {
    slots_->LeaveSeat(sequence->seat);
    sequence->seat = -1;
    std::erase(running_, sequence);
  } else {
    std::erase(waiting_, sequence);
  }
}

std::span<Sequence* const> Scheduler::Plan(int64_t now_ns) {
  Budget budget{.tokens = config_.max_num_batched_tokens, .rows = config_.rows_max};
  preempted_ = false;
  restores_.clear();
  for (Sequence* s : running_) s->chunk = s->chunk_heads = s->chunk_drafts = 0;
  ServeRunning(/*decodes=*/true, &budget);
  ServeRunning(/*decodes=*/false, &budget);
  // What a preemption has just freed belongs to those who needed it, not to newcomers.
  if (!preempted_) AdmitWaiting(now_ns, &budget);
  step_.clear();
  for (Sequence* s : running_) {
    if (s->chunk > 0) step_.push_back(s);
  }
  return step_;
}

Sequence* Scheduler::Stuck() const {
  return running_.empty() && !waiting_.empty() ? waiting_.back() : nullptr;
}

bool Scheduler::Size(Sequence* s, int32_t computed, const Budget& budget) const {
  const int32_t missing = s->length() - computed;
  int32_t tokens = missing;
  if (config_.long_prefill_token_threshold > 0) {
    tokens = std::min(tokens, config_.long_prefill_token_threshold);
  }
  tokens = std::min(tokens, budget.tokens);
  // One that was cut for its head rows goes on; only a start may wait for room for all of it.
  if (!config_.chunked_prefill && s->seat < 0 && tokens < missing) return false;
  // A prompt that is to be computed at once is, and leaves no state behind.
  if (config_.chunked_prefill) tokens = std::min(tokens, NextCheckpoint(*s, computed) - computed);
  // Rows before `first` need no head; from there on each does, within what is left of them.
  const int32_t first = std::max(s->first_head_position(), computed);
  tokens = std::min(tokens, first - computed + budget.rows);
  s->chunk = tokens;
  s->chunk_heads = std::max(computed + tokens - first, 0);
  return tokens > 0;
}

int32_t Scheduler::NextCheckpoint(const Sequence& s, int32_t computed) const {
  int32_t next = INT32_MAX;
  if (!cache_->recurrent() || !cache_->prefix_caching()) return next;
  const int32_t page = cache_->page_tokens(), interval = config_.state_checkpoint_interval;
  const int32_t last = (s.prompt_tokens - 1) / page * page;
  if (last > computed) next = last;
  if (s.junction > computed) next = std::min(next, s.junction);
  if (interval > 0 && computed / interval * interval + interval < last)
    next = std::min(next, computed / interval * interval + interval);
  return next;
}

bool Scheduler::KeepsStateAt(const Sequence& s, int32_t computed) const {
  return computed > 0 && NextCheckpoint(s, computed - 1) == computed;
}

void Scheduler::ServeRunning(bool decodes, Budget* budget) {
  order_.clear();
  for (Sequence* s : running_) {
    if (s->chunk == 0 && s->decodes() == decodes) order_.push_back(s);
  }
  // Decodes all get their token whatever the order (max_num_seqs <= budget); prefills do not.
  if (!decodes) {
    std::sort(order_.begin(), order_.end(), [this](const Sequence* a, const Sequence* b) {
      return config_.policy->before(*a, *b);
    });
  }
  // What drafts may take: each decode behind this one gets its token first.
  auto behind = static_cast<int32_t>(order_.size());
  for (Sequence* s : order_) {
    --behind;
    if (s->seat < 0) continue;  // preempted by one before it
    if (budget->tokens == 0) break;
    if (!Size(s, s->computed, *budget)) {
      s->chunk = s->chunk_heads = 0;
      continue;
    }
    int32_t chunk = std::exchange(s->chunk, 0);
    int32_t heads = std::exchange(s->chunk_heads, 0);
    int32_t drafts = 0;
    if (decodes) {
      const int32_t room = std::min(budget->tokens, budget->rows) - 1 - behind;
      drafts = std::clamp(room, 0, static_cast<int32_t>(s->drafts.size()));
      // A draft is worth no other sequence's blocks.
      if (drafts > 0 && !cache_->Reserve(s->computed + chunk + drafts, &s->kv)) drafts = 0;
      s->drafts.resize(static_cast<size_t>(drafts));
      chunk += drafts;
      heads += drafts;
    }
    while (s->seat >= 0 && !cache_->Reserve(s->computed + chunk, &s->kv)) {
      Preempt(LastRunning(), budget);
    }
    if (s->seat < 0) continue;
    s->chunk = chunk;
    s->chunk_heads = heads;
    s->chunk_drafts = drafts;
    budget->tokens -= chunk;
    budget->rows -= heads;
  }
}

void Scheduler::AdmitWaiting(int64_t now_ns, Budget* budget) {
  // Deferred ones stay at the back, in front of those who are admitted past them.
  size_t deferred = 0;
  while (waiting_.size() > deferred && budget->tokens > 0 &&
         static_cast<int32_t>(running_.size()) < config_.max_num_seqs) {
    Sequence* s = waiting_[waiting_.size() - 1 - deferred];
    // One token is always computed, for its logits; prompt logprobs need all that are not yet
    // known.
    const int32_t limit = std::min(s->length() - 1, s->first_head_position());
    KvCache::Match match;
    while (true) {
      match = cache_->Find(s->tokens, limit, s->request->cache_salt, &s->kv);
      // All of its tokens must fit, not only the first chunk: else it is preempted half way.
      const int32_t missing = cache_->BlocksFor(s->length()) - match.blocks + match.free_blocks -
                              (cache_->pool().free() - PromisedBlocks());
      if (missing <= 0) break;
      if (!Displace(*s, missing, budget)) return;
    }
    if (IsBeingComputed(*s, match.blocks, limit)) {
      if (++deferred >= static_cast<size_t>(config_.max_num_seqs)) return;
      continue;
    }
    const int32_t cached = match.blocks * cache_->page_tokens();
    s->junction = match.known > match.blocks ? match.known * cache_->page_tokens() : 0;
    if (!Size(s, cached, *budget)) {
      s->chunk = s->chunk_heads = 0;
      break;
    }
    cache_->Take(match, &s->kv);
    const bool reserved = cache_->Reserve(cached + s->chunk, &s->kv);
    WEFT_CHECK(reserved, "blocks for {} tokens were free and are not", cached + s->chunk);
    s->computed = cached;
    s->draft_cache = true;
    s->seat = slots_->TakeSeat();
    if (match.state != 0) restores_.push_back({match.state, s->seat + 1});
    std::erase(waiting_, s);
    running_.push_back(s);
    budget->tokens -= s->chunk;
    budget->rows -= s->chunk_heads;
    if (s->cached_tokens < 0) {  // a preempted one was counted when it first came
      s->cached_tokens = cached;
      s->admitted_ns = now_ns;
      prefix_queries_ += s->length();
      prefix_hits_ += cached;
    }
    if (preempted_) return;  // what it did not need is not for newcomers
  }
}

bool Scheduler::IsBeingComputed(const Sequence& waiting, int32_t found, int32_t limit) const {
  if (!cache_->prefix_caching() || (found + 1) * cache_->page_tokens() > limit) return false;
  // The hash decides nothing here but who waits a step. A state is kept at the end only.
  const int32_t block = cache_->recurrent() ? limit / cache_->page_tokens() - 1 : found;
  const auto index = static_cast<size_t>(block);
  return std::any_of(running_.begin(), running_.end(), [&](const Sequence* s) {
    return s->kv.published <= block && s->kv.hashes.size() > index &&
           s->kv.hashes[index] == waiting.kv.hashes[index];
  });
}

bool Scheduler::Displace(const Sequence& waiting, int32_t missing, Budget* budget) {
  // Look before taking: nobody is preempted if all of them together would not be enough.
  for (const Sequence* s : running_) {
    if (!config_.policy->displaces(waiting, *s)) continue;
    missing -= std::max(MissingBlocks(*s), 0);
    for (int32_t block : s->kv.blocks) missing -= cache_->pool().references(block) == 1;
  }
  Sequence* victim = LastRunning();
  if (missing > 0 || victim == nullptr || !config_.policy->displaces(waiting, *victim)) {
    return false;
  }
  Preempt(victim, budget);
  return true;
}

Sequence* Scheduler::LastRunning() const {
  const auto last = std::max_element(
      running_.begin(), running_.end(),
      [this](const Sequence* a, const Sequence* b) { return config_.policy->before(*a, *b); });
  return last == running_.end() ? nullptr : *last;
}

void Scheduler::Preempt(Sequence* victim, Budget* budget) {
  WEFT_CHECK(victim != nullptr, "blocks ran out though nothing runs");
  budget->tokens += std::exchange(victim->chunk, 0);
  budget->rows += std::exchange(victim->chunk_heads, 0);
  victim->chunk_drafts = 0;
  victim->drafts.clear();
  victim->replay = 0;
  Remove(victim);
  victim->computed = 0;
  ++victim->preemptions;
  ++preemptions_;
  preempted_ = true;
  Enqueue(victim);
}

void Scheduler::Enqueue(Sequence* sequence) {
  const auto at = std::upper_bound(
      waiting_.begin(), waiting_.end(), sequence,
      [this](const Sequence* a, const Sequence* b) { return config_.policy->before(*b, *a); });
  waiting_.insert(at, sequence);
}

int32_t Scheduler::PromisedBlocks() const {
  int32_t promised = 0;
  for (const Sequence* s : running_) promised += std::max(MissingBlocks(*s), 0);
  return promised;
}

int32_t Scheduler::MissingBlocks(const Sequence& s) const {
  return cache_->BlocksFor(s.length()) - static_cast<int32_t>(s.kv.blocks.size());
}

}  // namespace weft::engine
