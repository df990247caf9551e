"""`weft` as a person meets it: a chat on a terminal, misspelt flags, a taken port, an engine that fails."""

import json
import os
import pty
import select
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from conftest import begin, model_file, start, stop, wait_healthy, weft_binary


def weft(*words, timeout=120):
    return subprocess.run([str(weft_binary()), *words], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL)


def read_until(terminal, marker, seconds=60):
    seen, deadline = "", time.monotonic() + seconds
    while marker not in seen:
        assert time.monotonic() < deadline, f"no {marker!r} in {seen!r}"
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65536).decode(errors="replace")
    return seen


def test_the_quickstart_prompt_is_answered_with_paris():
    done = weft("run", "--model", model_file(), "--prompt", "Name the capital of France.")
    assert done.returncode == 0 and "Paris" in done.stdout, done.stdout + done.stderr
    assert "tokens/s" in done.stderr


def test_two_ranks_say_the_same_bits():
    answers = []
    for ranks in ("1", "2"):
        done = weft("run", "--model", model_file(), "-tp", ranks, "--max_tokens", "8", "--json", "--logprobs", "1",
                    "--prompt", "Name the capital of France.")
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(done.stdout))
    for key in ("token_ids", "text", "logits_hash", "logprobs", "finish_reason"):
        assert answers[0][key] == answers[1][key], key
    assert answers[0]["fabric_bytes"] == 0 and answers[1]["fabric_bytes"] > 0


def test_bench_latency_is_one_json_object():
    done = weft("bench", "latency", "--model", model_file(), "--json", "--prefill", "8", "--repeat", "2",
                "--batch", "1,2", "--tokens", "3")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    rows = {row["bucket"]: row for row in told["rows"]}
    assert list(rows) == ["prefill:8", "decode:1", "decode:2"]
    assert [len(row["ms"]) for row in rows.values()] == [2, 3, 3]
    assert all(row["tokens_per_s"] > 0 and row["trace"]["ops"] for row in rows.values())
    assert told["weight_bytes"] > 0 and told["limits"]["limits"] and told["limits_after"]["limits"]


def test_a_chat_on_a_terminal_shows_loading_memory_and_remembers():
    terminal, slave = pty.openpty()
    process = subprocess.Popen([str(weft_binary()), "run", "--model", model_file(), "--max-tokens", "8"],
                               stdin=slave, stdout=slave, stderr=slave, close_fds=True)
    os.close(slave)
    try:
        opening = read_until(terminal, "> ")
        assert "loading" in opening and "rank 0: weights" in opening and "/bye" in opening
        os.write(terminal, b"Hello\n")
        first = read_until(terminal, "\n> ")
        assert "tokens/s" in first
        os.write(terminal, b"And again?\n")
        second = read_until(terminal, "\n> ")
        prompt_tokens = [int(text.split("[")[-1].split(" prompt")[0]) for text in (first, second)]
        assert prompt_tokens[1] > prompt_tokens[0] + 8, "the second prompt holds the first turn"
        os.write(terminal, b"/bye\n")
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        os.close(terminal)


@pytest.mark.parametrize("words, said", [
    ([], "usage: weft COMMAND"),
    (["rnu"], "did you mean run?"),
    (["run", "--prmpt", "x"], "unknown flag --prmpt; did you mean --prompt?"),
    (["serve", "--prot", "1"], "did you mean --port?"),
    (["serve", "--port", "70000"], "--port 70000 must be 0 to 65535"),
    (["run", "--max-tokens", "0"], "--max-tokens 0 must be 1 to"),
])
def test_wrong_words_exit_with_2_and_say_which(words, said):
    done = weft(*words)
    assert done.returncode == 2 and said in done.stderr and done.stdout == "", done


@pytest.mark.parametrize("model", [None, "/no/such/model.gguf"])
def test_a_taken_port_is_found_before_the_model_is_loaded(model):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = weft("serve", "--model", model or model_file(), "--port", str(port))
    assert done.returncode == 1 and f"127.0.0.1:{port}" in done.stderr and "--port" in done.stderr, done.stderr
    assert "weights" not in done.stderr and "model" not in done.stderr, done.stderr


def test_a_port_is_held_while_the_model_is_loaded(tmp_path):
    with (tmp_path / "log").open("wb") as log:
        first = begin(weft_binary(), model_file(), log)
        # To try the port would take it away for a moment; the first line of loading comes after it is held.
        while "weights" not in (tmp_path / "log").read_text():
            assert first.process.poll() is None
        done = weft("serve", "--model", "/no/such/model.gguf", "--port", str(first.port))
        assert done.returncode == 1 and f"127.0.0.1:{first.port}" in done.stderr, done.stderr
        assert stop(wait_healthy(first)) == 0
        # It can be had again at once, though a client was connected a moment ago.
        again = begin(weft_binary(), model_file(), log, port=first.port)
        assert stop(wait_healthy(again)) == 0


def test_a_public_host_without_a_key_is_refused_before_the_model_is_loaded():
    done = weft("serve", "--model", "/no/such/model.gguf", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 1 and "--api-key" in done.stderr and "model" not in done.stderr, done.stderr


def test_a_truncated_file_is_refused(tmp_path):
    with open(model_file(), "rb") as whole:
        (tmp_path / "cut.gguf").write_bytes(whole.read(1_000_000))
    done = weft("run", "--model", str(tmp_path / "cut.gguf"), "--prompt", "x")
    assert done.returncode == 1 and "cut.gguf" in done.stderr, done.stderr


def test_a_failed_engine_tells_its_clients_and_exits_with_70(tmp_path):
    # Eight ranks of uneven work, and none may wait: the first long step cannot succeed.
    with (tmp_path / "log").open("wb") as log:
        serve = start(weft_binary(), model_file(), log, ["-tp", "8", "--threads", "8", "--wait-timeout", "1e-9"])
    body = json.dumps({"prompt": "word " * 3000, "max_tokens": 20}).encode()
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(f"{serve.url}/v1/completions", body), timeout=60)
    assert caught.value.code == 500 and "engine" in json.loads(caught.value.read())["error"]["message"]
    assert serve.process.wait(timeout=30) == 70
    assert "waited" in (tmp_path / "log").read_text()
