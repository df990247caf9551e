#!/usr/bin/env python3
"""Perplexity and how often drafts hold, by kind of text, of models/tiny-qwen3_5-moe.

    evaluate.py [--model DIR] [--readme]

Of the bfloat16 file, computed in float32, on documents that training held out. Draft j of a position holds
if it and the drafts before it are what the trunk itself says, greedily, from there. --readme writes the
tables into the model's README.md.
"""
import argparse
import json
import pathlib
import re

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer

import texts
from net import Net

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "tiny-qwen3_5-moe"
WINDOWS = (256, 1024)
PROMPTS, PROMPT_TOKENS, NEW_TOKENS, DRAFTS = 16, 64, 64, 4


def batched(rows, size):
    return (torch.stack(rows[i:i + size]) for i in range(0, len(rows), size))


def loss_of(net, tokenizer, documents, window):
    """Sum of the losses and number of tokens; each document in windows that know nothing of each other."""
    end, by_length = tokenizer.token_to_id("<|endoftext|>"), {}
    for _, text in documents:
        ids = torch.tensor([end] + tokenizer.encode(text).ids)
        for i in range(0, len(ids) - 1, window):
            row = ids[i:i + window + 1]
            by_length.setdefault(len(row), []).append(row)
    total, count = 0.0, 0
    for length, rows in by_length.items():
        for batch in batched(rows, max(1, 4096 // length)):
            logits = net.logits(net.hidden(batch[:, :-1]))
            total += float(F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum"))
            count += batch[:, 1:].numel()
    return total, count


def greedy(net, rows, count):
    for _ in range(count):
        rows = torch.cat([rows, net.logits(net.hidden(rows)[:, -1:]).argmax(-1)], 1)
    return rows


def drafts_held(net, rows, ends):
    """[position, draft]: how many positions were asked, and at how many all drafts so far held."""
    length = rows.shape[1] - DRAFTS - 1
    state, behind, past = net.hidden(rows[:, :-1])[:, :length], rows[:, 1:length + 1], None
    asked, held = [], []
    reach = torch.isin(rows, torch.tensor(ends)).cumsum(1) - torch.isin(rows, torch.tensor(ends)).long()
    good = torch.ones_like(behind, dtype=torch.bool)
    for step in range(DRAFTS):
        state, past = net.draft(state, behind, step, past)
        behind = net.logits(state).argmax(-1)
        truth = slice(2 + step, length + 2 + step)
        # From the last token of the prompt on, and not beyond the end of the text.
        counted = (torch.arange(length) >= PROMPT_TOKENS - 1) & (reach[:, truth] == reach[:, PROMPT_TOKENS - 1, None])
        asked.append(int((good & counted).sum()))
        good = good & (behind == rows[:, truth])
        held.append(int((good & counted).sum()))
    return asked, held


@torch.no_grad()
def measure(folder, kinds):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    config = json.loads((folder / "config.json").read_text())
    net = Net({"prefix": "model.language_model.", "config": config},
              {n: w.float() for n, w in load_file(folder / "model.safetensors").items()})
    ends = [tokenizer.token_to_id(t) for t in ("<|endoftext|>", "<|im_end|>")]
    result = {}
    for kind, (_, held_out) in kinds.items():
        losses = [loss_of(net, tokenizer, held_out, window) for window in WINDOWS]
        prompts = [torch.tensor(tokenizer.encode(t).ids[:PROMPT_TOKENS]) for _, t in held_out]
        prompts = [p for p in prompts if len(p) == PROMPT_TOKENS][:PROMPTS]
        rows = greedy(net, torch.stack(prompts), NEW_TOKENS + DRAFTS)
        net.balance.clear()
        asked, held = drafts_held(net, rows, ends)
        result[kind] = {"loss": losses, "bytes": sum(len(t.encode()) for _, t in held_out), "asked": asked, "held": held}
        print(f"{kind:16} perplexity {[round(math_exp(l, n), 2) for l, n in losses]} drafts "
              f"{[round(h / max(a, 1), 3) for h, a in zip(held, asked)]}", flush=True)
    return result


def math_exp(loss, count):
    return float(torch.tensor(loss / count).exp())


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)] + rows
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables(result):
    perplexity, acceptance = [], []
    for kind, r in result.items():
        row = [f"{math_exp(*loss):.2f}" for loss in r["loss"]]
        bits = r["loss"][0][0] / r["bytes"] / 0.6931472
        perplexity.append([kind, str(r["loss"][0][1]), *row, f"{bits:.3f}"])
    everything = {k: [sum(r[k][j] for r in result.values()) for j in range(DRAFTS)] for k in ("asked", "held")}
    for kind, r in [*result.items(), ("all", everything)]:
        shares = [h / max(a, 1) for h, a in zip(r["held"], r["asked"])]
        reached = [h / max(r["asked"][0], 1) for h in r["held"]]
        acceptance.append([kind, str(r["asked"][0]), *(f"{s:.3f}" for s in shares), f"{sum(reached):.2f}"])
    head = ["text", "tokens", *(f"perplexity, windows of {w}" for w in WINDOWS), "bits a byte"]
    heads = ["text", "positions", *(f"draft {j + 1}" for j in range(DRAFTS)), f"held of {DRAFTS}, mean"]
    return table(head, perplexity) + "\n\n" + table(heads, acceptance)


def evaluate(folder, kinds, readme=False):
    text = tables(measure(folder, kinds))
    print("\n" + text)
    if readme:
        path = folder / "README.md"
        path.write_text(re.sub(r"(<!-- measured -->\n).*(<!-- end -->)", lambda m: f"{m[1]}{text}\n{m[2]}",
                               path.read_text(), flags=re.S))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=MODEL)
    parser.add_argument("--readme", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    evaluate(arguments.model, texts.collect(), arguments.readme)
