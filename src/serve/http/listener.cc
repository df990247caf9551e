#include "serve/http/listener.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace weft::serve {
namespace {

constexpr int kBacklog = 4096;

Status CannotListen(const std::string& where, int error) {
  return Status::Unavailable(
      "cannot listen on {}: {}; --port takes another port (0: any free one), --host another "
      "address",
      where, std::strerror(error));
}

void SetReuse(int fd, int on) { setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); }

// Two sockets that both ask to reuse an address can both be bound while neither listens, so the
// first try asks for the port alone. It fails for a minute after a server has ended with clients
// connected; then reuse is what gets the port back.
int BindSocket(int fd, const addrinfo& a) {
  if (bind(fd, a.ai_addr, a.ai_addrlen) == 0) return 0;
  if (errno != EADDRINUSE) return errno;
  SetReuse(fd, 1);
  return bind(fd, a.ai_addr, a.ai_addrlen) == 0 ? 0 : errno;
}

}  // namespace

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(four->sin_addr.s_addr) >> 24) == 127;
  }
  const auto& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

Result<Listener> Listener::Bind(const std::string& host, int port) {
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
  const bool brackets = host.find(':') != std::string::npos;
  const std::string name = brackets ? fmt::format("[{}]", host) : host;
  int last_error = 0;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    Listener out;
    out.fd_ = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    last_error = out.fd_ < 0 ? errno : BindSocket(out.fd_, *a);
    if (last_error != 0) continue;
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    getsockname(out.fd_, reinterpret_cast<sockaddr*>(&bound), &size);
    out.port_ =
        ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
    out.loopback_ = IsLoopback(reinterpret_cast<const sockaddr*>(&bound));
    out.where_ = fmt::format("{}:{}", name, out.port_);
    return out;
  }
  return CannotListen(fmt::format("{}:{}", name, port), last_error);
}

Listener& Listener::operator=(Listener&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) close(fd_);
  fd_ = std::exchange(other.fd_, -1);
  port_ = other.port_;
  loopback_ = other.loopback_;
  where_ = std::move(other.where_);
  return *this;
}

Listener::~Listener() {
  if (fd_ >= 0) close(fd_);
}

Status Listener::Listen() {
  // Connections inherit it, so that the next server can have the port while they wait for their
  // end.
  SetReuse(fd_, 1);
  if (listen(fd_, kBacklog) != 0) return CannotListen(where_, errno);
  return Status::Ok();
}

}  // namespace weft::serve
