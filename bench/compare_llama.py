#!/usr/bin/env python3
"""Prefill and decode beside llama.cpp and its forks, on the same GGUF files, in alternating runs.

    bench/compare_llama.py --model M.gguf [--model ...] --llama-bench PATH [--llama-bench PATH ...]
                           [--batched-bench PATH ...] [--rounds 5] [--depth 0,1024] [--json FILE]

Each round runs weft and every llama-bench once, the next round in the opposite order; no two programs
are alive at once. A cell's ratio is taken inside a round, against the better peer of that round; its
median over the rounds is told with the smallest and the largest, because the machine changes between
rounds. tokens/s are medians.

    prefill N     a prompt of N tokens, nothing before it
    decode @D     one token after another, D tokens before them
    decode xB     tokens/s of B sequences together (llama-batched-bench; weft: one step of B rows)
    prefill BxN   prompt tokens/s of B prompts of N tokens together (likewise; --prompt-tokens N)

weft says beside each what fraction of this machine's limit it reached, by the limits that it measured
itself before and after the run. Standard library only.
"""
import argparse
import collections
import functools
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run(command, stderr=False):
    """The program's output, with stderr behind it if asked."""
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise SystemExit(f"compare_llama: {' '.join(command)}\nexit {done.returncode}: {tail}")
    return done.stdout + (done.stderr if stderr else "")


def weft(args, model):
    """{cell: tokens/s}, {cell: (fraction, by)} of one run."""
    context = max(args.prefill + args.depth) + args.tokens + 64
    out = json.loads(run([
        args.weft, "bench", "latency", "--model", model, "--json", "--threads", args.threads, "--repeat", args.repeat,
        "--tokens", args.tokens, "--prefill", ",".join(map(str, args.prefill)), "--batch", "1",
        "--depth", ",".join(map(str, args.depth)), "--max-model-len", context]))
    rows = out["rows"]
    if args.batched_bench and args.batch > 1:
        rows += json.loads(run([
            args.weft, "bench", "latency", "--model", model, "--json", "--threads", args.threads, "--tokens", args.tokens,
            "--prefill", args.prompt_tokens, "--prompts", args.batch, "--max-num-batched-tokens",
            max(2048, args.batch * args.prompt_tokens), "--batch", args.batch, "--depth", args.prompt_tokens, "--max-model-len",
            args.tokens + args.prompt_tokens + 64]))["rows"]
    speeds, limits = {}, {}
    depths = iter(args.depth)
    for row in rows:
        if row["rows"] > 1 and row["sequences"] > 1:
            cell = f"prefill {row['sequences']}x{row['rows']}"
        elif row["rows"] > 1:
            cell = f"prefill {row['rows']}"
        elif row["sequences"] > 1:
            cell = f"decode x{row['sequences']}"
        else:
            cell = f"decode @{next(depths)}"
        speeds[cell] = row["tokens_per_s"]
        limits[cell] = (row["of_limit"], row["limit_by"])
    return speeds, limits


@functools.cache
def help_of(program):
    done = subprocess.run([program, "--help"], capture_output=True, text=True)
    return done.stdout + done.stderr


def llama(args, program, model):
    speeds = {}
    common = [program, "-m", model, "-t", args.threads, "-o", "json"]
    for row in json.loads(run(common + ["-p", ",".join(map(str, args.prefill)), "-n", 0, "-r", args.repeat])):
        speeds[f"prefill {row['n_prompt']}"] = row["avg_ts"]
    known = help_of(program)
    for depth in args.depth:
        if depth == 0:
            flags = ["-n", args.tokens]
        elif "--n-depth" in known:
            flags = ["-n", args.tokens, "-d", depth]
        elif "-gp" in known:  # ik_llama.cpp: tokens after a prompt
            flags = ["-n", 0, "-gp", f"{depth},{args.tokens}"]
        else:
            continue
        for row in json.loads(run(common + ["-p", 0, "-r", 1] + flags)):
            speeds[f"decode @{depth}"] = row["avg_ts"]
    return speeds


def batched(args, program, model):
    prompts = args.prompt_tokens * args.batch
    command = [program, "-m", model, "-t", args.threads, "-c", prompts + (args.tokens + 16) * args.batch,
               "-npp", args.prompt_tokens, "-ntg", args.tokens, "-npl", args.batch, "-b", max(2048, prompts)]
    # The table, which one fork prints on stdout and the other on stderr; only one knows other formats.
    table = re.findall(r"^\|((?: *[0-9.]+ \|){10})$", run(command, stderr=True), re.M)
    speeds = {}
    for row in table:  # PP TG B N_KV T_PP S_PP T_TG S_TG T S
        cells = [float(cell) for cell in row.split("|")[:-1]]
        if cells[2] == args.batch:
            speeds[f"prefill {args.batch}x{args.prompt_tokens}"] = cells[5]
            speeds[f"decode x{args.batch}"] = cells[7]
    return speeds


def compare(args, model):
    peers = [(pathlib.Path(p).resolve().parents[2].name, lambda m, p=p: llama(args, p, m)) for p in args.llama_bench]
    peers += [(pathlib.Path(p).resolve().parents[2].name, lambda m, p=p: batched(args, p, m)) for p in args.batched_bench]
    speeds = collections.defaultdict(lambda: collections.defaultdict(list))  # cell -> engine -> [tokens/s]
    ratios = collections.defaultdict(list)
    limits = collections.defaultdict(list)
    for r in range(args.rounds):
        print(f"  round {r + 1} of {args.rounds}", file=sys.stderr, flush=True)
        here = collections.defaultdict(dict)

        def one(name, speed):
            for cell, value in speed.items():
                here[cell][name] = max(value, here[cell].get(name, 0))

        jobs = [("weft", None)] + peers
        for name, job in jobs if r % 2 == 0 else reversed(jobs):
            if job is None:
                speed, limit = weft(args, model)
                for cell, (fraction, by) in limit.items():
                    limits[cell].append((fraction, by))
                one("weft", speed)
            else:
                one(name, job(model))
        for cell, engines in here.items():
            for name, value in engines.items():
                speeds[cell][name].append(value)
            others = [value for name, value in engines.items() if name != "weft"]
            if others and "weft" in engines:
                ratios[cell].append(engines["weft"] / max(others))
    return {
        cell: {
            "tokens_per_s": {name: values for name, values in engines.items()},
            "ratio": ratios.get(cell, []),
            "of_limit": limits.get(cell, []),
        }
        for cell, engines in speeds.items()
    }


def print_model(model, cells):
    names = []
    for cell in cells.values():
        names += [n for n in cell["tokens_per_s"] if n not in names]
    print(f"\n{pathlib.Path(model).name}")
    print(f"{'':<16}" + "".join(f"{n:>14}" for n in names) + f"{'ratio':>9}{'(min-max)':>15}  of limit")
    for name, cell in cells.items():
        line = f"{name:<16}"
        for engine in names:
            values = cell["tokens_per_s"].get(engine)
            line += f"{statistics.median(values):>14.1f}" if values else f"{'-':>14}"
        if cell["ratio"]:
            spread = f"({min(cell['ratio']):.2f}-{max(cell['ratio']):.2f})"
            line += f"{statistics.median(cell['ratio']):>9.2f}{spread:>15}"
        else:
            line += f"{'-':>9}{'':>15}"
        if cell["of_limit"]:
            line += f"  {statistics.median(f for f, _ in cell['of_limit']) * 100:.0f} % {cell['of_limit'][0][1]}"
        print(line)
    sys.stdout.flush()


def numbers(value):
    return [int(v) for v in value.split(",") if v]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", required=True, help="a GGUF file; repeatable")
    parser.add_argument("--llama-bench", action="append", default=[], help="a peer's llama-bench; repeatable")
    parser.add_argument("--batched-bench", action="append", default=[], help="a peer's llama-batched-bench; repeatable")
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=2, help="prefills in a run")
    parser.add_argument("--tokens", type=int, default=48, help="decode steps in a run")
    parser.add_argument("--prefill", type=numbers, default=[512])
    parser.add_argument("--depth", type=numbers, default=[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=16, help="of each of --batch prompts")
    parser.add_argument("--json", help="write every figure here")
    args = parser.parse_args()
    everything = {}
    for model in args.model:
        print(f"{model}", file=sys.stderr, flush=True)
        everything[model] = compare(args, model)
        print_model(model, everything[model])
        if args.json:
            pathlib.Path(args.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
