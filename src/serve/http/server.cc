#include "serve/http/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
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

// Closes on leaving its scope.
struct OwnedFd {
  int fd = -1;
  OwnedFd() = default;
  explicit OwnedFd(int f) : fd(f) {}
  OwnedFd(OwnedFd&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  OwnedFd& operator=(OwnedFd&&) = delete;
  ~OwnedFd() {
    if (fd >= 0) close(fd);
  }
};

struct Listener {
  OwnedFd socket;
  int port = 0;
  bool ipv6 = false;
  bool loopback = false;
};

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(four->sin_addr.s_addr) >> 24) == 127;
  }
  const auto& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

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

Result<Listener> Listen(const std::string& host, int port) {
  if (port < 0 || port > 65535) return Status::Invalid("--port {} is not in 0..65535", port);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints,
                  &found) != 0) {
    return Status::Invalid("--host '{}' is no address or name of this machine", host);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  int last_error = 0;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    Listener out;
    out.socket.fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (out.socket.fd < 0) {
      last_error = errno;
      continue;
    }
    const int one = 1;
    setsockopt(out.socket.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(out.socket.fd, a->ai_addr, a->ai_addrlen) != 0 || listen(out.socket.fd, 4096) != 0) {
      last_error = errno;
      continue;
    }
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    getsockname(out.socket.fd, reinterpret_cast<sockaddr*>(&bound), &size);
    out.ipv6 = bound.ss_family == AF_INET6;
    out.port = ntohs(out.ipv6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                              : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
    out.loopback = IsLoopback(reinterpret_cast<const sockaddr*>(&bound));
    return out;
  }
  return Status::Unavailable("cannot listen on --host {} --port {}: {}", host, port,
                             std::strerror(last_error));
}

class HttpServerImpl final : public HttpServer {
 public:
  HttpServerImpl(HttpOptions options, HttpHandlers handlers, Listener listener, LogSink* log)
      : options_(std::move(options)),
        listener_(std::move(listener)),
        loop_(1),
        acceptor_(loop_),
        log_(log) {
    context_.loop = &loop_;
    context_.limits = options_.limits;
    context_.handlers = std::move(handlers);
    context_.log = log;
    context_.scratch.resize(64u << 10);
    if (getrandom(&context_.id_salt, sizeof(context_.id_salt), 0) < 0) context_.id_salt = 0;
    connections_max_ = options_.limits.connections_max;
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
    acceptor_.assign(std::exchange(listener_.socket.fd, -1));
    thread_ = std::thread([this] {
      auto keep = asio::make_work_guard(loop_);
      WaitForConnection();
      Loop();
    });
    return Status::Ok();
  }

  int port() const override { return listener_.port; }
  bool loopback() const override { return listener_.loopback; }

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
        if (per_address_[from] >= options_.limits.connections_per_address_max) {
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

  HttpOptions options_;
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

Result<std::unique_ptr<HttpServer>> HttpServer::Create(HttpOptions options, HttpHandlers handlers,
                                                       LogSink* log) {
  WEFT_ASSIGN_OR_RETURN(Listener listener, Listen(options.host, options.port));
  try {
    return std::unique_ptr<HttpServer>(
        new HttpServerImpl(std::move(options), std::move(handlers), std::move(listener), log));
  } catch (const std::exception&) {
    return Status::Unavailable("the HTTP server could not set up its event loop");
  }
}

}  // namespace weft::serve
