// A model whose next token is a hash of the whole sequence, read back through pages and slots.
//
// It keeps a KV cache of cells (token, position, hash of all before). A stale, foreign or evicted
// page changes every hash after it, so it changes the tokens; and most such reads are also counted
// as violations where they happen. With limits.states it also has a recurrence: the hash goes on
// from a slot instead of from position 0. What a request must answer can be computed without it
// (Expect()). Thread: as plan::Executor. A step allocates nothing in greedy mode.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/clock.h"
#include "plan/executor.h"

namespace weft::support {

inline uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t z = (a ^ (b * 0x9e3779b97f4a7c15u)) + 0x632be59bd9b4e019u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The model as pure functions of a sequence's hash.
struct HashModel {
  int32_t vocab_size = 64;
  uint64_t seed = 1;

  uint64_t Start() const { return Mix(seed, 0x57a7); }
  uint64_t Append(uint64_t hash, int32_t token) const {
    return Mix(hash, static_cast<uint64_t>(token));
  }
  float Logit(uint64_t hash, int32_t id) const {
    return static_cast<float>(Mix(hash, 0x10000 + id) >> 40) * 0x1.0p-20f - 8.0f;
  }
  int32_t Argmax(uint64_t hash) const {
    int32_t best = 0;
    for (int32_t i = 1; i < vocab_size; ++i) {
      if (Logit(hash, i) > Logit(hash, best)) best = i;
    }
    return best;
  }
  // Log-probability and rank of `id`, from the raw logits.
  SampleOut Score(uint64_t hash, int32_t id) const {
    SampleOut out{.id = id, .rank = 1};
    const float own = Logit(hash, id);
    double sum = 0;
    for (int32_t i = 0; i < vocab_size; ++i) {
      const float logit = Logit(hash, i);
      out.rank += logit > own;
      sum += std::exp(static_cast<double>(logit));
    }
    out.logprob = static_cast<float>(own - std::log(sum));
    return out;
  }
  // A sampler of the same inputs and order as kernels/sample, though not of the same bits.
  SampleOut Sample(uint64_t hash, const SampleRow& row) const {
    if (row.target >= 0) return Score(hash, row.target);
    std::vector<float> logits(vocab_size);
    for (int32_t i = 0; i < vocab_size; ++i) logits[i] = Logit(hash, i);
    for (int32_t i = 0; i < row.banned_count; ++i) logits[row.banned[i]] = -INFINITY;
    for (int32_t i = 0; i < row.biases; ++i) logits[row.bias_ids[i]] += row.bias[i];
    for (int32_t i = 0; i < row.seen; ++i) {
      float& logit = logits[row.seen_ids[i]];
      logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
      const int32_t count = row.seen_counts[i];
      logit -= row.frequency_penalty * static_cast<float>(count);
      logit -= count > 0 ? row.presence_penalty : 0;
    }
    std::vector<int32_t> order(vocab_size);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
    if (row.temperature == 0) return Score(hash, order[0]);
    if (row.top_k > 0 && row.top_k < vocab_size) order.resize(row.top_k);
    std::vector<double> weights;
    double total = 0;
    for (int32_t id : order) {
      weights.push_back(
          std::exp((static_cast<double>(logits[id]) - logits[order[0]]) / row.temperature));
      total += weights.back();
    }
    double kept = 0;
    size_t n = 0;
    while (n < order.size() && weights[n] >= row.min_p && (n == 0 || kept < row.top_p * total)) {
      kept += weights[n++];
    }
    const uint64_t draw = Mix(Mix(row.seed, row.choice), row.position);
    double left = static_cast<double>(draw >> 11) * 0x1.0p-53 * kept;
    size_t chosen = 0;
    while (chosen + 1 < n && left >= weights[chosen]) left -= weights[chosen++];
    return Score(hash, order[chosen]);
  }
};

struct HashExecutorConfig {
  plan::ExecutorLimits limits{.vocab_size = 64,
                              .tokens_max = 64,
                              .rows_max = 16,
                              .positions_max = 256,
                              .page_tokens = 4,
                              .pages = 65,
                              .top_logprobs_max = 5};
  uint64_t model_seed = 1;
  ManualClock* clock = nullptr;  // moved by each step, if given
  int64_t step_ns = 1'000'000;
  int64_t token_ns = 10'000;
  int64_t draft_ns = 100'000;
  uint32_t draft_percent = 75;  // of drafts that are what the model would say
};

class HashExecutor final : public plan::Executor {
 public:
  explicit HashExecutor(const HashExecutorConfig& config)
      : config_(config),
        model_{.vocab_size = config.limits.vocab_size, .seed = config.model_seed},
        cells_(static_cast<size_t>(config.limits.pages) * config.limits.page_tokens),
        page_readers_(config.limits.pages, 0),
        states_(config.limits.states, 0),
        logs_(config.limits.states),
        head_hashes_(config.limits.tokens_max),
        draft_positions_(cells_.size(), -1) {
    if (config_.limits.seqs_max == 0) config_.limits.seqs_max = config_.limits.rows_max;
  }

  const plan::ExecutorLimits& limits() const override { return config_.limits; }
  const HashModel& model() const { return model_; }
  std::string Describe() const override { return "hash model"; }

  Status Run(const plan::StepInputs& in, plan::StepOutputs* out) override {
    ++steps_;
    if (before_step) {
      if (Status status = before_step(steps_, in); !status.ok()) return status;
    }
    if (Status status = CheckInputs(in); !status.ok()) {
      Violation("inputs refused: " + status.message());
      return status;
    }
    if (config_.clock != nullptr) {
      config_.clock->Advance(config_.step_ns +
                             config_.token_ns * static_cast<int64_t>(in.ids.size()));
    }
    CountReaders(in);
    hidden_rows_ = static_cast<int32_t>(in.ids.size());
    for (const plan::StateCopy& copy : in.state_copies) states_[copy.to] = states_[copy.from];
    for (const Segment& segment : in.segments) RunSegment(in, segment);
    for (const Segment& s : in.segments) {
      const auto first = std::lower_bound(in.head_rows.begin(), in.head_rows.end(), s.row_begin);
      if (first == in.head_rows.end() || *first >= s.row_begin + s.rows) ++headless_segments_;
    }
    for (size_t r = 0; r < in.head_rows.size(); ++r) Head(in, r, out);
    tokens_ += in.ids.size();
    tokens_in_step_max_ = std::max(tokens_in_step_max_, in.ids.size());
    (in.mode == plan::HeadMode::kGreedy ? greedy_steps_ : sample_steps_) += 1;
    if (in.segments.size() > 1) ++shared_steps_;
    return Status::Ok();
  }

  // Guesses the next token from the same hash, as likeliest or drawn, wrongly now and then; what it
  // may read and write is what the step's rows may, in a cache of its own.
  Status Draft(const plan::DraftInputs& in, plan::StepOutputs* out) override {
    ++draft_steps_;
    if (before_draft) {
      if (Status status = before_draft(draft_steps_); !status.ok()) return status;
    }
    if (Status status = CheckDraft(in); !status.ok()) {
      Violation("draft inputs refused: " + status.message());
      return status;
    }
    if (config_.clock != nullptr) config_.clock->Advance(config_.draft_ns);
    CountReaders(in.step);
    std::vector<uint64_t> hidden;
    for (const Segment& s : in.step.segments) {
      for (int32_t p = 0; p < s.position_begin + s.rows; ++p) {
        const int32_t page = s.pages[p / config_.limits.page_tokens];
        int32_t& position =
            draft_positions_[static_cast<size_t>(page) * config_.limits.page_tokens +
                             p % config_.limits.page_tokens];
        if (p < s.position_begin) {
          if (position != p && drafts_are_whole)
            Violation("the draft head reads what it has not written");
          continue;
        }
        if (page == 0 || page_readers_[page] != 1)
          Violation("the draft head writes a page that is not its sequence's");
        position = p;
        const int32_t row = s.row_begin + p - s.position_begin;
        const uint64_t before = head_hashes_[in.rows[row]];
        hidden.push_back(model_.Append(Mix(before, before), in.step.ids[row]));
      }
    }
    std::copy(hidden.begin(), hidden.end(), head_hashes_.begin());
    hidden_rows_ = static_cast<int32_t>(hidden.size());
    for (size_t r = 0; r < in.step.head_rows.size(); ++r) {
      const uint64_t hash = hidden[in.step.head_rows[r]];
      const bool wrong = Mix(hash, 99) % 100 >= config_.draft_percent;
      const int32_t right = in.step.mode == plan::HeadMode::kGreedy
                                ? model_.Argmax(hash)
                                : model_.Sample(hash, in.step.sample[r]).id;
      out->rows[r] = {.id = (right + (wrong ? 1 : 0)) % model_.vocab_size};
      if (after_draft) after_draft(r, &out->rows[r]);
    }
    return Status::Ok();
  }

  // Of the draft steps, likewise.
  std::function<Status(uint64_t step)> before_draft;
  std::function<void(size_t head, SampleOut*)> after_draft;
  // Whether every sequence's every token passes the draft head.
  bool drafts_are_whole = true;
  uint64_t draft_steps() const { return draft_steps_; }

  // Called first in each step (counted from 1); an error is the step's.
  std::function<Status(uint64_t step, const plan::StepInputs&)> before_step;
  // Changes an output after the fact: NaN, ids out of range.
  std::function<void(const plan::StepInputs&, size_t head, SampleOut*)> after_row;

  // What the last step made of a row: a hash of all tokens up to it.
  uint64_t hidden(int32_t row) const { return head_hashes_[static_cast<size_t>(row)]; }

  uint64_t steps() const { return steps_; }
  uint64_t tokens() const { return tokens_; }
  uint64_t greedy_steps() const { return greedy_steps_; }
  uint64_t sample_steps() const { return sample_steps_; }
  uint64_t shared_steps() const { return shared_steps_; }            // with more than one request
  uint64_t headless_segments() const { return headless_segments_; }  // chunks but the last
  size_t tokens_in_step_max() const { return tokens_in_step_max_; }
  uint64_t violations() const { return violations_; }
  const std::string& first_violation() const { return first_violation_; }

 private:
  struct Cell {
    int32_t token = -1;
    int32_t position = -1;
    uint64_t before = 0;  // hash of all tokens before this one
  };

  void Violation(std::string what) {
    if (violations_++ == 0) first_violation_ = std::move(what);
  }

  Status CheckInputs(const plan::StepInputs& in) const {
    const plan::ExecutorLimits& l = config_.limits;
    const auto t = static_cast<int32_t>(in.ids.size());
    if (t < 1 || t > l.tokens_max) return Status::Invalid("{} tokens, at most {}", t, l.tokens_max);
    if (static_cast<int32_t>(in.head_rows.size()) > l.rows_max) return Status::Invalid("head rows");
    if (in.positions.size() != in.ids.size() || in.slots.size() != in.ids.size()) {
      return Status::Invalid("sizes differ");
    }
    if (in.mode == plan::HeadMode::kSample && in.sample.size() != in.head_rows.size()) {
      return Status::Invalid("{} sample rows for {} head rows", in.sample.size(),
                             in.head_rows.size());
    }
    int32_t row = 0;
    std::vector<bool> taken(l.states);
    for (const plan::StateCopy& copy : in.state_copies) {
      for (const int32_t slot : {copy.from, copy.to}) {
        if (slot < 1 || slot >= l.states) return Status::Invalid("a copy of state {}", slot);
      }
    }
    for (const Segment& s : in.segments) {
      if (l.states > 0) {
        if (s.state < 1 || s.state > l.seqs_max || taken[s.state])
          return Status::Invalid("state {}", s.state);
        taken[s.state] = true;
      }
      if (s.row_begin != row || s.rows < 1) return Status::Invalid("segments do not tile");
      const int32_t end = s.position_begin + s.rows;
      if (end > l.positions_max) return Status::Invalid("position {} of {}", end, l.positions_max);
      if (s.page_count * l.page_tokens < end)
        return Status::Invalid("{} pages for {} rows from position {}", s.page_count, s.rows,
                               s.position_begin);
      for (int32_t i = 0; i < s.page_count; ++i) {
        if (s.pages[i] < 0 || s.pages[i] >= l.pages) return Status::Invalid("page {}", s.pages[i]);
      }
      for (int32_t i = 0; i < s.rows; ++i, ++row) {
        const int32_t position = s.position_begin + i;
        const int64_t slot =
            static_cast<int64_t>(s.pages[position / l.page_tokens]) * l.page_tokens +
            position % l.page_tokens;
        if (in.ids[row] < 0 || in.ids[row] >= l.vocab_size) return Status::Invalid("id");
        if (in.positions[row] != position) return Status::Invalid("position of row {}", row);
        if (in.slots[row] != slot) return Status::Invalid("slot of row {}", row);
      }
    }
    if (row != t) return Status::Invalid("segments cover {} of {} rows", row, t);
    for (size_t r = 0; r < in.head_rows.size(); ++r) {
      if (in.head_rows[r] >= t || (r > 0 && in.head_rows[r] <= in.head_rows[r - 1])) {
        return Status::Invalid("head rows do not ascend");
      }
    }
    return Status::Ok();
  }

  Status CheckDraft(const plan::DraftInputs& in) const {
    if (!config_.limits.draft_head) return Status::Invalid("there is no draft head");
    if (in.rows.size() != in.step.ids.size())
      return Status::Invalid("{} rows of {} ids", in.rows.size(), in.step.ids.size());
    for (size_t i = 0; i < in.rows.size(); ++i) {
      if (in.rows[i] >= hidden_rows_ || in.rows[i] < (i > 0 ? in.rows[i - 1] + 1 : 0))
        return Status::Invalid("hidden row {} of {}", in.rows[i], hidden_rows_);
    }
    if (static_cast<int32_t>(in.step.head_rows.size()) > config_.limits.seqs_max)
      return Status::Invalid("{} drafts", in.step.head_rows.size());
    return CheckInputs(in.step);
  }

  void CountReaders(const plan::StepInputs& in) {
    std::fill(page_readers_.begin(), page_readers_.end(), 0);
    for (const Segment& s : in.segments) {
      for (int32_t i = 0; i < s.page_count; ++i) ++page_readers_[s.pages[i]];
    }
  }

  void RunSegment(const plan::StepInputs& in, const Segment& s) {
    const int32_t page_tokens = config_.limits.page_tokens;
    uint64_t hash = model_.Start();
    for (int32_t p = 0; p < s.position_begin + s.rows; ++p) {
      if (!states_.empty() && p == s.position_begin && p > 0) {
        const auto& log = logs_[s.state];
        if (s.replay < 0 || static_cast<size_t>(s.replay) > log.size()) {
          Violation("more rows are taken in than were logged");
        } else if (const uint64_t state = s.replay == 0 ? states_[s.state] : log[s.replay - 1];
                   state != hash) {
          Violation("a stale or foreign state is read");
          hash = state;
        }
      }
      const int32_t page = s.pages[p / page_tokens];
      Cell& cell = cells_[static_cast<size_t>(page) * page_tokens + p % page_tokens];
      if (p >= s.position_begin) {
        const int32_t row = s.row_begin + p - s.position_begin;
        if (page == 0) Violation("the zero page is written");
        if (page_readers_[page] != 1) Violation("a shared page is written");
        cell = {.token = in.ids[row], .position = p, .before = hash};
      }
      if (cell.position != p || cell.before != hash) Violation("a stale or foreign cell is read");
      hash = model_.Append(Mix(hash, cell.before), cell.token);
      if (p >= s.position_begin) head_hashes_[s.row_begin + p - s.position_begin] = hash;
    }
    if (states_.empty()) return;
    // The last rows are logged, and the state is that before them.
    const int32_t settled = s.rows - s.logged;
    if (settled < 1 || s.logged > config_.limits.draft_tokens)
      Violation("rows are logged that cannot be");
    states_[s.state] = head_hashes_[s.row_begin + settled - 1];
    logs_[s.state].assign(head_hashes_.begin() + s.row_begin + settled,
                          head_hashes_.begin() + s.row_begin + s.rows);
  }

  void Head(const plan::StepInputs& in, size_t r, plan::StepOutputs* out) {
    const uint64_t hash = head_hashes_[in.head_rows[r]];
    SampleOut& row = out->rows[r];
    if (in.mode == plan::HeadMode::kGreedy) {
      row = {.id = model_.Argmax(hash)};
    } else {
      row = model_.Sample(hash, in.sample[r]);
      TopOf(hash, in.sample[r].logprobs, in.top_logprobs, r, out);
    }
    if (in.hash_logits) out->logits_hash[r] = hash;
    if (after_row) after_row(in, r, &row);
  }

  void TopOf(uint64_t hash, int32_t count, int stride, size_t r, plan::StepOutputs* out) const {
    if (count <= 0) return;
    std::vector<int32_t> order(model_.vocab_size);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return model_.Logit(hash, a) > model_.Logit(hash, b);
    });
    for (int32_t i = 0; i < std::min(count, model_.vocab_size); ++i) {
      out->top_ids[r * stride + i] = order[i];
      out->top_logprobs[r * stride + i] = model_.Score(hash, order[i]).logprob;
    }
  }

  HashExecutorConfig config_;
  HashModel model_;
  std::vector<Cell> cells_;
  std::vector<int32_t> page_readers_;
  std::vector<uint64_t> states_;             // of a recurrence, by slot: the hash of all tokens
  std::vector<std::vector<uint64_t>> logs_;  // behind it, by slot
  std::vector<uint64_t> head_hashes_;        // of every row of the last step, of draft steps too
  std::vector<int32_t> draft_positions_;     // of the draft head's cells
  int32_t hidden_rows_ = 0;
  uint64_t draft_steps_ = 0;
  uint64_t steps_ = 0;
  uint64_t tokens_ = 0;
  uint64_t greedy_steps_ = 0;
  uint64_t sample_steps_ = 0;
  uint64_t shared_steps_ = 0;
  uint64_t headless_segments_ = 0;
  size_t tokens_in_step_max_ = 0;
  uint64_t violations_ = 0;
  std::string first_violation_;
};

// The hash of a sequence as the executor comes to it when every page is right.
inline uint64_t SequenceHash(const HashModel& model, std::span<const int32_t> tokens) {
  uint64_t hash = model.Start();
  for (int32_t token : tokens) hash = model.Append(Mix(hash, hash), token);
  return hash;
}

}  // namespace weft::support
