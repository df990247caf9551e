#include "serve/http/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace weft::serve {

namespace asio = boost::asio;
using boost::system::error_code;

void Connection::Gone() {
  if (gone_) return;
  gone_ = true;
  error_code ignored;
  socket_.close(ignored);
  wake_.cancel();
  OnGone();
}

asio::awaitable<void> Connection::WaitUntil(Clock::time_point deadline) {
  const Clock::time_point stall = write_progress_ + limits_.write_stall;
  const bool may_stall = writing_;
  wake_.expires_at(may_stall ? std::min(deadline, stall) : deadline);
  error_code ignored;
  co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  if (writing_ && Clock::now() >= write_progress_ + limits_.write_stall) Gone();
}

void Connection::StartRead() {
  if (reading_ || gone_ || eof_ || in_.size() >= kReadAheadMax) return;
  reading_ = true;
  // Waiting for readiness and not into a buffer: an idle connection holds no buffer.
  socket_.async_wait(Tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    self->reading_ = false;
    self->OnReadable(error);
  });
}

void Connection::OnReadable(error_code error) {
  if (gone_) return;
  if (!error) {
    std::string& scratch = *scratch_;
    const size_t room =
        std::min(scratch.size(), kReadAheadMax - std::min(in_.size(), kReadAheadMax));
    const size_t n = socket_.read_some(asio::buffer(scratch.data(), room), error);
    if (!error) in_.append(scratch.data(), n);
  }
  if (error == asio::error::would_block || error == asio::error::try_again) error = {};
  if (error == asio::error::eof) {
    eof_ = true;
  } else if (error) {
    Gone();
    return;
  }
  wake_.cancel();
}

bool Connection::PeerReset() {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  return info.tcpi_state == TCP_CLOSE;
}

// With reading paused (read-ahead full) or finished (the client closed its half), only a reset
// still tells that nobody is there.
void Connection::WatchForReset() {
  if (watching_ || gone_) return;
  if (PeerReset()) return Gone();
  watching_ = true;
  socket_.async_wait(Tcp::socket::wait_error, [self = shared_from_this()](error_code error) {
    self->watching_ = false;
    if (self->gone_) return;
    if (error || self->PeerReset()) return self->Gone();
    self->wake_.cancel();
  });
}

void Connection::StartWrite() {
  if (writing_ || gone_ || out_.empty()) return;
  sending_.swap(out_);
  out_.clear();
  sent_ = 0;
  writing_ = true;
  write_progress_ = Clock::now();
  WriteSome();
}

void Connection::WriteSome() {
  // Most writes fit into the socket's buffer: try at once, wait only for the rest.
  error_code error;
  while (sent_ < sending_.size()) {
    sent_ +=
        socket_.write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_), error);
    if (error) break;
    if (sent_ == sending_.size() && !out_.empty()) {
      sending_.swap(out_);
      out_.clear();
      sent_ = 0;
    }
  }
  if (error && error != asio::error::would_block && error != asio::error::try_again) {
    // The caller may be in the middle of an answer; tell the session from the loop.
    writing_ = false;
    sending_.clear();
    out_.clear();
    sent_ = 0;
    asio::post(*loop_, [self = shared_from_this()] { self->Gone(); });
    return;
  }
  if (!error) {
    writing_ = false;
    sending_.clear();
    sent_ = 0;
    wake_.cancel();
    return;
  }
  wake_.cancel();  // the coroutine's deadline must now include the stall
  socket_.async_wait(Tcp::socket::wait_write, [self = shared_from_this()](error_code failed) {
    if (self->gone_) return;
    if (failed) return self->Gone();
    self->write_progress_ = Clock::now();
    self->WriteSome();
  });
}

}  // namespace weft::serve
