// Looks for stop strings in text that arrives in pieces and gives out what no stop can swallow any
// more.  The stop that is complete first wins; of those complete at the same byte the longest.
// That is a law of the text alone: how it was cut into pieces does not matter.
// Thread: one.  Cost: text length times number of stops.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

class StopStrings {
 public:
  // Empty stops are passed over.
  StopStrings(std::vector<std::string> stops, bool include_stop_in_output);

  // Appends to `out` what is settled after `text`.  True: a stop was found, the rest of `text` and
  // of all later calls is dropped.  While `may_stop` is false a complete stop is ordinary text
  // (min_tokens).
  bool Push(std::string_view text, std::string& out, bool may_stop = true);
  // The text ended without a stop: appends what was held back.
  void Finish(std::string& out);

  // Index into the constructor's list of the stop that was found.
  std::optional<size_t> found() const { return found_; }

 private:
  struct Stop {
    size_t index;
    std::string text;
    std::vector<uint32_t> border;  // border[n]: longest proper prefix of text[0,n) that ends it too
    size_t matched = 0;            // bytes of text[] that the stream ends with
  };

  std::vector<Stop> stops_;
  bool include_;
  std::string held_;
  std::optional<size_t> found_;
};

}  // namespace weft::text
