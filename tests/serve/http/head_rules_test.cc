#include "serve/http/head_rules.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::serve {
namespace {

int StatusOf(const std::string& head) { return CheckHead(head, HttpLimits{}).status; }

TEST(HeadRules, AnOrdinaryHeadPasses) {
  EXPECT_EQ(
      StatusOf("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n"),
      0);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"), 0);
}

TEST(HeadRules, WhatTwoParsersMayReadInTwoWaysIsRefused) {
  const std::string begin = "POST / HTTP/1.1\r\nHost: a\r\n";
  for (const std::string& bad :
       {std::string("Content-Length: 3\r\nContent-Length: 4\r\n\r\n"),
        std::string("Content-Length: 3\r\nContent-Length: 3\r\n\r\n"),
        std::string("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
        std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
        std::string("Transfer-Encoding: gzip, chunked\r\n\r\n"),
        std::string("Transfer-Encoding: identity\r\n\r\n"),
        std::string("Content-Length: +5\r\n\r\n"),
        std::string("Content-Length: -1\r\n\r\n"),
        std::string("Content-Length: 0x10\r\n\r\n"),
        std::string("Content-Length: 5, 5\r\n\r\n"),
        std::string("Content-Length:\r\n\r\n"),
        std::string("Content-Length: 99999999999999999999\r\n\r\n"),
        std::string("Content-Length : 5\r\n\r\n"),
        std::string("X: a\r\n b\r\n\r\n"),
        std::string("X: a\nY: b\r\n\r\n"),
        std::string("X: a\rb\r\n\r\n"),
        std::string("Host: b\r\n\r\n"),
        std::string("no colon\r\n\r\n"),
        std::string(": nameless\r\n\r\n"),
        std::string("X: a\0b\r\n\r\n", 10)}) {
    EXPECT_EQ(StatusOf(begin + bad), 400) << bad;
  }
}

TEST(HeadRules, SizesAreBoundedOneByOneAndTogether) {
  const std::string begin = "GET / HTTP/1.1\r\nHost: a\r\n";
  const std::string name = "X: ";
  const HttpLimits limits;
  EXPECT_EQ(
      StatusOf(begin + name + std::string(limits.line_bytes_max - name.size(), 'a') + "\r\n\r\n"),
      0);
  EXPECT_EQ(StatusOf(begin + name + std::string(limits.line_bytes_max - name.size() + 1, 'a') +
                     "\r\n\r\n"),
            431);
  std::string many = begin;
  for (size_t i = 1; i < limits.headers_max; ++i) many += "X: a\r\n";
  EXPECT_EQ(StatusOf(many + "\r\n"), 0);
  EXPECT_EQ(StatusOf(many + "X: a\r\n\r\n"), 431);
  std::string large = begin;
  while (large.size() <= limits.head_bytes_max) large += "X: " + std::string(4000, 'a') + "\r\n";
  EXPECT_EQ(StatusOf(large + "\r\n"), 431);
}

TEST(HeadRules, OnlyAddressesAndLocalhostAreThisMachine) {
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "10.0.0.7:80",
                           "[::1]", "[::1]:8000"}) {
    EXPECT_TRUE(IsLocalHostName(host)) << host;
  }
  for (const char* host :
       {"", "evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil", "[::1",
        "[evil]", "localhost:x", "[::1]x", "127.0.0.1:80:80"}) {
    EXPECT_FALSE(IsLocalHostName(host)) << host;
  }
}

}  // namespace
}  // namespace weft::serve
