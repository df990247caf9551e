// A TCP client that sends exactly the bytes it is told, and reads answers by hand: the server's
// tests must not trust a library to be as rude as they need it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace weft::serve {

struct RawAnswer {
  int status = 0;  // 0: the connection ended before an answer
  std::string head;
  std::string body;  // chunks put together
  bool complete = false;

  std::string Header(std::string_view name) const {
    const std::string key = "\r\n" + std::string(name) + ": ";
    const size_t at = head.find(key);
    if (at == std::string::npos) return "";
    const size_t from = at + key.size();
    return head.substr(from, head.find("\r\n", from) - from);
  }
};

class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) Close();
  }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;

  bool connected() const { return fd_ >= 0; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  // Ends with a reset instead of the usual closing.
  void Reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    Close();
  }
  void CloseWriting() { shutdown(fd_, SHUT_WR); }

  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  bool Post(std::string_view path, std::string_view body, std::string_view headers = "") {
    return Send("POST " + std::string(path) +
                " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n" + std::string(headers) + "\r\n" + std::string(body));
  }
  bool Get(std::string_view path, std::string_view headers = "") {
    return Send("GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" +
                std::string(headers) + "\r\n");
  }

  // Reads more into buffer(); false at the end of the connection or after `wait_ms`.
  bool More(int wait_ms = 5000) {
    pollfd one{.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&one, 1, wait_ms) <= 0) return false;
    char bytes[16384];
    const ssize_t n = recv(fd_, bytes, sizeof(bytes), 0);
    if (n <= 0) {
      ended_ = true;
      return false;
    }
    in_.append(bytes, static_cast<size_t>(n));
    return true;
  }
  // The server closed the connection.
  bool Ended(int wait_ms = 5000) {
    while (More(wait_ms)) {
    }
    return ended_;
  }
  bool ReadUntil(std::string_view text, int wait_ms = 5000) {
    while (in_.find(text) == std::string::npos) {
      if (!More(wait_ms)) return false;
    }
    return true;
  }

  // One answer; interim ones (1xx) are passed over unless wanted.
  RawAnswer Read(bool interim = false, bool head_only = false, int wait_ms = 5000) {
    RawAnswer answer;
    for (;;) {
      if (!ReadUntil("\r\n\r\n", wait_ms)) return answer;
      const size_t end = in_.find("\r\n\r\n") + 4;
      answer.head = in_.substr(0, end);
      in_.erase(0, end);
      answer.status = std::atoi(answer.head.c_str() + 9);
      if (answer.status >= 200 || interim) break;
    }
    if (answer.status < 200 || answer.status == 204 || head_only) {
      answer.complete = true;
      return answer;
    }
    if (answer.Header("Transfer-Encoding") == "chunked") {
      for (;;) {
        if (!ReadUntil("\r\n", wait_ms)) return answer;
        const size_t size = std::strtoul(in_.c_str(), nullptr, 16);
        const size_t head = in_.find("\r\n") + 2;
        while (in_.size() < head + size + 2) {
          if (!More(wait_ms)) return answer;
        }
        answer.body += in_.substr(head, size);
        in_.erase(0, head + size + 2);
        if (size == 0) break;
      }
    } else if (const std::string length = answer.Header("Content-Length"); !length.empty()) {
      const size_t size = std::strtoul(length.c_str(), nullptr, 10);
      while (in_.size() < size) {
        if (!More(wait_ms)) return answer;
      }
      answer.body = in_.substr(0, size);
      in_.erase(0, size);
    } else {
      while (More(wait_ms)) {
      }
      answer.body = std::exchange(in_, "");
    }
    answer.complete = true;
    return answer;
  }
  std::string& buffer() { return in_; }

 private:
  int fd_ = -1;
  std::string in_;
  bool ended_ = false;
};

}  // namespace weft::serve
