"""OpenAI's own package and curl against `weft serve`.

The expectations are about shape, order, counts and invariants; what the model says is its affair.
"""

import asyncio
import concurrent.futures
import json
import subprocess
import time
import urllib.request

import openai
import prometheus_client.parser
import pytest

from conftest import stop

CHAT = [{"role": "user", "content": "What is the capital of France?"}]
# Greedy, so that two runs of one request can be compared.
GREEDY = {"temperature": 0, "max_tokens": 12}


@pytest.fixture(scope="session")
def client(server):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=120)


def metric(server, name):
    with urllib.request.urlopen(f"{server.url}/metrics") as response:
        text = response.read().decode()
    values = [s.value for family in prometheus_client.parser.text_string_to_metric_families(text)
              for s in family.samples if s.name == name]
    assert values, f"{name} is not exported"
    return sum(values)


def wait_until(holds, what, seconds=20):
    """Metrics are published at the end of a step, a moment after a client has heard of its tokens."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def unfinished(server):
    return metric(server, "vllm:num_requests_running") + metric(server, "vllm:num_requests_waiting")


def wait_until_idle(server):
    wait_until(lambda: unfinished(server) == 0, "requests are still running")


# --- models -------------------------------------------------------------------------------------

def test_models(client, server):
    models = client.models.list().data
    assert [m.id for m in models] == [server.model]
    card = client.models.retrieve(server.model)
    assert card.object == "model" and card.max_model_len > 0
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


# --- chat ---------------------------------------------------------------------------------------

def test_chat(client, server):
    answer = client.chat.completions.create(model=server.model, messages=CHAT, **GREEDY)
    assert answer.id.startswith("chatcmpl-") and answer.object == "chat.completion"
    assert answer.model == server.model and answer.system_fingerprint
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason in ("stop", "length")
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert 1 <= usage.completion_tokens <= 12
    assert usage.prompt_tokens_details.cached_tokens >= 0


def test_chat_stream_says_the_same_in_order(client, server):
    whole = client.chat.completions.create(model=server.model, messages=CHAT, **GREEDY)
    chunks = list(client.chat.completions.create(model=server.model, messages=CHAT, stream=True,
                                                 stream_options={"include_usage": True}, **GREEDY))
    assert len({c.id for c in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    finishes = [c.choices[0].finish_reason for c in chunks[:-1]]
    assert finishes[-1] == whole.choices[0].finish_reason
    assert not any(finishes[:-1])
    text = "".join(c.choices[0].delta.content or "" for c in chunks[:-1])
    assert text == whole.choices[0].message.content


def test_chat_logprobs(client, server):
    answer = client.chat.completions.create(model=server.model, messages=CHAT, logprobs=True,
                                            top_logprobs=3, **GREEDY)
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    for token in content:
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        values = [t.logprob for t in token.top_logprobs]
        assert values == sorted(values, reverse=True)
        assert token.logprob == pytest.approx(values[0]), "greedy takes the best"


def test_chat_parts_and_system(client, server):
    messages = [{"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    assert client.chat.completions.create(model=server.model, messages=messages, **GREEDY).choices


def test_chat_n_choices(client, server):
    answer = client.chat.completions.create(model=server.model, messages=CHAT, n=3, seed=1,
                                            temperature=1.0, max_tokens=8)
    assert [c.index for c in answer.choices] == [0, 1, 2]


# --- completions --------------------------------------------------------------------------------

def test_completion_forms_of_a_prompt(client, server):
    ids = json.loads(post(server, "/tokenize", {"prompt": "Once upon a time"}))["tokens"]
    by_text = client.completions.create(model=server.model, prompt="Once upon a time", **GREEDY)
    by_ids = client.completions.create(model=server.model, prompt=ids, **GREEDY)
    assert by_text.choices[0].text == by_ids.choices[0].text
    both = client.completions.create(model=server.model, prompt=["Once upon a time", "The sun"], **GREEDY)
    assert [c.index for c in both.choices] == [0, 1]
    assert both.choices[0].text == by_text.choices[0].text, "a neighbour changes nothing"


def test_completion_stream(client, server):
    whole = client.completions.create(model=server.model, prompt="1 2 3 4", **GREEDY)
    chunks = list(client.completions.create(model=server.model, prompt="1 2 3 4", stream=True, **GREEDY))
    assert "".join(c.choices[0].text for c in chunks) == whole.choices[0].text
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason


def test_seed_repeats(client, server):
    def draw(seed):
        return client.completions.create(model=server.model, prompt="A story:", seed=seed,
                                         temperature=1.5, max_tokens=24).choices[0].text
    assert draw(7) == draw(7)
    assert len({draw(s) for s in range(4)}) > 1


def test_stop_string_is_cut(client, server):
    full = client.completions.create(model=server.model, prompt="1, 2, 3, 4,", temperature=0,
                                     max_tokens=16).choices[0].text
    marker = full[len(full) // 2:len(full) // 2 + 2]
    cut = client.completions.create(model=server.model, prompt="1, 2, 3, 4,", temperature=0,
                                    max_tokens=16, stop=[marker]).choices[0]
    assert cut.text == full[:full.index(marker)] and cut.finish_reason == "stop"
    assert cut.stop_reason == marker


def test_ignore_eos_gives_exactly_max_tokens(client, server):
    answer = client.completions.create(model=server.model, prompt="x", max_tokens=20,
                                       extra_body={"ignore_eos": True, "min_tokens": 20})
    assert answer.usage.completion_tokens == 20 and answer.choices[0].finish_reason == "length"


def test_logit_bias_forces_a_token(client, server):
    ids = json.loads(post(server, "/tokenize", {"prompt": "a", "add_special_tokens": False}))["tokens"]
    answer = client.completions.create(model=server.model, prompt="x", logit_bias={str(ids[0]): 100},
                                       temperature=0, max_tokens=3, extra_body={"return_token_ids": True})
    assert answer.choices[0].token_ids == [ids[0]] * 3


def test_completion_logprobs(client, server):
    answer = client.completions.create(model=server.model, prompt="One two", logprobs=2, **GREEDY)
    logprobs = answer.choices[0].logprobs
    count = answer.usage.completion_tokens
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset) == count
    assert logprobs.text_offset[0] == 0


# --- errors -------------------------------------------------------------------------------------

@pytest.mark.parametrize("fields, error, param", [
    ({"model": "gpt-4"}, openai.NotFoundError, "model"),
    ({"temperature": -1}, openai.BadRequestError, "temperature"),
    ({"top_p": 0}, openai.BadRequestError, "top_p"),
    ({"n": 0}, openai.BadRequestError, "n"),
    ({"max_tokens": 10**6}, openai.BadRequestError, "max_tokens"),
    ({"response_format": {"type": "json_object"}}, openai.BadRequestError, "response_format"),
    ({"messages": []}, openai.BadRequestError, "messages"),
    ({"extra_body": {"stop_token_ids": [2**31 - 1]}}, openai.BadRequestError, "stop_token_ids"),
])
def test_errors_are_typed_and_name_the_field(client, server, fields, error, param):
    with pytest.raises(error) as caught:
        client.chat.completions.create(**{"model": server.model, "messages": CHAT, **fields})
    assert caught.value.param == param and caught.value.body["message"]


def test_the_server_serves_on_after_errors(client, server):
    for _ in range(20):
        with pytest.raises(openai.BadRequestError):
            client.completions.create(model=server.model, prompt="", max_tokens=1)
    assert client.completions.create(model=server.model, prompt="x", max_tokens=1).choices


# --- many, gone, async --------------------------------------------------------------------------

def test_async_streams_beside_each_other(server):
    async def one(client, i):
        stream = await client.completions.create(model=server.model, prompt=f"Number {i} is",
                                                 stream=True, **GREEDY)
        return "".join([c.choices[0].text async for c in stream])

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0,
                                      timeout=120) as client:
            return await asyncio.gather(*(one(client, i) for i in range(8)))

    together = asyncio.run(all_of_them())
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=120) as client:
        alone = [client.completions.create(model=server.model, prompt=f"Number {i} is", **GREEDY)
                 .choices[0].text for i in range(8)]
    assert together == alone, "batch mates change nothing"


def test_threads(client, server):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: client.chat.completions.create(
            model=server.model, messages=CHAT, **GREEDY).choices[0].message.content, range(8)))
    assert len(set(answers)) == 1


def test_closing_a_stream_frees_the_request(client, server):
    wait_until_idle(server)
    gone = metric(server, "weft:http_disconnects_total")
    stream = client.completions.create(model=server.model, prompt="Tell me everything.", stream=True,
                                       max_tokens=400, extra_body={"ignore_eos": True})
    next(iter(stream))
    wait_until(lambda: unfinished(server) == 1, "the request has never run")
    stream.close()
    wait_until_idle(server)
    assert metric(server, "weft:http_disconnects_total") == gone + 1


def test_metrics_count_what_was_done(client, server):
    wait_until_idle(server)
    before = metric(server, "vllm:generation_tokens_total")
    answer = client.completions.create(model=server.model, prompt="x", max_tokens=5,
                                       extra_body={"ignore_eos": True})
    expected = before + answer.usage.completion_tokens
    wait_until(lambda: metric(server, "vllm:generation_tokens_total") >= expected, "the tokens are not counted")
    assert metric(server, "vllm:generation_tokens_total") == expected
    assert metric(server, "vllm:time_to_first_token_seconds_count") > 0


# --- curl and plain HTTP ------------------------------------------------------------------------

def post(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return response.read().decode()


def curl(*arguments):
    done = subprocess.run(["curl", "-sS", "--max-time", "120", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_curl_chat(server):
    out = curl(f"{server.url}/v1/chat/completions", "-H", "Content-Type: application/json", "-d",
               json.dumps({"messages": CHAT, "max_tokens": 8}))
    assert json.loads(out)["choices"][0]["message"]["content"]


def test_curl_stream_ends_in_done(server):
    out = curl("-N", f"{server.url}/v1/chat/completions", "-d",
               json.dumps({"messages": CHAT, "max_tokens": 8, "stream": True}))
    events = [line for line in out.split("\n\n") if line.startswith("data: ")]
    assert events[-1] == "data: [DONE]"
    for event in events[:-1]:
        assert json.loads(event[len("data: "):])["object"] == "chat.completion.chunk"


def test_curl_health_models_version(server):
    assert json.loads(curl(f"{server.url}/health")) == {"status": "ok"}
    assert json.loads(curl(f"{server.url}/v1/models"))["data"][0]["id"] == server.model
    assert json.loads(curl(f"{server.url}/version"))["version"]


def test_detokenize_undoes_tokenize(server):
    text = "Grüße, 世界! 🙂\n\ttab"
    ids = json.loads(post(server, "/tokenize", {"prompt": text, "add_special_tokens": False}))["tokens"]
    assert json.loads(post(server, "/detokenize", {"tokens": ids}))["prompt"] == text


# --- keys and the end ---------------------------------------------------------------------------

def test_a_key_guards_everything_but_health(launch):
    serve = launch(["--api-key", "secret"])
    try:
        urllib.request.urlopen(f"{serve.url}/health").close()
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{serve.url}/v1", api_key="wrong", max_retries=0).models.list()
        assert openai.OpenAI(base_url=f"{serve.url}/v1", api_key="secret").models.list().data
    finally:
        assert stop(serve) == 0


def test_sigterm_finishes_a_running_stream(launch):
    serve = launch()
    client = openai.OpenAI(base_url=f"{serve.url}/v1", api_key="none", max_retries=0, timeout=120)
    stream = client.completions.create(model="weft-test", prompt="x", stream=True, max_tokens=60,
                                       extra_body={"ignore_eos": True})
    chunks = iter(stream)
    next(chunks)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        ended = pool.submit(stop, serve)
        rest = list(chunks)
        assert rest[-1].choices[0].finish_reason == "length"
        assert ended.result() == 0
