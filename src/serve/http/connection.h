// The socket's side of a connection: bytes in and out without blocking, who is gone, and the one
// timer on which everything waits.
// Internal to http/. Thread: the loop's.
#pragma once

#include "serve/http/coroutine_clang14.h"  // first

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "serve/limits.h"

namespace weft::serve {

// More unread bytes than this (pipelined requests) wait in the kernel.
inline constexpr size_t kReadAheadMax = 64u << 10;

// All waiting is on `wake_`: whoever changes the state (bytes came, bytes went, the answer is
// complete) cancels it, and its expiry is the deadline of whatever is waited for.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;
  using Tcp = boost::asio::ip::tcp;

  // `loop`, `limits` and `scratch`, which holds one read's bytes, outlive the connection.
  Connection(Tcp::socket socket, boost::asio::io_context* loop, const HttpLimits& limits,
             std::string* scratch)
      : socket_(std::move(socket)), wake_(*loop), loop_(loop), limits_(limits), scratch_(scratch) {}
  virtual ~Connection() = default;

  void Queue(std::string_view bytes) {
    if (gone_) return;
    out_.append(bytes);
    StartWrite();
  }
  size_t queued() const { return out_.size() + (sending_.size() - sent_); }
  bool gone() const { return gone_; }
  // Closes at once.
  void Gone();

 protected:
  // Called once by Gone().
  virtual void OnGone() = 0;
  // Returns at the deadline, at a stalled write's end (then the connection is gone), or when woken.
  boost::asio::awaitable<void> WaitUntil(Clock::time_point deadline);
  void StartRead();
  void WatchForReset();

  Tcp::socket socket_;
  boost::asio::steady_timer wake_;
  std::string in_;  // read, not yet parsed
  bool eof_ = false;
  bool writing_ = false;
  bool gone_ = false;

 private:
  void OnReadable(boost::system::error_code error);
  bool PeerReset();
  void StartWrite();
  void WriteSome();

  boost::asio::io_context* loop_;
  const HttpLimits& limits_;
  std::string* scratch_;
  bool reading_ = false;   // an asynchronous read waits
  bool watching_ = false;  // for a reset
  std::string out_;        // queued behind sending_
  std::string sending_;
  size_t sent_ = 0;
  Clock::time_point write_progress_;
};

}  // namespace weft::serve
