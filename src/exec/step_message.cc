#include "exec/step_message.h"

#include <cstring>

namespace weft::exec {
namespace {

enum Draft : int32_t { kNoDraft, kFirstDraft, kNextDraft };
struct Header {
  StepPlans plans;
  int32_t tokens = 0, segments = 0, pages = 0, head_rows = 0;
  int32_t mode = 0, hash_logits = 0, state_copies = 0, draft = kNoDraft;
};
// A segment whose pages follow those of the segment before.
struct SegmentRecord {
  int32_t row_begin, rows, position_begin, page_count, state, replay, logged;
};

template <typename T>
void Append(std::span<const T> values, std::vector<std::byte>* out) {
  const size_t at = out->size();
  out->resize(at + values.size_bytes());
  if (!values.empty()) std::memcpy(out->data() + at, values.data(), values.size_bytes());
}

}  // namespace

// 8-byte values first, so that all are aligned where they stand.
void PackStep(const StepPlans& plans, const plan::StepInputs& in, const plan::DraftInputs* draft,
              std::vector<std::byte>* out) {
  Header header{.plans = plans,
                .tokens = static_cast<int32_t>(in.ids.size()),
                .segments = static_cast<int32_t>(in.segments.size()),
                .head_rows = static_cast<int32_t>(in.head_rows.size()),
                .mode = static_cast<int32_t>(in.mode),
                .hash_logits = in.hash_logits,
                .state_copies = static_cast<int32_t>(in.state_copies.size()),
                .draft = draft == nullptr ? kNoDraft
                         : draft->first   ? kFirstDraft
                                          : kNextDraft};
  for (const Segment& s : in.segments) header.pages += s.page_count;
  out->clear();
  Append(std::span<const Header>(&header, 1), out);
  Append(in.slots, out);
  Append(in.state_copies, out);
  Append(in.ids, out);
  Append(in.positions, out);
  Append(in.head_rows, out);
  if (draft != nullptr) Append(draft->rows, out);
  for (const Segment& s : in.segments) {
    const SegmentRecord record{s.row_begin, s.rows,   s.position_begin, s.page_count,
                               s.state,     s.replay, s.logged};
    Append(std::span<const SegmentRecord>(&record, 1), out);
  }
  for (const Segment& s : in.segments)
    Append(std::span<const int32_t>(s.pages, static_cast<size_t>(s.page_count)), out);
}

Status UnpackedStep::Unpack(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header) return Status::Internal("a step of {} bytes", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto count = [](int32_t n) { return static_cast<uint64_t>(static_cast<uint32_t>(n)); };
  const int32_t picked = header.draft == kNoDraft ? 0 : header.tokens;
  const uint64_t expected =
      sizeof header + count(header.tokens) * (sizeof(int64_t) + 2 * sizeof(int32_t)) +
      count(header.state_copies) * sizeof(plan::StateCopy) +
      (count(header.head_rows) + count(picked)) * sizeof(int32_t) +
      count(header.segments) * sizeof(SegmentRecord) + count(header.pages) * sizeof(int32_t);
  if (expected != bytes.size() || header.mode < 0 ||
      header.mode > static_cast<int32_t>(plan::HeadMode::kSample) || header.draft < kNoDraft ||
      header.draft > kNextDraft) {
    return Status::Internal("a step of {} bytes that says {}", bytes.size(), expected);
  }
  const std::byte* at = bytes.data() + sizeof header;
  const auto take = [&]<typename T>(int32_t n, std::span<const T>* out) {
    *out = {reinterpret_cast<const T*>(at), static_cast<size_t>(n)};
    at += out->size_bytes();
  };
  plans_ = header.plans;
  is_draft_ = header.draft != kNoDraft;
  draft_ = {.first = header.draft == kFirstDraft};
  plan::StepInputs& inputs = draft_.step;
  take(header.tokens, &inputs.slots);
  take(header.state_copies, &inputs.state_copies);
  take(header.tokens, &inputs.ids);
  take(header.tokens, &inputs.positions);
  take(header.head_rows, &inputs.head_rows);
  take(picked, &draft_.rows);
  std::span<const SegmentRecord> records;
  std::span<const int32_t> pages;
  take(header.segments, &records);
  take(header.pages, &pages);
  segments_.clear();
  size_t page = 0;
  for (const SegmentRecord& r : records) {
    if (r.page_count < 0 || page + static_cast<size_t>(r.page_count) > pages.size()) {
      return Status::Internal("a step whose segments have more pages than {}", pages.size());
    }
    segments_.push_back({r.row_begin, r.rows, r.position_begin, r.page_count, pages.data() + page,
                         r.state, r.replay, r.logged});
    page += static_cast<size_t>(r.page_count);
  }
  inputs.segments = segments_;
  inputs.mode = static_cast<plan::HeadMode>(header.mode);
  inputs.hash_logits = header.hash_logits != 0;
  if (inputs.mode == plan::HeadMode::kSample) {
    sample_.resize(static_cast<size_t>(header.head_rows));
    inputs.sample = sample_;
  }
  return {};
}

}  // namespace weft::exec
