// One thing, though long: a connection's coroutine and the exchange that it lends out share every
// member, and one file is what keeps Boost's headers out of the others.
#include "serve/http/session.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>

#include "serve/http/coroutine_clang14.h"  // first
#include "serve/http/head_rules.h"

namespace weft::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Tcp = asio::ip::tcp;

// More unread bytes than this (pipelined requests) wait in the kernel.
constexpr size_t kReadAheadMax = 64u << 10;

class SessionExchange;

// All waiting is on one timer, `wake_`: whoever changes the state (bytes came, bytes went, the
// answer is complete) cancels it, and its expiry is the deadline of whatever is waited for.
class Session final : public SessionHandle, public std::enable_shared_from_this<Session> {
 public:
  Session(Tcp::socket socket, SessionContext* context, std::function<void()> on_end)
      : socket_(std::move(socket)),
        wake_(*context->loop),
        context_(context),
        on_end_(std::move(on_end)) {}

  void Start() {
    asio::co_spawn(
        *context_->loop,
        [self = shared_from_this()]() -> asio::awaitable<void> { return self->Run(); },
        asio::detached);
  }

  bool idle() const override { return idle_; }
  void Close() override { Gone(); }
  void Wake() override { wake_.cancel(); }

  // For the exchange.
  void Queue(std::string_view bytes) {
    if (gone_) return;
    out_.append(bytes);
    StartWrite();
  }
  size_t queued() const { return out_.size() + (sending_.size() - sent_); }
  bool gone() const { return gone_; }
  SessionContext* context() { return context_; }
  void Gone();
  void AnswerEnded() { Wake(); }

 private:
  asio::awaitable<void> Run();
  // What came of a head: a request to go on with, one that was answered already, or the end.
  enum class Head { kRequest, kAnswered, kEnd };
  asio::awaitable<Head> ReadHead();
  asio::awaitable<bool> ReadBody();
  asio::awaitable<void> Answer();
  asio::awaitable<void> RefuseAndLinger(HttpResponse response);
  // Returns at the deadline, at a stalled write's end (then the session is gone), or when woken.
  asio::awaitable<void> WaitUntil(Clock::time_point deadline);
  void StartRead();
  void OnReadable(error_code error);
  void WatchForReset();
  bool PeerReset();
  void StartWrite();
  void WriteSome();
  bool Parse(std::string_view bytes, size_t* used, error_code* error);
  void FillRequest();
  void HoldBodyBytes(size_t bytes);
  std::string SerialiseHead(const HttpResponse& response, bool streamed, bool keep_alive);
  HttpResponse Error(int status, std::string_view message) const {
    HttpResponse response = context_->handlers.error(status, message);
    response.close = true;
    return response;
  }
  bool SeesWholeHead() { return in_.find("\r\n\r\n") != std::string::npos; }

  friend class SessionExchange;

  Tcp::socket socket_;
  asio::steady_timer wake_;
  SessionContext* context_;
  std::function<void()> on_end_;

  std::string in_;        // read, not yet parsed
  bool reading_ = false;  // an asynchronous read waits
  bool eof_ = false;
  bool watching_ = false;  // for a reset
  std::string out_;        // queued behind sending_
  std::string sending_;
  size_t sent_ = 0;
  bool writing_ = false;
  Clock::time_point write_progress_;
  bool gone_ = false;
  bool idle_ = true;

  // The request at hand.
  std::unique_ptr<http::request_parser<http::string_body>> parser_;
  std::string head_;
  size_t chunks_ = 0;
  size_t held_body_bytes_ = 0;
  HttpRequest request_;
  unsigned version_ = 11;
  bool keep_alive_ = false;
  bool is_head_method_ = false;
  std::weak_ptr<SessionExchange> exchange_;
};

class SessionExchange final : public Exchange {
 public:
  SessionExchange(std::shared_ptr<Session> session, HttpRequest request)
      : session_(std::move(session)), request_(std::move(request)) {}
  ~SessionExchange() override {
    if (complete_ || session_->gone()) return;
    if (!begun_) {
      Send(session_->Error(500, "The request was dropped by the server."));
    } else {
      Fail();
    }
  }

  HttpRequest& request() override { return request_; }
  void BodyDone() override {
    if (open()) session_->HoldBodyBytes(0);
  }

  void Send(HttpResponse response) override {
    if (!open() || begun_) return;
    begun_ = true;
    Session& s = *session_;
    s.context_->handlers.decorate(request_, &response);
    if (response.close || s.context_->draining) s.keep_alive_ = false;
    std::string bytes = s.SerialiseHead(response, false, s.keep_alive_);
    if (!s.is_head_method_) bytes += response.body;
    s.Queue(bytes);
    Complete();
  }

  void BeginStream(HttpResponse head) override {
    if (!open() || begun_) return;
    begun_ = true;
    Session& s = *session_;
    s.context_->handlers.decorate(request_, &head);
    if (head.close || s.context_->draining || s.version_ == 10) s.keep_alive_ = false;
    s.Queue(s.SerialiseHead(head, true, s.keep_alive_));
  }

  bool Write(std::string_view bytes) override {
    if (!open()) return false;
    Session& s = *session_;
    if (s.queued() + bytes.size() > s.context_->limits.stream_queue_bytes_max) {
      s.Gone();
      return false;
    }
    if (bytes.empty()) return true;
    if (s.version_ == 10) {
      s.Queue(bytes);
    } else {
      s.Queue(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
    }
    return true;
  }

  void End() override {
    if (!open()) return;
    if (session_->version_ != 10) session_->Queue("0\r\n\r\n");
    Complete();
  }

  void Fail() override {
    if (!open()) return;
    session_->keep_alive_ = false;  // without the last chunk the body is visibly cut
    Complete();
  }

  bool open() const override { return !complete_ && !session_->gone(); }
  void OnGone(std::function<void()> callback) override { on_gone_ = std::move(callback); }

  bool begun() const { return begun_; }
  bool complete() const { return complete_; }
  void ClientGone() {
    if (complete_) return;
    if (auto callback = std::exchange(on_gone_, nullptr)) callback();
  }

 private:
  void Complete() {
    complete_ = true;
    on_gone_ = nullptr;
    session_->AnswerEnded();
  }

  std::shared_ptr<Session> session_;
  HttpRequest request_;
  std::function<void()> on_gone_;
  bool begun_ = false;
  bool complete_ = false;
};

void Session::Gone() {
  if (gone_) return;
  gone_ = true;
  error_code ignored;
  socket_.close(ignored);
  wake_.cancel();
  if (auto exchange = exchange_.lock()) exchange->ClientGone();
}

asio::awaitable<void> Session::WaitUntil(Clock::time_point deadline) {
  const Clock::time_point stall = write_progress_ + context_->limits.write_stall;
  const bool may_stall = writing_;
  wake_.expires_at(may_stall ? std::min(deadline, stall) : deadline);
  error_code ignored;
  co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  if (writing_ && Clock::now() >= write_progress_ + context_->limits.write_stall) Gone();
}

void Session::StartRead() {
  if (reading_ || gone_ || eof_ || in_.size() >= kReadAheadMax) return;
  reading_ = true;
  // Waiting for readiness and not into a buffer: an idle connection holds no buffer.
  socket_.async_wait(Tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    self->reading_ = false;
    self->OnReadable(error);
  });
}

void Session::OnReadable(error_code error) {
  if (gone_) return;
  if (!error) {
    std::string& scratch = context_->scratch;
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

bool Session::PeerReset() {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  return info.tcpi_state == TCP_CLOSE;
}

// With reading paused (read-ahead full) or finished (the client closed its half), only a reset
// still tells that nobody is there.
void Session::WatchForReset() {
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

void Session::StartWrite() {
  if (writing_ || gone_ || out_.empty()) return;
  sending_.swap(out_);
  out_.clear();
  sent_ = 0;
  writing_ = true;
  write_progress_ = Clock::now();
  WriteSome();
}

void Session::WriteSome() {
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
    asio::post(*context_->loop, [self = shared_from_this()] { self->Gone(); });
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

// Boost.Beast's parser is given what was read; false with an error that is not "more is needed".
bool Session::Parse(std::string_view bytes, size_t* used, error_code* error) {
  *used = parser_->put(asio::buffer(bytes.data(), bytes.size()), *error);
  if (*error == http::error::need_more) *error = {};
  return !*error;
}

void Session::HoldBodyBytes(size_t bytes) {
  context_->bodies_bytes += bytes - held_body_bytes_;
  held_body_bytes_ = bytes;
}

std::string Session::SerialiseHead(const HttpResponse& response, bool streamed, bool keep_alive) {
  http::response<http::empty_body> message;
  message.version(version_);
  message.result(static_cast<unsigned>(response.status));
  message.set(http::field::server, "weft");
  if (!response.content_type.empty()) message.set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) message.insert(name, value);
  if (!streamed) {
    if (response.status != 204 && response.status >= 200)
      message.content_length(response.body.size());
  } else if (version_ != 10) {
    message.chunked(true);
  }
  message.keep_alive(keep_alive);
  http::response_serializer<http::empty_body> serializer(message);
  serializer.split(true);
  std::string out;
  error_code error;
  while (!serializer.is_header_done()) {
    serializer.next(error, [&](error_code& e, const auto& buffers) {
      e = {};
      size_t bytes = 0;
      for (const auto& buffer : boost::beast::buffers_range_ref(buffers)) {
        out.append(static_cast<const char*>(buffer.data()), buffer.size());
        bytes += buffer.size();
      }
      serializer.consume(bytes);
    });
    if (error) break;
  }
  return out;
}

void Session::FillRequest() {
  const auto& message = parser_->get();
  request_ = {};
  request_.method = std::string(message.method_string());
  request_.target = std::string(message.target());
  for (const auto& field : message) {
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  version_ = message.version();
  keep_alive_ = message.keep_alive();
  is_head_method_ = message.method() == http::verb::head;

  const std::string_view sent = request_.Header("X-Request-Id");
  const bool plain =
      !sent.empty() && sent.size() <= 64 && std::all_of(sent.begin(), sent.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '-' || c == '_' || c == '.';
      });
  request_.id = plain ? std::string(sent)
                      : fmt::format("{:016x}{:08x}", context_->id_salt, ++context_->requests);
}

asio::awaitable<Session::Head> Session::ReadHead() {
  const HttpLimits& limits = context_->limits;
  parser_ = std::make_unique<http::request_parser<http::string_body>>();
  parser_->header_limit(static_cast<uint32_t>(limits.head_bytes_max));
  parser_->body_limit(limits.body_bytes_max);
  chunks_ = 0;
  request_ = {};
  is_head_method_ = false;

  // Between requests a connection may be silent for long, but a head that began must end soon.
  auto deadline = Clock::now() + limits.idle_time;
  bool begun = false;
  for (;;) {
    while (in_.compare(0, 2, "\r\n") == 0) in_.erase(0, 2);
    if (gone_) co_return Head::kEnd;
    if (!in_.empty() && !begun) {
      begun = true;
      idle_ = false;
      deadline = Clock::now() + limits.head_time;
    }
    if (SeesWholeHead()) break;
    if (in_.size() > limits.head_bytes_max) {
      co_await RefuseAndLinger(Error(431, "The request's head is too large."));
      co_return Head::kEnd;
    }
    if (eof_ || (!begun && context_->draining)) co_return Head::kEnd;
    if (Clock::now() >= deadline) {
      if (begun) co_await RefuseAndLinger(Error(408, "The request's head took too long."));
      co_return Head::kEnd;
    }
    StartRead();
    co_await WaitUntil(deadline);
  }

  const size_t head_bytes = in_.find("\r\n\r\n") + 4;
  HeadVerdict verdict = CheckHead(std::string_view(in_).substr(0, head_bytes), limits);
  if (verdict.status == 0) {
    size_t used = 0;
    error_code error;
    parser_->eager(false);
    if (!Parse(std::string_view(in_).substr(0, head_bytes), &used, &error) ||
        !parser_->is_header_done()) {
      if (error == http::error::bad_version) {
        verdict = {505, "Only HTTP/1.0 and HTTP/1.1 are spoken here."};
      } else if (error == http::error::body_limit) {
        verdict = {413, "The request's body is too large."};
      } else {
        verdict = {400, "The request's head is not well-formed HTTP."};
      }
    }
    in_.erase(0, used);
  }
  if (verdict.status == 0) {
    FillRequest();
    const std::string_view path =
        std::string_view(request_.target).substr(0, request_.target.find('?'));
    if (path.size() < request_.target.size())
      request_.query = request_.target.substr(path.size() + 1);
    if (!DecodePercent(path, &request_.path)) {
      verdict = {400, "The request's path is not well-formed."};
    } else if (version_ != 10 && version_ != 11) {
      verdict = {505, "Only HTTP/1.0 and HTTP/1.1 are spoken here."};
    } else if (version_ == 11 && request_.Header("Host").empty()) {
      verdict = {400, "HTTP/1.1 needs a Host header."};
    } else if (!request_.Header("Content-Encoding").empty() &&
               !SameName(request_.Header("Content-Encoding"), "identity")) {
      verdict = {415, "Compressed request bodies are not accepted."};
    } else if (const auto expect = request_.Header("Expect");
               !expect.empty() && !SameName(expect, "100-continue")) {
      verdict = {417, "Only 100-continue may be expected."};
    } else if (auto length = parser_->content_length(); length && *length > limits.body_bytes_max) {
      verdict = {413, "The request's body is too large."};
    }
  }
  if (verdict.status != 0) {
    co_await RefuseAndLinger(Error(verdict.status, verdict.reason));
    co_return Head::kEnd;
  }
  if (auto refusal = context_->handlers.gate(request_)) {
    if (parser_->is_done()) {  // nothing of it is unread, so the connection can go on
      auto exchange = std::make_shared<SessionExchange>(shared_from_this(), std::move(request_));
      exchange->Send(std::move(*refusal));
      while (!gone_ && writing_) co_await WaitUntil(Clock::time_point::max());
      co_return keep_alive_ && !gone_ ? Head::kAnswered : Head::kEnd;
    }
    co_await RefuseAndLinger(std::move(*refusal));
    co_return Head::kEnd;
  }
  co_return Head::kRequest;
}

asio::awaitable<bool> Session::ReadBody() {
  if (parser_->is_done()) co_return true;
  const HttpLimits& limits = context_->limits;
  const auto started = Clock::now();
  size_t received = 0;
  HttpResponse refusal;
  auto on_chunk = [this, &limits](uint64_t, boost::beast::string_view, error_code& error) {
    error = {};
    if (++chunks_ > limits.chunks_max) error = http::error::bad_chunk;
  };
  parser_->on_chunk_header(on_chunk);
  parser_->eager(true);
  if (version_ == 11 && in_.empty() && SameName(request_.Header("Expect"), "100-continue")) {
    Queue("HTTP/1.1 100 Continue\r\n\r\n");
  }
  for (;;) {
    if (gone_) co_return false;
    int status = 0;
    std::string_view reason;
    while (!in_.empty() && !parser_->is_done() && status == 0) {
      size_t used = 0;
      error_code error;
      Parse(in_, &used, &error);
      in_.erase(0, used);
      received += used;
      HoldBodyBytes(parser_->get().body().size());
      if (error == http::error::body_limit) {
        status = 413, reason = "The request's body is too large.";
      } else if (error) {
        status = 400, reason = "The request's body is not well-formed HTTP.";
      } else if (context_->bodies_bytes > limits.bodies_bytes_max) {
        status = 503, reason = "Too many large requests at once.";
      } else if (used == 0) {
        if (in_.size() >= kReadAheadMax / 2) {  // a chunk's head, and it does not end
          status = 400, reason = "The request's body is not well-formed HTTP.";
        }
        break;
      }
    }
    if (status == 0 && parser_->is_done()) co_return true;
    if (status == 0 && eof_) {
      status = 400, reason = "The request's body ended early.";
    }
    const auto now = Clock::now();
    const auto age = now - started;
    // The slowest body allowed has earned `grace` plus its bytes at the minimum rate.
    const auto earned =
        limits.body_grace +
        std::chrono::milliseconds(received * 1000 / std::max<size_t>(1, limits.body_rate_min));
    if (status == 0 && (age >= limits.body_time || age >= earned)) {
      status = 408, reason = "The request's body took too long.";
    }
    if (status != 0) {
      HttpResponse response = Error(status, reason);
      if (status == 503) response.headers.emplace_back("Retry-After", "1");
      co_await RefuseAndLinger(std::move(response));
      co_return false;
    }
    StartRead();
    co_await WaitUntil(started + std::min<Clock::duration>(limits.body_time, earned));
  }
}

// Sends an answer to a request that was not read to its end, then reads on for a while: closing
// with unread bytes would reset the connection and take the answer with it.
asio::awaitable<void> Session::RefuseAndLinger(HttpResponse response) {
  response.close = true;
  keep_alive_ = false;
  in_.clear();
  {
    auto exchange = std::make_shared<SessionExchange>(shared_from_this(), std::move(request_));
    exchange->Send(std::move(response));
  }
  while (!gone_ && writing_) co_await WaitUntil(Clock::time_point::max());
  if (gone_) co_return;
  error_code ignored;
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
  const auto deadline = Clock::now() + context_->limits.linger;
  while (!gone_ && !eof_ && Clock::now() < deadline && !context_->draining) {
    in_.clear();
    StartRead();
    co_await WaitUntil(deadline);
  }
}

asio::awaitable<void> Session::Answer() {
  request_.body = std::move(parser_->get().body());
  HoldBodyBytes(request_.body.size());
  auto exchange = std::make_shared<SessionExchange>(shared_from_this(), std::move(request_));
  exchange_ = exchange;
  context_->handlers.handle(exchange);
  const std::weak_ptr<SessionExchange> weak = exchange;
  exchange.reset();
  bool probed = false;
  for (;;) {
    if (gone_) break;
    {
      const auto held = weak.lock();
      const bool complete = !held || held->complete();
      if (complete && !writing_) break;
      if (!complete && eof_ && !probed && !held->begun() && version_ == 11) {
        // The client closed its half. It may still want the answer (that is HTTP) or be gone; an
        // interim response is ignored by the one and answered with a reset by the other's kernel.
        probed = true;
        Queue("HTTP/1.1 100 Continue\r\n\r\n");
      }
    }
    if (eof_ || in_.size() >= kReadAheadMax) {
      WatchForReset();
    } else {
      StartRead();
    }
    if (gone_) break;
    co_await WaitUntil(Clock::time_point::max());
  }
  HoldBodyBytes(0);
}

asio::awaitable<void> Session::Run() {
  // A failure here (out of memory, say) costs this connection and nothing else.
  try {
    for (;;) {
      idle_ = true;
      const Head head = co_await ReadHead();
      if (head == Head::kEnd) break;
      if (head == Head::kAnswered) continue;
      idle_ = false;
      if (!co_await ReadBody()) break;
      co_await Answer();
      if (gone_ || !keep_alive_ || (context_->draining && in_.empty())) break;
    }
  } catch (const std::exception&) {
    context_->log->Error("http: a connection was closed after an internal failure");
  }
  HoldBodyBytes(0);
  if (!gone_) {
    error_code ignored;
    socket_.shutdown(Tcp::socket::shutdown_both, ignored);
  }
  Gone();
  if (auto on_end = std::exchange(on_end_, nullptr)) on_end();
}

}  // namespace

std::weak_ptr<SessionHandle> StartSession(int fd, bool ipv6, SessionContext* context,
                                          std::function<void()> on_end) {
  Tcp::socket socket(*context->loop, ipv6 ? Tcp::v6() : Tcp::v4(), fd);
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(Tcp::no_delay(true), ignored);
  auto session = std::make_shared<Session>(std::move(socket), context, std::move(on_end));
  session->Start();
  return session;
}

}  // namespace weft::serve
