// Longer than most: the coroutine and the exchange that it lends out share the request at hand.
#include "serve/http/session.h"

#include "serve/http/connection.h"  // before other headers of Boost

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>

#include "serve/http/head_rules.h"
#include "serve/http/response_head.h"

namespace weft::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = Connection::Clock;
using Tcp = Connection::Tcp;

class SessionExchange;

class Session final : public Connection, public SessionHandle {
 public:
  Session(Tcp::socket socket, SessionContext* context, std::function<void()> on_end)
      : Connection(std::move(socket), context->loop, context->limits, &context->scratch),
        context_(context),
        on_end_(std::move(on_end)) {}

  void Start() {
    asio::co_spawn(
        *context_->loop, [self = Self()]() -> asio::awaitable<void> { return self->Run(); },
        asio::detached);
  }

  bool idle() const override { return idle_; }
  void Close() override { Gone(); }
  void Wake() override { wake_.cancel(); }

 private:
  friend class SessionExchange;

  asio::awaitable<void> Run();
  // What came of a head: a request to go on with, one that was answered already, or the end.
  enum class Head { kRequest, kAnswered, kEnd };
  asio::awaitable<Head> ReadHead();
  asio::awaitable<bool> ReadBody();
  asio::awaitable<void> Answer();
  asio::awaitable<void> RefuseAndLinger(HttpResponse response);
  void OnGone() override;
  bool Parse(std::string_view bytes, size_t* used, error_code* error);
  HeadVerdict ParseHead();
  void FillRequest();
  void HoldBodyBytes(size_t bytes);
  HttpResponse Error(int status, std::string_view message) const {
    HttpResponse response = context_->handlers.error(status, message);
    response.close = true;
    return response;
  }
  bool SeesWholeHead() { return in_.find("\r\n\r\n") != std::string::npos; }
  std::shared_ptr<Session> Self() { return std::static_pointer_cast<Session>(shared_from_this()); }

  SessionContext* context_;
  std::function<void()> on_end_;
  bool idle_ = true;

  // The request at hand.
  std::unique_ptr<http::request_parser<http::string_body>> parser_;
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
    std::string bytes =
        SerialiseHead(response, {.version = s.version_, .keep_alive = s.keep_alive_});
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
    s.Queue(SerialiseHead(head,
                          {.version = s.version_, .streamed = true, .keep_alive = s.keep_alive_}));
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
    session_->Wake();
  }

  std::shared_ptr<Session> session_;
  HttpRequest request_;
  std::function<void()> on_gone_;
  bool begun_ = false;
  bool complete_ = false;
};

void Session::OnGone() {
  if (auto exchange = exchange_.lock()) exchange->ClientGone();
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

// Of the whole head that in_ begins with: takes it out and fills request_.
HeadVerdict Session::ParseHead() {
  const size_t head_bytes = in_.find("\r\n\r\n") + 4;
  HeadVerdict verdict = CheckHead(std::string_view(in_).substr(0, head_bytes), context_->limits);
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
    verdict = CheckRequest(version_, &request_);
    const auto length = parser_->content_length();
    if (verdict.status == 0 && length && *length > context_->limits.body_bytes_max) {
      verdict = {413, "The request's body is too large."};
    }
  }
  return verdict;
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

  const HeadVerdict verdict = ParseHead();
  if (verdict.status != 0) {
    co_await RefuseAndLinger(Error(verdict.status, verdict.reason));
    co_return Head::kEnd;
  }
  if (auto refusal = context_->handlers.gate(request_)) {
    if (parser_->is_done()) {  // nothing of it is unread, so the connection can go on
      auto exchange = std::make_shared<SessionExchange>(Self(), std::move(request_));
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
    auto exchange = std::make_shared<SessionExchange>(Self(), std::move(request_));
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
  auto exchange = std::make_shared<SessionExchange>(Self(), std::move(request_));
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
