// Covers src/text/jinja/
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include "support/cpu_seconds.h"
#include "test_data.h"

namespace weft::text {
namespace {

std::tm OracleNow() {
  std::tm now{};
  now.tm_year = 124;
  now.tm_mon = 6;
  now.tm_mday = 26;
  now.tm_wday = 5;
  now.tm_yday = 207;
  now.tm_hour = 15;
  now.tm_min = 4;
  now.tm_sec = 5;
  return now;
}

Result<std::string> RenderOnce(std::string_view source,
                               const Json& context = Json(Json::Object{})) {
  WEFT_ASSIGN_OR_RETURN(const ChatTemplate made, ChatTemplate::Parse(source));
  return made.Render(context, {.now = OracleNow()});
}

TEST(ChatTemplate, PrintsWhatTheOraclePrintsAndRefusesWhatItRefuses) {
  const Json golden = ReadTestJson("templates.json");
  const Json::Array& contexts = golden.Find("contexts")->as_array();
  size_t printed = 0;
  size_t refused = 0;
  for (const Json& entry : golden.Find("templates")->as_array()) {
    const std::string& source = entry.Find("template")->as_string();
    for (const Json& one : entry.Find("cases")->as_array()) {
      const Json& context = contexts[static_cast<size_t>(one.Find("context")->as_int())];
      const auto text = RenderOnce(source, context);
      if (const Json* output = one.Find("output")) {
        ++printed;
        EXPECT_TRUE(text.ok()) << entry.Find("name")->as_string() << ": " << text.status().message()
                               << "\n"
                               << source;
        if (!text.ok()) continue;
        EXPECT_EQ(*text, output->as_string()) << entry.Find("name")->as_string() << "\n" << source;
      } else {
        ++refused;
        EXPECT_FALSE(text.ok()) << entry.Find("name")->as_string() << "\n"
                                << source << "\n"
                                << *text;
      }
    }
  }
  EXPECT_GT(printed, 100u);
  EXPECT_GT(refused, 60u);
}

TEST(ChatTemplate, TellsWhatTheTemplateSaysWhenItRefuses) {
  const auto text =
      RenderOnce("a\n{% if true %}\n{{ raise_exception('Only users may speak') }}{% endif %}");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().code(), StatusCode::kInvalid);
  EXPECT_EQ(text.status().message(),
            "template line 3: the chat template refuses: Only users may speak");
}

TEST(ChatTemplate, NamesTheLineOfAMistake) {
  const auto made = ChatTemplate::Parse("x\n\n{{ 1 + }}");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().message(), "template line 3: expected an expression");
  for (const char* unsupported :
       {"{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}",
        "{% block a %}{% endblock %}", "{{ x|nofilter }}", "{{ x is notest }}",
        "{% for a in b recursive %}{% endfor %}", "{{ f(*a) }}"}) {
    const auto refused = ChatTemplate::Parse(unsupported);
    ASSERT_FALSE(refused.ok()) << unsupported;
    EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported) << refused.status().message();
  }
}

TEST(ChatTemplate, KnowsWhichNamesItUses) {
  const auto made = ChatTemplate::Parse("{{ messages }}{% if enable_thinking %}{% endif %}");
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->Uses("enable_thinking"));
  EXPECT_FALSE(made->Uses("tools"));
}

TEST(ChatTemplate, HasNoClockOfItsOwn) {
  const auto made = ChatTemplate::Parse("{{ strftime_now is defined }}");
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(*made->Render(Json(Json::Object{})), "False");
}

TEST(ChatTemplate, RendersTheSameOnManyThreadsAndAfterAnError) {
  const auto made = ChatTemplate::Parse(
      "{% set l = [] %}{% set _ = l.append(x) %}{{ l }}{% if x == 2 %}{{ raise_exception('2') }}{% "
      "endif %}");
  ASSERT_TRUE(made.ok());
  for (int64_t x = 0; x < 5; ++x) {
    const auto text = made->Render(Json(Json::Object{{"x", x}}));
    EXPECT_EQ(text.ok(), x != 2);
    if (text.ok()) {
      EXPECT_EQ(*text, "[" + std::to_string(x) + "]");
    }
  }
}

std::string Repeat(std::string_view part, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += part;
  return text;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
constexpr double kBombSeconds = 20.0;  // a slow build proves that they end
#else
constexpr double kBombSeconds = 0.1;
#endif

TEST(ChatTemplate, AnswersOrRefusesBombsInATenthOfASecond) {
  const std::string kilo(1000, 'a');
  const std::string big = "{% set s = 'aaaaaaaa' * 100000 %}";
  const std::vector<std::string> bombs{
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
      "{% macro f(n) %}{% if n < 60 %}{{ f(n + 1) }}{{ f(n + 1) }}{% endif %}{% endmacro %}{{ f(0) "
      "}}",
      "{% for i in range(10 ** 9) %}x{% endfor %}",
      "{{ range(1000000000) }}",
      "{{ range(-9223372036854775807, 9223372036854775807) }}",
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{% for a in range(99) %}{% for b in range(99) %}{% for c in range(99) %}{% for d in "
      "range(99) %}{{ d }}{% endfor %}{% endfor %}{% endfor %}{% endfor %}",
      "{{ " + std::string(20000, '(') + "1" + std::string(20000, ')') + " }}",
      "{{ " + std::string(20000, '[') + std::string(20000, ']') + " }}",
      "{{ " + Repeat("{'a':", 20000) + "1" + std::string(20000, '}') + " }}",
      "{{ " + Repeat("not ", 20000) + "1 }}",
      "{{ " + Repeat("- ", 20000) + "1 }}",
      "{{ " + Repeat("1 + ", 200000) + "1 }}",
      "{{ x" + Repeat(".a", 100000) + " }}",
      "{{ x" + Repeat("|trim", 100000) + " }}",
      "{{ 1" + Repeat(" if 1 else 1", 20000) + " }}",
      Repeat("{% if 1 %}", 20000) + Repeat("{% endif %}", 20000),
      "{% if 0 %}" + Repeat("{% elif 0 %}", 50000) + "{% endif %}",
      Repeat("{% for i in range(2) %}", 60) + "x" + Repeat("{% endfor %}", 60),
      "{% set ns = namespace(s='a') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "{% set ns = namespace(s='a') %}{% for i in range(99999) %}{% set ns.s = ns.s ~ '" + kilo +
          "' %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% "
      "endfor %}",
      "{{ 'a' * 10000000000 }}",
      "{{ [1] * 10000000000 }}",
      "{{ 'a' * 9223372036854775807 }}",
      big + "{% for i in range(99999) %}{{ s }}{% endfor %}",
      big +
          "{{ (s ~ 'b') in s }}{% for i in range(999) %}{% set x = ('a' * 400 ~ 'b') in s %}{% "
          "endfor %}",
      big + "{{ s.replace('a', s) }}",
      big + "{{ s|replace('', s) }}",
      big + "{% for i in range(9999) %}{% set x = s.split('a') %}{% endfor %}",
      big + "{% for i in range(9999) %}{% set x = s|list %}{% endfor %}",
      big + "{% for i in range(99999) %}{% set x = s[i] %}{% endfor %}",
      big + "{% for i in range(99999) %}{% set x = s.strip('a') %}{% endfor %}",
      big + "{% for i in range(99999) %}{% set x = s|upper|lower|title|trim %}{% endfor %}",
      big + "{% for i in range(99999) %}{% set x = s == s ~ '' %}{% endfor %}",
      "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}{{ l|tojson }}",
      "{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}",
      "{% set l = [] %}{% set m = [l] %}{% set _ = l.append(m) %}{{ l == m }}",
      "{% set d = {} %}{% set _ = d.update({'d': d}) %}{{ d|tojson(indent=60) }}",
      "{% set l = [1] %}{% for i in l %}{% set _ = l.append(i) %}{% set _ = l.extend(l) %}{% "
      "endfor %}{{ l|length }}",
      "{% set l = [0] %}{% for i in range(99999) %}{% set _ = l.extend(l) %}{% endfor %}",
      "{% set l = range(90000)|list %}{% for i in range(99999) %}{% set x = i in l %}{% endfor %}",
      "{% set l = range(90000)|list %}{{ l|unique|list|length }}",
      "{% set l = range(90000)|list %}{% for i in l %}{% set x = l|sort|sum %}{% endfor %}",
      "{% set l = range(90000)|list %}{% for i in l %}{% set _ = l.insert(0, 1) %}{% set _ = "
      "l.pop(0) %}{% endfor %}",
      "{{ 2 ** 10000000000 }}{{ (-3) ** 9223372036854775807 }}{{ -9223372036854775807 - 1 }}",
      "{{ (0 - 9223372036854775807 - 1) // -1 }}{{ (0 - 9223372036854775807 - 1) % -1 }}",
      "{{ strftime_now('" + std::string(250, 'c') + "') }}{{ strftime_now('" + Repeat("%c", 120) +
          "') }}",
      "{{ ('" + kilo + "' * 1000)|indent(1000) }}{{ ('a\n' * 100000)|indent(1000) }}",
      "{% filter upper %}" + Repeat("{% for i in range(99) %}", 8) + kilo +
          Repeat("{% endfor %}", 8) + "{% endfilter %}",
      [] {
        std::string text = "{% for i in range(1) %}";
        for (int i = 0; i < 40000; ++i) text += "{% set v" + std::to_string(i) + " = 1 %}";
        return text + "{% endfor %}";
      }(),
      std::string(900000, '{'),
      Repeat("{%", 300000),
      Repeat("{# ", 300000),
      Repeat("{{ '", 200000),
      Repeat("{% raw %}", 100000),
      "{{ '" + Repeat("\\x41", 200000) + "' }}",
      Repeat(" \n", 400000) + "{%- if 1 %}{% endif %}",
  };
  EXPECT_GE(bombs.size(), 30u);
  const Json context(Json::Object{{"x", "value"}});
  for (const std::string& bomb : bombs) {
    const double start = support::CpuSeconds();
    const auto made = ChatTemplate::Parse(bomb);
    const double parsed = support::CpuSeconds();
    EXPECT_LT(parsed - start, 2 * kBombSeconds) << bomb.substr(0, 200);  // two dry runs
    if (!made.ok()) {
      EXPECT_FALSE(made.status().message().empty());
      continue;
    }
    const auto text = made->Render(context);
    EXPECT_LT(support::CpuSeconds() - parsed, kBombSeconds) << bomb.substr(0, 200);
    if (text.ok()) {
      EXPECT_LE(text->size(), 8u << 20);
    } else {
      EXPECT_NE(text.status().message().find("template line"), std::string::npos);
    }
  }
}

TEST(ChatTemplate, KeepsToTheLimitsItIsGiven) {
  const auto loop = ChatTemplate::Parse("{% for i in range(1000) %}xxxxxxxxxx{% endfor %}");
  ASSERT_TRUE(loop.ok());
  const Json context(Json::Object{});
  EXPECT_EQ(loop->Render(context)->size(), 10000u);
  const auto steps = loop->Render(context, {.limits = {.steps_max = 500}});
  ASSERT_FALSE(steps.ok());
  EXPECT_EQ(steps.status().code(), StatusCode::kExhausted);
  EXPECT_NE(steps.status().message().find("500 steps"), std::string::npos);
  const auto bytes = loop->Render(context, {.limits = {.output_bytes_max = 9999}});
  ASSERT_FALSE(bytes.ok());
  EXPECT_NE(bytes.status().message().find("9999 bytes"), std::string::npos);
  const auto range = loop->Render(context, {.limits = {.range_max = 999}});
  ASSERT_FALSE(range.ok());
  EXPECT_NE(range.status().message().find("999 numbers"), std::string::npos);
}

// Files that try to reach what is behind the language: there is nothing.
TEST(ChatTemplate, GivesEscapesAnErrorOrNothing) {
  for (const char* object :
       {"''", "[]", "{}", "1", "range", "namespace", "x", "messages", "raise_exception", "dict",
        "loop", "true", "none", "('')", "x.append", "''.join"}) {
    for (const char* path :
         {".__class__", ".__class__.__mro__", ".__class__.__base__.__subclasses__()",
          ".__init__.__globals__", ".__globals__['os']", "['__class__']",
          "['__class__']['__mro__'][1]", ".__getattribute__('x')", ".__doc__",
          "|map(attribute='__class__')|list", ".__init__.__builtins__", ".mro()",
          ".func_globals.os.system('x')"}) {
      const auto text =
          RenderOnce("{{ " + std::string(object) + path + " }}",
                     Json(Json::Object{{"x", Json::Array{}}, {"messages", Json::Array{}}}));
      if (text.ok()) {
        EXPECT_TRUE(*text == "" || *text == "[]") << object << path << *text;
      }
    }
  }
}

}  // namespace
}  // namespace weft::text
