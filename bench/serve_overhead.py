#!/usr/bin/env python3
"""What serving costs: streams of `weft serve` against the executor's own rate, and against llama-server.

    bench/serve_overhead.py --model M.gguf [--llama-server PATH] [--rounds 5] [--json FILE]

Each round runs `weft bench latency`, `weft serve` and, if given, llama-server one after the other, the
next round in the opposite order, and no two of them are alive at once. Ratios are taken inside a round
and their median is told, with the smallest and the largest, because the machine changes between rounds.

    executor   tokens/s of decode steps of B sequences at a depth of --in tokens: B / mean step time
    serve      tokens/s while all B streams decode: from the last first token to the first last token
    overhead   1 - serve / executor; the goal is at most 3 %
    host       of the engine's time, what its own thread spends outside of the executor (its metrics)
    output     tokens/s of B streams from the first request sent to the last token received
    first      ms from a request sent to its first token

The client shares the machine with the server, so while streams run it only notes when bytes come; they
are read afterwards. Prompts are random token ids, different each time, so that no prefix is found.
Standard library only.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import random
import selectors
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
OVERHEAD_GOAL, OUTPUT_GOAL, FIRST_GOAL = 0.03, 2.5, 0.5
START_SECONDS = 300
STREAM_SECONDS = 600


# ---- One stream --------------------------------------------------------------------------------------

@dataclasses.dataclass
class Stream:
    sent: float
    times: list    # of events that carry text, seconds
    tokens: int    # as the server counts them

    @property
    def first_ms(self):
        return (self.times[0] - self.sent) * 1000


def dechunk(pieces):
    """Bodies of HTTP/1.1 pieces [(time, bytes)] as [(time, bytes)], each with the time of its last byte."""
    raw = b"".join(data for _, data in pieces)
    ends, at = [], 0
    for moment, data in pieces:
        at += len(data)
        ends.append((at, moment))

    def time_at(offset):
        return next(moment for end, moment in ends if offset <= end)

    head, _, _ = raw.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise RuntimeError(raw[:500].decode(errors="replace"))
    at = len(head) + 4
    if b"transfer-encoding: chunked" not in head.lower():
        return [(time_at(len(raw)), raw[at:])]
    out = []
    while at < len(raw):
        line = raw.index(b"\r\n", at)
        size = int(raw[at:line].split(b";")[0], 16)
        if size == 0:
            break
        at = line + 2 + size
        out.append((time_at(at), raw[line + 2:at]))
        at += 2
    return out


def read_stream(sent, pieces):
    """The stream that these pieces of HTTP tell."""
    times, tokens, pending = [], None, b""
    for moment, data in dechunk(pieces):
        pending += data
        while (end := pending.find(b"\n\n")) >= 0:
            event, pending = pending[:end].strip(), pending[end + 2:]
            if not event.startswith(b"data: ") or event == b"data: [DONE]":
                continue
            chunk = json.loads(event[6:])
            if "error" in chunk:
                raise RuntimeError(chunk["error"])
            if chunk.get("usage"):
                tokens = chunk["usage"]["completion_tokens"]
            if any(choice.get("text") for choice in chunk.get("choices", [])):
                times.append(moment)
    if tokens is None or not times:
        raise RuntimeError("a stream without text or usage")
    return Stream(sent, times, tokens)


def run_streams(port, bodies):
    """All bodies at once; connections stand before the first request is sent."""
    requests = [b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (port, len(b), b) for b in bodies]
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in bodies]
    pieces, sent = [[] for _ in bodies], []
    with selectors.DefaultSelector() as selector:
        for i, (s, request) in enumerate(zip(sockets, requests)):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sent.append(time.perf_counter())
            s.sendall(request)
            selector.register(s, selectors.EVENT_READ, i)
        deadline = time.monotonic() + STREAM_SECONDS
        while selector.get_map():
            if time.monotonic() > deadline:
                raise RuntimeError(f"streams did not end in {STREAM_SECONDS} s")
            for key, _ in selector.select(1):
                data = key.fileobj.recv(1 << 16)
                if data:
                    pieces[key.data].append((time.perf_counter(), data))
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
    return [read_stream(at, p) for at, p in zip(sent, pieces)]


def decode_rate(streams):
    """Tokens/s of all streams while every one of them decodes. A server may hold a token's text back, so
    events stand for tokens in the ratio of the whole."""
    begin, end = max(s.times[0] for s in streams), min(s.times[-1] for s in streams)
    if end <= begin:
        raise RuntimeError("the streams never decoded at the same time; --out is too small")
    events = sum(begin < t <= end for s in streams for t in s.times)
    return events * sum(s.tokens for s in streams) / sum(len(s.times) for s in streams) / (end - begin)


def output_rate(streams):
    return sum(s.tokens for s in streams) / (max(s.times[-1] for s in streams) - min(s.sent for s in streams))


# ---- Servers ------------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server process from its start to its end."""

    def __init__(self, command, port):
        self.port, self.log = port, tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                self.log.seek(0)
                raise RuntimeError(f"{shlex.join(command)} did not come up:\n{self.log.read().decode()[-2000:]}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def serve_command(options, port):
    return [options.weft, "serve", "--model", options.model, "--port", str(port), *shlex.split(options.weft_args)]


def llama_command(options, port):
    streams = max(options.streams)
    context = streams * (options.input + options.output + 64)
    return [options.llama_server, "-m", options.llama_model or options.model, "--host", "127.0.0.1", "--port", str(port),
            "-np", str(streams), "-c", str(context), "-t", str(os.cpu_count()), "-tb", str(os.cpu_count()),
            *shlex.split(options.llama_args)]


# ---- Measurements --------------------------------------------------------------------------------------

def body_of(options, rng):
    low, high = (int(n) for n in options.ids.split(":"))
    return json.dumps({"prompt": [rng.randrange(low, high) for _ in range(options.input)], "max_tokens": options.output,
                       "temperature": 0, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True},
                       "cache_prompt": False}).encode()


def step_seconds(port):
    """[run, host]: where `weft serve` says its steps' time has gone so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        text = response.read().decode()
    return [float(line.split()[-1]) for phase in ("run", "host") for line in text.split("\n")
            if line.startswith("weft:step_seconds_total") and f'phase="{phase}"' in line]


def measure_server(options, command_of, rng):
    """{streams: {"decode", "output", "first_ms", "host"}}, medians over --repeat."""
    port = free_port()
    found = {}
    with Server(command_of(options, port), port):
        run_streams(port, [body_of(options, rng)])  # pages, caches and clocks are warm afterwards
        for count in options.streams:
            before = step_seconds(port) if command_of is serve_command else []
            runs = [run_streams(port, [body_of(options, rng) for _ in range(count)]) for _ in range(options.repeat)]
            run, host = [b - a for a, b in zip(before, step_seconds(port))] if before else [1, 0]
            short = {s.tokens for run in runs for s in run} - {options.output}
            if short:
                raise RuntimeError(f"streams of {options.output} tokens ended after {sorted(short)}")
            found[count] = {"decode": statistics.median(decode_rate(run) for run in runs),
                            "output": statistics.median(output_rate(run) for run in runs),
                            "first_ms": statistics.median(s.first_ms for run in runs for s in run),
                            "host": host / (run + host)}
    return found


def measure_executor(options, _command, _rng):
    """{streams: {"decode", "first_ms"}} of steps without an engine."""
    command = [options.weft, "bench", "latency", "--model", options.model, "--json", "--prefill", str(options.input),
               "--batch", ",".join(map(str, options.streams)), "--depth", str(options.input),
               "--tokens", str(options.output - 1), *shlex.split(options.weft_args)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr}")
    rows = {row["bucket"]: row for row in json.loads(done.stdout)["rows"]}
    prefill = statistics.median(rows[f"prefill:{options.input}"]["ms"])
    return {count: {"decode": count * 1000 / statistics.mean(rows[f"decode:{count}"]["ms"]), "first_ms": prefill}
            for count in options.streams}


def spread(values, form):
    """"median (smallest to largest)"."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def met(value, goal, at_most):
    return "met" if (value <= goal if at_most else value >= goal) else "missed"


def report(options, rounds):
    def of(what, count, figure):
        return [r[what][count][figure] for r in rounds]

    print(f"\n| streams | executor tokens/s | serve tokens/s | overhead | goal {OVERHEAD_GOAL:.0%} | host | first token | prefill step |")
    print("|---|---|---|---|---|---|---|---|")
    for count in options.streams:
        overhead = [1 - s / e for s, e in zip(of("serve", count, "decode"), of("executor", count, "decode"))]
        print(f"| {count} | {spread(of('executor', count, 'decode'), '.1f')} | {spread(of('serve', count, 'decode'), '.1f')} | "
              f"{spread(overhead, '.1%')} | {met(statistics.median(overhead), OVERHEAD_GOAL, True)} | "
              f"{spread(of('serve', count, 'host'), '.1%')} | "
              f"{spread(of('serve', count, 'first_ms'), '.0f')} ms | {spread(of('executor', count, 'first_ms'), '.0f')} ms |")
    if "llama-server" not in rounds[0]:
        return
    print("\n| streams | | weft serve | llama-server | ratio | goal |")
    print("|---|---|---|---|---|---|")
    for count in options.streams:
        for name, figure, form in (("output tokens/s", "output", ".1f"), ("decode tokens/s", "decode", ".1f"),
                                   ("first token, ms", "first_ms", ".0f")):
            ours, theirs = of("serve", count, figure), of("llama-server", count, figure)
            ratio = [a / b for a, b in zip(ours, theirs)]
            goal = "-"
            if count == 8 and figure == "output":
                goal = f"at least {OUTPUT_GOAL}: {met(statistics.median(ratio), OUTPUT_GOAL, False)}"
            if count == 1 and figure == "first_ms":
                goal = f"at most {FIRST_GOAL}: {met(statistics.median(ratio), FIRST_GOAL, True)}"
            print(f"| {count} | {name} | {spread(ours, form)} | {spread(theirs, form)} | {spread(ratio, '.2f')} | {goal} |")


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog="See the head of the file for what is measured.")
    parser.add_argument("--model", required=True, help="what `weft --model` takes")
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--weft-args", default="", help="more flags for weft bench latency and weft serve alike, in one word")
    parser.add_argument("--llama-server", help="path of the binary; without it only weft is measured")
    parser.add_argument("--llama-model", help="its model file [--model]")
    parser.add_argument("--llama-args", default="", help="more flags for llama-server, in one word")
    parser.add_argument("--streams", default="1,8", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--in", dest="input", type=int, default=256, metavar="TOKENS")
    parser.add_argument("--out", dest="output", type=int, default=128, metavar="TOKENS")
    parser.add_argument("--ids", default="1000:30000", help="prompts are of these token ids")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3, help="of each number of streams in a round")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="write all rounds here")
    options = parser.parse_args(words)
    if min(options.rounds, options.repeat, options.input, *options.streams) < 1 or options.output < 3:
        parser.error("rounds, repeat, streams and --in are at least 1, --out at least 3")
    return options


def main(words):
    options = parse(words)
    rng = random.Random(options.seed)
    kinds = [("executor", measure_executor, None), ("serve", measure_server, serve_command)]
    if options.llama_server:
        kinds.append(("llama-server", measure_server, llama_command))
    rounds = []
    for number in range(options.rounds):
        results = {}
        for name, measure, command_of in kinds if number % 2 == 0 else reversed(kinds):
            results[name] = measure(options, command_of, rng)
        rounds.append(results)
        told = "; ".join(f"{name} " + ", ".join(f"{count}: {row['decode']:.1f}" for count, row in results[name].items())
                         for name, _, _ in kinds)
        print(f"round {number + 1} of {options.rounds}, decode tokens/s: {told}; load {os.getloadavg()[0]:.1f}", flush=True)
    report(options, rounds)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"options": vars(options), "rounds": rounds}, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (RuntimeError, OSError) as error:
        sys.exit(f"serve_overhead: {error}")
