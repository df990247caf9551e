#include "serve/http/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <thread>
#include <unordered_map>

#include "serve/http/session.h"

namespace weft::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;

// Descriptors that stay free for files and for the ranks.
constexpr size_t kReservedDescriptors = 64;

std::string AddressText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
              sizeof(text));
  } else {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof(text));
  }
  return text;
}

class HttpServerImpl final : public HttpServer {
 public:
  HttpServerImpl(Listener listener, const HttpLimits& limits, HttpHandlers handlers, LogSink* log)
      : listener_(std::move(listener)), loop_(1), acceptor_(loop_), log_(log) {
    context_.loop = &loop_;
    context_.limits = limits;
    context_.handlers = std::move(handlers);
    context_.log = log;
    context_.scratch.resize(64u << 10);
    if (getrandom(&context_.id_salt, sizeof(context_.id_salt), 0) < 0) context_.id_salt = 0;
    connections_max_ = limits.connections_max;
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
      const size_t usable =
          files.rlim_cur > kReservedDescriptors + 1 ? files.rlim_cur - kReservedDescriptors : 1;
      connections_max_ = std::min(connections_max_, usable);
    }
  }

  ~HttpServerImpl() override { Stop(milliseconds(0)); }

  Status Start() override {
    if (thread_.joinable()) return Status::Invalid("the HTTP server was started before");
    WEFT_RETURN_IF_ERROR(listener_.Listen());
    acceptor_.assign(listener_.Release());
    thread_ = std::thread([this] {
      auto keep = asio::make_work_guard(loop_);
      WaitForConnection();
      Loop();
    });
    return Status::Ok();
  }

  int port() const override { return listener_.port(); }

  void Post(std::function<void()> task) override { asio::post(loop_, std::move(task)); }

  void After(milliseconds delay, std::function<void()> task) override {
    auto timer = std::make_shared<asio::steady_timer>(loop_, delay);
    timer->async_wait([timer, task = std::move(task)](error_code error) {
      if (!error) task();
    });
  }

  void Drain() override {
    Post([this] {
      if (context_.draining) return;
      context_.draining = true;
      error_code ignored;
      acceptor_.close(ignored);
      // Closing an idle session may end it, and that changes the table.
      for (auto& session : Live()) {
        if (session->idle())
          session->Close();
        else
          session->Wake();
      }
    });
  }

  void Stop(milliseconds grace) override {
    if (!thread_.joinable()) return;
    Drain();
    const auto deadline = std::chrono::steady_clock::now() + grace;
    while (connections() > 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    Post([this] {
      for (auto& session : Live()) session->Close();
      // Behind everything that the closing has posted.
      asio::post(loop_, [this] { loop_.stop(); });
    });
    thread_.join();
  }

  size_t connections() const override { return connection_count_.load(std::memory_order_relaxed); }

 private:
  void Loop() {
    // A handler that throws (only a library can) costs its request, not the server.
    for (;;) {
      try {
        loop_.run();
        return;
      } catch (const std::exception&) {
        log_->Error("http: a handler failed and was skipped");
      }
    }
  }

  std::vector<std::shared_ptr<SessionHandle>> Live() {
    std::vector<std::shared_ptr<SessionHandle>> live;
    for (auto& [id, session] : sessions_) {
      if (auto held = session.lock()) live.push_back(std::move(held));
    }
    return live;
  }

  void WaitForConnection() {
    acceptor_.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
      if (error || context_.draining) return;
      AcceptAll();
    });
  }

  // Full, or out of descriptors: look again soon instead of spinning on a ready listener.
  void Pause() {
    After(milliseconds(50), [this] {
      if (!context_.draining) AcceptAll();
    });
  }

  void AcceptAll() {
    for (;;) {
      if (sessions_.size() >= connections_max_) return Pause();
      sockaddr_storage peer{};
      socklen_t size = sizeof(peer);
      const int fd = accept4(acceptor_.native_handle(), reinterpret_cast<sockaddr*>(&peer), &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return WaitForConnection();
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
          return Pause();
        if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
        return Pause();
      }
      const auto* address = reinterpret_cast<const sockaddr*>(&peer);
      std::string from;
      if (!IsLoopback(address)) {
        from = AddressText(address);
        if (per_address_[from] >= context_.limits.connections_per_address_max) {
          close(fd);
          continue;
        }
        ++per_address_[from];
      }
      const uint64_t id = ++last_session_;
      sessions_[id] = {};
      connection_count_.store(sessions_.size(), std::memory_order_relaxed);
      sessions_[id] = StartSession(fd, peer.ss_family == AF_INET6, &context_,
                                   [this, id, from] { SessionEnded(id, from); });
    }
  }

  void SessionEnded(uint64_t id, const std::string& from) {
    sessions_.erase(id);
    connection_count_.store(sessions_.size(), std::memory_order_relaxed);
    if (auto it = per_address_.find(from); it != per_address_.end() && --it->second == 0) {
      per_address_.erase(it);
    }
  }

  Listener listener_;
  size_t connections_max_ = 0;
  SessionContext context_;
  std::map<std::string, size_t> per_address_;
  std::unordered_map<uint64_t, std::weak_ptr<SessionHandle>> sessions_;
  uint64_t last_session_ = 0;
  std::atomic<size_t> connection_count_{0};
  asio::io_context loop_;
  asio::posix::stream_descriptor acceptor_;  // only waited on; accept4 gives the flags we want
  LogSink* log_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Create(Listener listener, const HttpLimits& limits,
                                                       HttpHandlers handlers, LogSink* log) {
  try {
    return std::unique_ptr<HttpServer>(
        new HttpServerImpl(std::move(listener), limits, std::move(handlers), log));
  } catch (const std::exception&) {
    return Status::Unavailable("the HTTP server could not set up its event loop");
  }
}

}  // namespace weft::serve
