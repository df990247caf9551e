// Plays tests/talks/*.http: what is sent, and what must come back. A talk reads
//   # say: TEXT                what the engine answers; streams use one letter, because several
//                              tokens may share a chunk
//   # stop: eos | length
//   # anything else is a comment
//   <request head and body, the body's length is filled in>
//   === STATUS
//   <headers that must be there>
//   <empty line>
//   <JSON, or the events of a stream, one data line each; "*" matches any value>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "serve/serve_fixture.h"

namespace weft::serve {
namespace {

bool Matches(const Json& expected, const Json& found) {
  if (expected == Json("*")) return true;
  if (expected.is_object() && found.is_object()) {
    if (expected.as_object().size() != found.as_object().size()) return false;
    for (const auto& [key, value] : expected.as_object()) {
      const Json* other = found.Find(key);
      if (other == nullptr || !Matches(value, *other)) return false;
    }
    return true;
  }
  if (expected.is_array() && found.is_array()) {
    if (expected.as_array().size() != found.as_array().size()) return false;
    for (size_t i = 0; i < expected.as_array().size(); ++i) {
      if (!Matches(expected.as_array()[i], found.as_array()[i])) return false;
    }
    return true;
  }
  return expected == found;
}

struct Talk {
  std::string say = "Hello";
  int32_t stop = kEos;
  std::string head, body;
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::string> expected;
};

Talk ReadTalk(const std::filesystem::path& path) {
  Talk talk;
  std::ifstream file(path);
  std::string line;
  enum { kComments, kHead, kBody, kHeaders, kExpected } at = kComments;
  while (std::getline(file, line)) {
    if (at == kComments && (line.empty() || line[0] == '#')) {
      if (line.rfind("# say: ", 0) == 0) talk.say = line.substr(7);
      if (line == "# stop: length") talk.stop = -1;
      continue;
    }
    if (at == kComments) at = kHead;
    if (line.rfind("=== ", 0) == 0) {
      talk.status = std::stoi(line.substr(4));
      at = kHeaders;
    } else if (at == kHead) {
      if (line.empty()) {
        at = kBody;
      } else {
        talk.head += line + "\r\n";
      }
    } else if (at == kBody) {
      talk.body += line + "\n";
    } else if (at == kHeaders) {
      if (line.empty()) {
        at = kExpected;
      } else {
        talk.headers.emplace_back(line.substr(0, line.find(": ")),
                                  line.substr(line.find(": ") + 2));
      }
    } else if (!line.empty()) {
      talk.expected.push_back(line);
    }
  }
  return talk;
}

TEST(Talks, EveryTalkGoesAsWritten) {
  int played = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_TESTS_DIR "/talks")) {
    if (entry.path().extension() != ".http") continue;
    SCOPED_TRACE(entry.path().filename().string());
    ++played;
    const Talk talk = ReadTalk(entry.path());
    auto engine = std::make_unique<FakeEngine>(
        [&talk](const engine::Request&) { return Say(talk.say, talk.stop); });
    TestServer server(std::move(engine));
    RawClient client(server.port());
    std::string bytes = talk.head;
    if (!talk.body.empty()) bytes += "Content-Length: " + std::to_string(talk.body.size()) + "\r\n";
    client.Send(bytes + "\r\n" + talk.body);
    const RawAnswer answer = client.Read();
    EXPECT_EQ(answer.status, talk.status) << answer.body;
    for (const auto& [name, value] : talk.headers) EXPECT_EQ(answer.Header(name), value) << name;
    if (talk.expected.empty()) continue;
    if (talk.expected[0].rfind("data: ", 0) != 0) {
      std::string joined;
      for (const auto& line : talk.expected) joined += line;
      EXPECT_TRUE(Matches(Parsed(joined), Parsed(answer.body))) << answer.body;
      continue;
    }
    std::vector<std::string> expected;
    for (const auto& line : talk.expected) expected.push_back(line.substr(6));
    const std::vector<std::string> found = Events(answer.body);
    ASSERT_EQ(found.size(), expected.size()) << answer.body;
    for (size_t i = 0; i < found.size(); ++i) {
      if (expected[i] == "[DONE]") {
        EXPECT_EQ(found[i], "[DONE]");
      } else {
        EXPECT_TRUE(Matches(Parsed(expected[i]), Parsed(found[i])))
            << found[i] << "\nwanted " << expected[i];
      }
    }
  }
  EXPECT_GE(played, 8);
}

}  // namespace
}  // namespace weft::serve
