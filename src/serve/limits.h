// What a client may ask for and how long it may take. Every bound ends in a 4xx that names it;
// those that differ from site to site are flags of `weft serve`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace weft::serve {

// Bounds of the connection, whatever it carries.
struct HttpLimits {
  size_t head_bytes_max = 32u << 10;
  size_t line_bytes_max = 8u << 10;
  size_t headers_max = 100;
  size_t body_bytes_max = 8u << 20;
  size_t bodies_bytes_max = 64u << 20;         // all bodies being read or worked on
  size_t chunks_max = 65536;                   // of one chunked body
  size_t stream_queue_bytes_max = 256u << 10;  // unsent bytes of one stream: a slow reader
  size_t connections_max = 12000;
  size_t connections_per_address_max = 1024;  // loopback is exempt
  std::chrono::milliseconds head_time{10'000};
  std::chrono::milliseconds body_grace{5'000};  // before body_rate_min counts
  size_t body_rate_min = 1024;                  // bytes per second
  std::chrono::milliseconds body_time{60'000};
  std::chrono::milliseconds idle_time{75'000};  // of a keep-alive connection
  std::chrono::milliseconds write_stall{30'000};
  std::chrono::milliseconds linger{1'000};  // reading on after an early refusal
};

// Bounds of one API request.
struct RequestLimits {
  int32_t choices_max = 128;     // n
  int32_t prompts_max = 1024;    // of one completion request
  int32_t sequences_max = 1024;  // n x prompts
  int32_t stop_strings_max = 4;  // --max-stop-strings, up to 16
  int32_t stop_string_bytes_max = 256;
  int32_t stop_token_ids_max = 64;
  int32_t logit_bias_max = 1024;
  int32_t logprobs_max = 20;  // --max-logprobs
  int32_t messages_max = 4096;
  size_t json_depth_max = 64;
  std::chrono::milliseconds request_time{3'600'000};  // --request-timeout
  std::chrono::milliseconds sse_ping{10'000};         // a comment while nothing is said; 0: never
};

}  // namespace weft::serve
