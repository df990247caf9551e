"""The bundled model with its draft head: a server that speculates answers as one that does not."""

import concurrent.futures
import pathlib
import re
import urllib.request

import openai
import pytest

from conftest import begin, stop, wait_healthy, weft_binary

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPTS = ["And it came to pass", "In the beginning God created", "The sqlite3_open() interface", "Abuse, n."]
SPECULATION = '{"method":"qwen3_5_mtp","num_speculative_tokens":3}'


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speculation")
    both = [begin(weft_binary(), str(ROOT / "models/tiny-qwen3_5-moe"), (folder / f"{i}.log").open("wb"), extra)
            for i, extra in enumerate([(), ("--speculative-config", SPECULATION)])]
    yield [wait_healthy(serve) for serve in both]
    for serve in both:
        assert stop(serve) == 0


def client_of(serve):
    return openai.OpenAI(base_url=f"{serve.url}/v1", api_key="none")


def complete(serve, prompt, **parameters):
    out = client_of(serve).completions.create(model=serve.model, prompt=prompt, max_tokens=48, logprobs=2, **parameters)
    return out.choices[0].text, out.choices[0].logprobs.token_logprobs, out.choices[0].finish_reason


def metric(serve, name):
    text = urllib.request.urlopen(f"{serve.url}/metrics", timeout=10).read().decode()
    values = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? ([0-9.e+]+)$", text, re.M)
    return [float(v) for v in values]


@pytest.mark.parametrize("parameters", [{"temperature": 0}, {"temperature": 0.9, "top_p": 0.95, "seed": 11},
                                        {"temperature": 0.7, "seed": 5, "frequency_penalty": 0.8}])
def test_answers_do_not_depend_on_drafts(servers, parameters):
    plain, drafting = servers
    before = metric(drafting, "vllm:spec_decode_num_accepted_tokens_total")[0]
    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        got = list(pool.map(lambda p: complete(drafting, p, **parameters), PROMPTS))
    assert got == [complete(plain, p, **parameters) for p in PROMPTS]
    assert metric(drafting, "vllm:spec_decode_num_accepted_tokens_total")[0] > before


def test_streams_do_not_depend_on_drafts(servers):
    texts = []
    for serve in servers:
        stream = client_of(serve).chat.completions.create(model=serve.model, temperature=0, max_tokens=40, stream=True,
                                                          messages=[{"role": "user", "content": "Tell me about the sea."}])
        texts.append("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices))
    assert texts[0] == texts[1] != ""


def test_metrics_count_drafts_by_place(servers):
    plain, drafting = servers
    complete(drafting, PROMPTS[0], temperature=0)
    drafted = metric(drafting, "vllm:spec_decode_num_draft_tokens_total")[0]
    accepted = metric(drafting, "vllm:spec_decode_num_accepted_tokens_total")[0]
    by_place = metric(drafting, "vllm:spec_decode_num_accepted_tokens_per_pos_total")
    assert 0 < accepted < drafted
    assert len(by_place) == 3 and sum(by_place) == accepted and by_place == sorted(by_place, reverse=True)
    assert metric(drafting, "vllm:spec_decode_num_drafts_total")[0] >= drafted / 3
    assert metric(plain, "vllm:spec_decode_num_drafts_total") == []
