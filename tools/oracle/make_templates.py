#!/usr/bin/env python3
"""Golden renderings for src/text/chat_template: templates of our own that use each feature which
model files use, rendered by jinja2 in the environment that Hugging Face renders chat templates in.

Writes tests/text/data/templates.json: a list of {name, template, cases: [{context, output | error}]}.
Run: .venv/bin/python tools/oracle/make_templates.py
"""

import datetime
import json
import pathlib

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import SandboxedEnvironment

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "text" / "data" / "templates.json"
NOW = datetime.datetime(2024, 7, 26, 15, 4, 5)


class Generation(Extension):
    """{% generation %} prints its body; the real one also notes where it begins and ends."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.Scope(body, lineno=line)


class Refused(Exception):
    pass


def raise_exception(message):
    raise Refused(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    # Hugging Face takes the immutable variant; templates in the wild also append to lists.
    env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


CHATML = """\
{% for message in messages %}
{% if loop.first and message['role'] != 'system' %}
{{ '<|im_start|>system\\nYou answer in few words.<|im_end|>\\n' }}
{% endif %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{%- endif -%}
"""

# System text first, tools in it as JSON, calls and results in tags, reasoning of old turns left out.
THINKING = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "Functions that can be called:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(searching=true, last_query=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not (message.content.startswith('<result>') and message.content.endswith('</result>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query and (loop.last or reasoning) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if (loop.first and content) or (not loop.first) %}
                {{- '\\n' }}
            {%- endif %}
            {%- if call.function %}
                {%- set call = call.function %}
            {%- endif %}
            {{- '<call>\\n{"name": "' }}
            {{- call.name }}
            {{- '", "arguments": ' }}
            {%- if call.arguments is string %}
                {{- call.arguments }}
            {%- else %}
                {{- call.arguments | tojson }}
            {%- endif %}
            {{- '}\\n</call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<result>\\n' + content + '\\n</result>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

# Parameters in tags, iterated; neighbours by previtem and nextitem; macros with defaults.
PARAMETERS = """\
{%- macro render(value, tag='value', depth=0) %}
    {%- if value is mapping or (value is iterable and value is not string) %}
        {{- '<' ~ tag ~ '>' ~ (value | tojson) ~ '</' ~ tag ~ '>' }}
    {%- elif value is none %}
        {{- '<' ~ tag ~ '/>' }}
    {%- else %}
        {{- '<' ~ tag ~ '>' ~ value|string ~ '</' ~ tag ~ '>' }}
    {%- endif %}
{%- endmacro %}
{%- macro parts(content, count=namespace(image=0)) %}
    {%- if content is string %}{{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for item in content %}
            {%- if 'image' in item or item.type == 'image' %}
                {%- set count.image = count.image + 1 %}
                {{- 'Picture ' ~ count.image ~ ': <|image|>' }}
            {%- elif 'text' in item %}{{- item.text }}
            {%- else %}{{- raise_exception('a part of an unknown kind') }}
            {%- endif %}
        {%- endfor %}
    {%- elif content is none or content is undefined %}{{- '' }}
    {%- else %}{{- raise_exception('content of an unknown type') }}
    {%- endif %}
{%- endmacro %}
{%- if not messages %}{{- raise_exception('no messages') }}{%- endif %}
{%- for message in messages %}
    {%- set content = parts(message.content)|trim %}
    {%- if message.role == 'system' and not loop.first %}
        {{- raise_exception('System message must be at the beginning.') }}
    {%- elif message.role == 'assistant' %}
        {{- '[A]' ~ content }}
        {%- if message.tool_calls is defined and message.tool_calls is iterable and message.tool_calls is not mapping %}
            {%- for call in message.tool_calls %}
                {%- set call = call.function if call.function is defined else call %}
                {{- '\\n<function=' + call.name + '>\\n' }}
                {%- for key, value in call.arguments|items %}
                    {{- '<parameter=' + key + '>\\n' }}
                    {{- value | tojson | safe if value is mapping or (value is sequence and value is not string) else value | string }}
                    {{- '\\n</parameter>\\n' }}
                    {{- render(value, tag=key) }}
                {%- endfor %}
                {{- '</function>' }}
            {%- endfor %}
        {%- endif %}
        {{- '\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.previtem and loop.previtem.role != 'tool' %}{{- '[U]' }}{%- endif %}
        {{- '<r>' ~ content ~ '</r>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{- '\\n' }}{%- endif %}
    {%- else %}
        {{- '[' ~ message.role[0]|upper ~ ']' ~ content ~ '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '[A]<think>\\n' if enable_thinking|default(true) else '[A]<think>\\n\\n</think>\\n\\n' }}{%- endif %}
"""

# Headers with ids, a date, defaults by "is defined", tools in the first user turn.
HEADERS = """\
{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- The system turn, also without a system message -#}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|head|>system<|end|>\\n\\n" }}
{%- if tools is not none %}{{- "Environment: tools\\n" }}{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|turn|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("No first user message to put tools into!") }}
    {%- endif %}
    {{- '<|head|>user<|end|>\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|turn|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or message.role == 'reply' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|end|>\\n\\n'+ message['content'] | trim + '<|turn|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("Only one call at once!") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|head|>assistant<|end|>\\n\\n' -}}
        {{- '{"name": "' + call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}" }}
        {{- "<|turn|>" }}
    {%- elif message.role == "tool" or message.role == "reply" %}
        {{- "<|head|>reply<|end|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|turn|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|end|>\\n\\n' }}
{%- endif %}
"""

# Lists that grow, negative ranges, break and continue, generation tags, block set, filter blocks.
STATE = """\
{% set seen = [] %}
{% set ns = namespace(text='', n=0) %}
{% for m in messages if m.role in ['user', 'assistant'] %}
{% if m.role not in seen %}
{% set _ = seen.append(m.role) %}
{% endif %}
{% if m.content == 'skip' %}{% continue %}{% endif %}
{% if m.content == 'stop' %}{% break %}{% endif %}
{% set ns.n = ns.n + 1 %}
{% set ns.text = ns.text ~ loop.index ~ '/' ~ loop.length ~ ':' ~ m.content ~ ';' %}
{% else %}
nobody
{% endfor %}
{% for i in range(ns.n - 1, -1, -1) %}{{ i }}{{ ', ' if not loop.last }}{% endfor %}

{% generation %}
text={{ ns.text }} seen={{ seen|join('+') }} first={{ seen.pop(0) if seen }}
{% endgeneration %}
{% set block %}
  kept {{ ns.n }}
{% endset %}
[{{ block }}]
{% filter upper %}loud {{ ns.n }}{% endfilter %}

{%- raw %} {{ not.rendered }} {% endraw %}
{% with a = 1, b = ns.n %}{{ a + b }}{% endwith %}
{{ messages|map(attribute='role')|join(',') }}|{{ messages|selectattr('role', 'equalto', 'user')|list|length }}
{#  a comment
    of two lines #}
  {% if true +%}
end
{%- endif %}
"""

TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a <place> & time, 'now'", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Köln", "東京"]}, "days": {"type": "integer", "default": 3}},
    "required": ["city"], "additionalProperties": False}}}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": {
    "name": "get_weather", "arguments": {"city": "Köln", "days": 2, "exact": True, "opt": None, "list": [1, 2.5, "x"], "map": {"b": 1, "a": 2}}}}]}
CALL_TEXT = {"role": "assistant", "content": "Let me see.", "tool_calls": [{"name": "f", "arguments": "{\"a\": 1}"}, {"name": "g", "arguments": {}}]}

TALKS = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "  Be brief.\n"}, {"role": "user", "content": " Hi there "}, {"role": "assistant", "content": "Hello 😀"}, {"role": "user", "content": "Say \"é\"\n\tor <b>&amp;</b>"}],
    [{"role": "user", "content": "weather?"}, CALL, {"role": "tool", "content": "sunny"}, {"role": "tool", "content": "21 °C"}, {"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "thanks"}],
    [{"role": "system", "content": "S"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nanswer"}, {"role": "user", "content": "more"}, CALL_TEXT, {"role": "tool", "content": "r"}],
    [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning_content": "\nbecause\n"}],
    [{"role": "user", "content": [{"type": "text", "text": "look "}, {"type": "image"}, {"type": "text", "text": " and "}, {"image": "x"}]}, {"role": "assistant", "content": None}],
    [{"role": "user", "content": "skip"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "stop"}, {"role": "user", "content": "b"}],
    [{"role": "user", "content": "a"}, {"role": "system", "content": "late"}],
    [{"role": "user", "content": {"odd": 1}}],
    [],
]
OPTIONS = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False, "tools": [TOOL, {"name": "noop", "n": 1e-7, "big": 1e22, "none": None, "u": "\u2028\u007f\u0001"}]},
    {"add_generation_prompt": True, "enable_thinking": False, "tools": None},
]

# One expression each, with the context that SNIPPET_CONTEXT is.
SNIPPET_CONTEXT = {
    "s": "Hello, Wörld! ", "n": 7, "m": -3, "x": 2.5, "t": True, "f": False, "nil": None, "empty": "", "l": [3, 1, 2], "ls": ["b", "A", "c", "a"],
    "d": {"b": 1, "a": [1, {"z": None}], "items": "member", "k.k": 2}, "nested": [{"r": "u", "v": {"w": 1}}, {"r": "a", "v": {"w": 2}}, {"r": "u"}],
    "uni": "日本 é😀\u00a0", "json": "{\"b\": [1, 2.0, \"x\"], \"a\": null}", "quote": "it's \"q\"\n\\ \u200b\x07", "lines": "a\nb\r\n\nc", "digits": "042", "big": 9007199254740993,
}
SNIPPETS = """
{{ s }}|{{ n }}|{{ x }}|{{ t }}|{{ nil }}|{{ l }}|{{ d }}|{{ undefined_name }}|
{{ n + 1 }} {{ n - m }} {{ n * m }} {{ n / 2 }} {{ n // 2 }} {{ m // 2 }} {{ n % 4 }} {{ m % 4 }} {{ m % -4 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ x // 1 }} {{ -x % 2 }} {{ n / 7 }}
{{ -n }} {{ +n }} {{ - m }} {{ 1 - 2 - 3 }} {{ 2 * 3 + 4 * 5 }} {{ (2 + 3) * 4 }} {{ 2 ** 3 ** 2 }} {{ 7 // 2 * 2 }} {{ 1 * 2 ~ 3 * 4 }}
{{ 1e3 }} {{ 1.50 }} {{ 1_000 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1/3 }} {{ 123456789.125 }} {{ 1e22 }} {{ big }}
{{ 'a' 'b' }} {{ "tab\\there" }} {{ 'q\\'q' }} {{ "\\u00e9\\x41\\101" }} {{ "\\q\\\\n" }} {{ '\\U0001F600' }}
{{ s ~ n ~ nil ~ t ~ l }} {{ s + s }} {{ 'ab' * 3 }} {{ 2 * 'xy' }} {{ [1] * 2 + [2] }} {{ (1,) + (2, 3) }}
{{ n == 7 }} {{ n == 7.0 }} {{ t == 1 }} {{ 'a' == 'a' }} {{ 'a' != 'b' }} {{ [1,2] == [1,2] }} {{ {'a':1} == {'a':1.0} }} {{ nil == none }} {{ undefined_name == nil }} {{ undefined_name == other_undefined }} {{ (1,2) == [1,2] }}
{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 <= 1 }} {{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ [1,2] < [1,3] }} {{ 1 < 2.5 }}
{{ 'ell' in s }} {{ 'a' in d }} {{ 1 in l }} {{ 9 not in l }} {{ not 1 in l }} {{ 'x' in undefined_name }} {{ '' in s }} {{ 1 in d }} {{ (1 in l) == true }}
{{ t and n }} {{ f or s }} {{ f and n }} {{ nil or empty or 'last' }} {{ not t }} {{ not not n }} {{ not undefined_name }} {{ t and f or t }}
{{ 'y' if t else 'n' }} {{ 'y' if f else 'n' }} [{{ 'y' if f }}] {{ 'a' if f else 'b' if f else 'c' }} {{ ('x' if t) ~ 'z' }} {{ 1 if t and not f else 2 }}
{{ l[0] }} {{ l[-1] }} [{{ l[9] }}] {{ d['b'] }} {{ d.b }} [{{ d.zz }}] [{{ d['zz'] }}] {{ d['items'] }} {{ d.a[1].z }} {{ s[0] }} {{ s[-2] }} {{ uni[1] }} [{{ uni[99] }}] {{ nested[1].v.w }} {{ nested.0.r }}
{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[5:] }} {{ l[-2:] }} {{ s[7:] }}| {{ s[:5] }} {{ s[::-1] }} {{ uni[:2] }} {{ uni[2:4] }} {{ l[2:0:-1] }} {{ s[-100:3] }} {{ s[3:1] }}| {{ l[none:2] }} {{ (1,2,3)[1:] }}
{{ [] }} {{ [1, 'a', none, true, 1.0] }} {{ () }} {{ (1,) }} {{ (1, 2) }} {{ {} }} {{ {'a': 1, "b": [1]} }} {{ [[]] }} {{ ['it\\'s', "q\\"q", 'both \\' "'] }}
{{ [quote, uni] }} {{ {quote: 1} }}
{{ l|length }} {{ s|length }} {{ uni|length }} {{ d|length }} {{ undefined_name|length }} {{ l|count }}
{{ s|trim }}| {{ '  x '|trim }}| {{ 'xxaxx'|trim('x') }} {{ uni|trim }}| {{ s|upper }} {{ s|lower }} {{ uni|upper }} {{ 'straße'|upper }} {{ 'hELLO wORLD-foo'|title }} {{ 'hELLO'|capitalize }} {{ 'ÀÉ'|lower }}
{{ l|join }} {{ l|join(', ') }} {{ ls|join('-') }} {{ nested|join(',', attribute='r') }} {{ s|join('.') }} {{ d|join(',') }} {{ []|join('x') }}|
{{ l|first }} {{ l|last }} {{ s|first }} [{{ []|first }}] {{ l|list }} {{ 'abc'|list }} {{ d|list }} {{ l|reverse|list }} {{ 'abc'|reverse }}
{{ undefined_name|default('d') }} {{ nil|default('d') }} {{ empty|default('d', true) }} {{ nil|d('e', boolean=true) }} [{{ undefined_name|default }}] {{ n|default(1) }}
{{ d|items|list }} {{ undefined_name|items|list }} {{ d.items()|list }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.get('b') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d|dictsort(by='key')|length }} {{ {'b': 1, 'a': 2}|dictsort }} {{ {'b': 1, 'a': 2}|dictsort(by='value') }}
{{ d|tojson }} {{ l|tojson }} {{ s|tojson }} {{ quote|tojson }} {{ nil|tojson }} {{ x|tojson }} {{ '<&>\\''|tojson }} {{ uni|tojson(ensure_ascii=true) }} {{ 1e16|tojson }} {{ (1,2)|tojson }} {{ 1.0|tojson }}
{{ d|tojson(indent=2) }} {{ []|tojson(indent=2) }} {{ {}|tojson(indent=4) }} {{ [[]]|tojson(indent=1) }} {{ {'b':1,'a':2}|tojson(sort_keys=true) }} {{ d|tojson(separators=(',', ':')) }} {{ l|tojson(indent=0) }}
{{ json|from_json }} {{ (json|from_json).b[1] }} {{ s|string }} {{ n|string + 'x' }} {{ l|string|length }} {{ nil|string }} {{ s|safe }}
{{ '42'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 3.9|int }} {{ '3.7'|int }} {{ '-12'|int }} {{ 'ff'|int(base=16) }} {{ '2.5'|float }} {{ 'x'|float }} {{ n|float }} {{ t|int }} {{ nil|int }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.567|round(2) }} {{ 2.1|round(method='ceil') }} {{ 2.9|round(0, 'floor') }} {{ m|abs }} {{ -2.5|abs }} {{ 7|round }}
{{ l|sort }} {{ ls|sort }} {{ ls|sort(case_sensitive=true) }} {{ l|sort(reverse=true) }} {{ nested|sort(attribute='r')|map(attribute='r')|list }} {{ [1, 1, 2, 'a', 'A']|unique|list }} {{ l|max }} {{ l|min }} {{ l|sum }} {{ nested[:2]|sum(attribute='v.w') }} {{ ls|max }}
{{ nested|map(attribute='r')|list }} {{ nested|map(attribute='v.w', default='-')|list }} {{ ls|map('upper')|join }} {{ l|map('string')|list }} {{ ['a b', 'c']|map('replace', ' ', '_')|list }} {{ [[1],[2,3]]|map('length')|list }}
{{ l|select('odd')|list }} {{ l|reject('equalto', 1)|list }} {{ l|select('>', 1)|list }} {{ [0, 1, '', 'a']|select|list }} {{ nested|selectattr('r', 'equalto', 'u')|list|length }} {{ nested|rejectattr('v')|list }} {{ nested|selectattr('v', 'defined')|list|length }} {{ ls|select('in', ['a', 'b'])|list }} {{ ls|reject('string')|list }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ s|replace('o', '0') }} {{ 'aaa'.replace('', '-') }} {{ 'aaa'|replace('a', 'bb', 2) }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ lines.splitlines() }} {{ 'a b c'.split(none, 1) }} {{ 'a--b'.split('--')[-1] }} {{ 'x'.split(sep='y') }}
{{ ' x '.strip() }}| {{ 'xxaxx'.strip('x') }} {{ 'xya'.lstrip('yx') }} {{ 'axy'.rstrip('xy') }} {{ '\\n a\\n'.strip('\\n') }}| {{ uni.strip() }}| {{ 'éaé'.strip('é') }}
{{ s.startswith('Hell') }} {{ s.endswith('! ') }} {{ s.startswith(('x', 'H')) }} {{ s.find('W') }} {{ s.find('zz') }} {{ s.rfind('l') }} {{ s.count('l') }} {{ 'abc'.index('c') }} {{ uni.find('é') }} {{ 'abc'.upper() }} {{ 'ABC'.lower() }} {{ "they're bill's"|title }} {{ "they're bill's".title() }} {{ 'xAb'.capitalize() }} {{ ','.join(ls) }} {{ digits.isdigit() }} {{ 'a1'.isalpha() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'ab1'.islower() }} {{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.py'.removesuffix('.py') }}
{{ undefined_name is defined }} {{ s is defined }} {{ nil is none }} {{ undefined_name is none }} {{ s is string }} {{ n is string }} {{ n is number }} {{ t is number }} {{ x is float }} {{ n is integer }} {{ t is integer }} {{ t is boolean }} {{ d is mapping }} {{ l is mapping }} {{ l is iterable }} {{ s is iterable }} {{ d is iterable }} {{ n is iterable }} {{ nil is iterable }} {{ undefined_name is iterable }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }}
{{ t is true }} {{ 1 is true }} {{ f is false }} {{ nil is false }} {{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ n is equalto 7 }} {{ n is eq(8) }} {{ n is ne 8 }} {{ n is gt 3 }} {{ n is in [7] }} {{ 'a' is in 'abc' }} {{ s is not none }} {{ s is not string }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ n is not defined or t }} {{ d.b is defined and d.b is number }} {{ range is callable }} {{ nil is sameas none }} {{ undefined_name is undefined }}
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.cycle('x', 'y') }};{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'añ' %}<{{ c }}>{% endfor %}{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}{% for z in undefined_name %}x{% else %}none{% endfor %}
{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}{% for i in l if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% endfor %}{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}
{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(2, 5) %}{{ i }}{% endfor %}{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}{% for i in range(0) %}x{% else %}-{% endfor %}{{ range(4)|list }}{{ range(3)|length }}
{% for i in range(3) %}{% for j in range(2) %}{{ loop.index }}{% endfor %}{{ loop.index }}{% if i == 1 %}{% break %}{% endif %}{% endfor %}{% for i in range(4) %}{% if i is odd %}{% continue %}{% endif %}{{ i }}{% endfor %}
{% set a = 1 %}{% for i in l %}{% set a = a + i %}{{ a }},{% endfor %}{{ a }}{% if true %}{% set a = 9 %}{% endif %}{{ a }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, e) = [3, 4] %}{{ c }}{{ e }}
{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{% set ns.b = 'new' %}{{ ns.b }}[{{ ns.c }}]{% set ns2 = namespace({'q': 1}, r=2) %}{{ ns2.q }}{{ ns2['r'] }}
{% macro f(a, b=2, c='x') %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(1, c=4) }}{{ f(b=5, a=6) }}{{ f() }}{% macro g(x) %}{{ f(x) }}{{ f(x)|length }}{% endmacro %}{{ g('y')|upper }}{% macro h(n) %}{{ n }}{% if n > 0 %}{{ h(n - 1) }}{% endif %}{% endmacro %}{{ h(3) }}
{% macro sees() %}{{ s }}{{ later }}{% endmacro %}{% set later = 'L' %}{{ sees() }}{% for i in [1] %}{% set local = 5 %}{{ sees() }}{% endfor %}{% macro m2(a) %}{% set inner = a %}{{ inner }}{% endmacro %}{{ m2(3) }}[{{ inner }}]
{% if nil %}a{% elif empty %}b{% elif l %}c{% else %}d{% endif %}{% if [] %}x{% endif %}{% if '0' %}y{% endif %}{% if 0.0 %}z{% endif %}{% if d %}w{% endif %}
{% set acc = [] %}{{ acc.append(1) }}{% set _ = acc.append(2) %}{% set _ = acc.extend([3, 4]) %}{% set _ = acc.insert(0, 0) %}{{ acc }}{{ acc.pop() }}{{ acc.pop(0) }}{{ acc }}{{ acc.index(2) }}{{ acc.count(3) }}{% set dd = {'a': 1} %}{% set _ = dd.update({'b': 2}) %}{{ dd }}{{ dd.pop('a') }}{{ dd }}{{ dict(x=1) }}
{%- if true -%}  trimmed  {%- endif -%}  {{- ' a ' -}}  b  {{ 'c' }}  
  {% if true %}  
  indented
  {% endif %}  
tail
{# c1 #}
x {# c2 #}
y
  {#- c3 -#}
  z {%+ if true %}plus{% endif %}

{{ '{{' }}{{ '}}' }}{{ {'a': {'b': 1}} }}{{ '%}' }}{{ "{#" }} { % } } {{ '#}' }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %b %A') }} {{ strftime_now is defined }} {{ namespace is defined }} {{ loop is defined }}
{% filter trim %}   filtered  {% endfilter %}|{% set b|upper %}block{{ n }}{% endset %}{{ b }}|{% with q = 1, r = q %}{{ q }}[{{ r }}]{% endwith %}[{{ q }}]
{{ 'a\nb'|indent }} {{ 'a\n\nb'|indent(2, true) }} {{ 'a\nb'|indent(width=1, blank=true) }} {{ '<a href="x">&\\'</a>'|escape }} {{ '<'|e }}
{{ (n, s)[0] }}{{ (n)|string }}{{ n|string|length }}{{ [1,2,3]|last|string ~ '!' }}{{ -n|abs }}{{ (-n)|abs }}{{ l|length > 2 and s|trim|length == 13 }}{{ n if n is defined and n > 3 else 0 }}
""".strip("\n").split("\n{")
SNIPPETS = [SNIPPETS[0]] + ["{" + t for t in SNIPPETS[1:]]

# Each of these is refused: by the parser or by the rendering.
ERRORS = """
{{ undefined_name.attr }}
{{ undefined_name['x'] }}
{{ undefined_name() }}
{{ undefined_name + 1 }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ nil + 1 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1 < 'a' }}
{{ nil < 1 }}
{{ n() }}
{{ n|length }}
{{ n|nofilter }}
{{ n is notest }}
{{ 1 in 5 }}
{{ 1 in 'abc' }}
{{ raise_exception('no') }}
{% for x in 5 %}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{% set s.x = 1 %}
{% if %}{% endif %}
{% if true %}
{% endif %}
{% for x in l %}
{% unknown %}
{{ }}
{{ 1 + }}
{{ (1 }}
{{ [1, }}
{{ 'open }}
{{ 1 1 }}
{% set %}
{# open
{% raw %} x
{{ undefined_name|tojson }}
{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{% endmacro %}{{ f(b=1) }}
{{ s.index('zzz') }}
{{ l.pop(99) }}
{{ 'a'.split('') }}
{{ namespace(1) }}
{{ [1].nomethod() }}
{{ '' ~ undefined_name.x }}
{{ s.__class__ }}{{ s.__class__.__mro__ }}
{{ ''.__class__.__base__.__subclasses__() }}
{{ (1).__class__.__bases__[0] }}
{{ range.__globals__ }}{{ range.__globals__.x }}
{{ namespace.__init__.__globals__['os'] }}
{{ f.__code__.co_code }}
""".strip("\n").split("\n")


def render(env, template, context):
    try:
        return {"output": env.from_string(template).render(**context)}
    except Exception as error:
        return {"error": type(error).__name__}


def main():
    env = environment()
    out = []
    for name, template in [("chatml", CHATML), ("thinking", THINKING), ("parameters", PARAMETERS), ("headers", HEADERS), ("state", STATE)]:
        cases = []
        for messages in TALKS:
            for options in OPTIONS:
                context = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", **options}
                # A rendering must not see what another one appended.
                cases.append({"context": context, **render(env, template, json.loads(json.dumps(context)))})
        out.append({"name": name, "template": template, "cases": cases})
    for i, template in enumerate(SNIPPETS):
        context = json.loads(json.dumps(SNIPPET_CONTEXT))
        result = render(env, template, context)
        assert "output" in result, (template, result)
        out.append({"name": f"snippet {i}", "template": template, "cases": [{"context": SNIPPET_CONTEXT, **result}]})
    for i, template in enumerate(ERRORS):
        result = render(env, template, json.loads(json.dumps(SNIPPET_CONTEXT)))
        assert "error" in result, (template, result)
        out.append({"name": f"error {i}", "template": template, "cases": [{"context": SNIPPET_CONTEXT, **result}]})
    # The long contexts are told once.
    contexts = []
    for entry in out:
        for case in entry["cases"]:
            if case["context"] not in contexts:
                contexts.append(case["context"])
            case["context"] = contexts.index(case["context"])
    OUT.write_text(json.dumps({"jinja2": jinja2.__version__, "contexts": contexts, "templates": out}, ensure_ascii=False, indent=0) + "\n")
    print(len(out), "templates,", sum(len(e["cases"]) for e in out), "renderings,", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
