#!/usr/bin/env python3
"""Trains models/tiny-qwen3_5-moe: a Qwen3.5-MoE in small with a draft head, on free text out of Debian packages.

    train.py [--out DIR] [--minutes N | --steps N] [--rows N] [--threads N] [--check-only]

Needs: apt-get install bible-kjv bible-kjv-text dict-devil dict-jargon python3-doc sqlite3-doc

Text, tokenizer, training, export as bfloat16, check against transformers, evaluation. With --steps the same
machine gives the same weights again; with --minutes the schedule follows the clock. What has been learnt is
written every few minutes, so a run that is broken off leaves a model.
"""
import argparse
import json
import math
import pathlib
import random
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import evaluate
import texts
from net import FULL_EVERY, Net, initial, oracle

OUT = pathlib.Path(__file__).resolve().parents[2] / "models" / "tiny-qwen3_5-moe"
SEED, VOCABULARY, LENGTH = 11, 1536, 256
LAYERS = 8
RATE, RATE_LAST, WARM_UP = 3e-3, 0.03, 0.03
# Shares of the run behind which one more draft is learnt; the weight of each in the loss.
DRAFTS, DRAFT_WEIGHTS = (0.0, 0.35, 0.75), (0.3, 0.15, 0.1)
BALANCE_WEIGHT = 0.05
END, START, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
TEMPLATE = """{%- for message in messages %}
{%- if message.role not in ['system', 'user', 'assistant'] %}
{{- raise_exception('a message is of system, user or assistant') }}
{%- endif %}
{{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def spec_of():
    """The configuration of tests/models/data/qwen35_moe_r2_4h2_bf16 in other sizes and without an image encoder."""
    text = {
        "model_type": "qwen3_5_moe_text", **oracle.COMMON, **oracle.sizes(160, LAYERS, 4, 2, 32, VOCABULARY, True),
        **oracle.linear(2, 4, 32, 32), **oracle.experts(16, 2, 32, 64),
        "layer_types": [oracle.FULL if (i + 1) % FULL_EVERY == 0 else oracle.LIN for i in range(LAYERS)],
        "attn_output_gate": True, "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False, "dtype": "bfloat16", **oracle.MROPE, "eos_token_id": VOCABULARY - 1}
    return {"prefix": "model.language_model.", "config": {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe",
        "tie_word_embeddings": True, "text_config": text}}


# ---- Tokens ------------------------------------------------------------------------------------------

def train_tokenizer(kinds):
    """Byte-level BPE with the words of Qwen3.5; the added tokens stand last."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(WORDS), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - 3, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator((text for trained, _ in kinds.values() for _, text in trained), trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in (END, START, STOP)])
    return tokenizer


def rows_of(tokenizer, kinds, rng):
    """Documents in a new order, each behind an end token, cut into rows of LENGTH + 1."""
    documents = [text for trained, _ in kinds.values() for _, text in trained]
    documents += [text for trained, _ in kinds.values() for text in texts.conversations(trained, rng)]
    rng.shuffle(documents)
    end, flat = tokenizer.token_to_id(END), []
    for encoded in tokenizer.encode_batch(documents):
        flat += [end] + encoded.ids
    count = (len(flat) - 1) // LENGTH
    flat = torch.tensor(flat[:count * LENGTH + 1])
    rows = torch.stack([flat[i * LENGTH:(i + 1) * LENGTH + 1] for i in range(count)])
    return rows[torch.randperm(count, generator=torch.Generator().manual_seed(rng.randrange(1 << 30)))]


def batches(tokenizer, kinds, size):
    rng = random.Random(SEED)
    while True:
        rows = rows_of(tokenizer, kinds, rng)
        for i in range(0, len(rows) - size + 1, size):
            yield rows[i:i + size]


# ---- Training ----------------------------------------------------------------------------------------

def losses(net, rows, drafts):
    """Of the trunk, and of every draft: a draft learns to say what the trunk says once it is there."""
    ids, length = rows[:, :-1], rows.shape[1] - 1
    net.balance.clear()
    hidden = net.hidden(ids)
    logits = net.logits(hidden)
    trunk = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    half, count, past, heads = (len(rows) + 1) // 2, length - drafts, None, []
    said = torch.softmax(logits[:half].detach(), -1)
    state = hidden[:half, :count]
    for step in range(drafts):
        here = slice(1 + step, count + 1 + step)
        state, past = net.draft(state, ids[:half, here], step, past)
        heads.append(-(said[:, here] * torch.log_softmax(net.logits(state), -1)).sum(-1).mean())
    return trunk, heads, torch.stack(net.balance).mean()


def rate_at(share):
    if share < WARM_UP:
        return RATE * (share / WARM_UP + 0.01)
    along = (share - WARM_UP) / (1 - WARM_UP)
    return RATE * (RATE_LAST + (1 - RATE_LAST) * 0.5 * (1 + math.cos(math.pi * min(along, 1))))


def train(net, source, args, save):
    matrices = [w for n, w in net.w.items() if w.dim() > 1 and "conv1d" not in n]
    others = [w for n, w in net.w.items() if w.dim() == 1 or "conv1d" in n]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}],
                                  lr=RATE, betas=(0.9, 0.95), fused=True)
    begin = saved = time.monotonic()
    smooth, step, share = None, 0, 0.0
    while share < 1:
        drafts = sum(share >= at for at in DRAFTS)
        trunk, heads, balance = losses(net, next(source), drafts)
        loss = trunk + sum(w * h for w, h in zip(DRAFT_WEIGHTS, heads)) + BALANCE_WEIGHT * balance
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(matrices + others, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate_at(share)
        optimizer.step()
        step += 1
        now = time.monotonic()
        share = step / args.steps if args.steps else (now - begin) / (60 * args.minutes)
        smooth = trunk.item() if smooth is None else 0.95 * smooth + 0.05 * trunk.item()
        if step % 20 == 0 or share >= 1:
            tokens = step * args.rows * LENGTH
            print(f"step {step:5} {100 * share:5.1f} %  {tokens / 1e6:5.2f} M tokens {tokens / (now - begin):5.0f}/s  "
                  f"loss {smooth:.3f}  drafts {' '.join(f'{h.item():.3f}' for h in heads)}  balance {balance.item():.2f}",
                  flush=True)
        if now - saved > 240:
            save(step)
            saved = now
    return step, time.monotonic() - begin


# ---- Files -------------------------------------------------------------------------------------------

def write_tokenizer(folder, tokenizer):
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 2048, "add_prefix_space": False,
        "add_bos_token": False, "bos_token": None, "eos_token": STOP, "pad_token": END, "unk_token": None,
        "clean_up_tokenization_spaces": False, "chat_template": TEMPLATE})


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_model(folder, spec, weights, note):
    write_json(folder / "config.json", spec["config"])
    write_json(folder / "generation_config.json", {"eos_token_id": [VOCABULARY - 1, VOCABULARY - 3]})
    tensors = {n: w.detach().to(torch.bfloat16).contiguous() for n, w in weights.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt", **note})
    (folder / "model.safetensors").chmod(0o644)


@torch.no_grad()
def check(folder, spec):
    """This forward pass and drafts against transformers and the oracle's draft head, on the file's weights."""
    net, stored = oracle.load(folder), load_file(folder / "model.safetensors")
    mine = Net(spec, {n: w.float() for n, w in stored.items()})
    ids = torch.randint(0, VOCABULARY, (2, 75), generator=torch.Generator().manual_seed(SEED))
    hidden = mine.hidden(ids)
    logits = mine.logits(hidden)
    trunk = float((net(ids).logits - logits).abs().max())
    first = logits[0, -1].argmax()[None]
    rows, tokens = oracle.drafts(spec, stored, ids[0], hidden[0], int(first))
    behind, state, past, drafts, worst = torch.cat([ids[0, 1:], first])[None], hidden[:1], None, [], 0.0
    for step in range(oracle.DRAFT_TOKENS):
        state, past = mine.draft(state, behind, step, past)
        said = mine.logits(state)
        worst = max(worst, float((said[0] - rows).abs().max())) if step == 0 else worst
        behind = said.argmax(-1)
        drafts.append(int(behind[0, -1]))
    print(f"against transformers {trunk:.1e}, against the draft head in float64 {worst:.1e}, "
          f"drafts {'equal' if drafts == tokens.tolist() else 'DIFFER'}")
    if trunk > 1e-3 or worst > 1e-3 or drafts != tokens.tolist():
        raise SystemExit("the trained functions are not the model's")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    parser.add_argument("--minutes", type=float, default=33, help="of training; text, export and evaluation come on top")
    parser.add_argument("--steps", type=int, help="instead of minutes")
    parser.add_argument("--rows", type=int, default=6, help=f"of {LENGTH} tokens in a step")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--check-only", action="store_true", help="only check the model that is there")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    spec = spec_of()
    if args.check_only:
        return check(args.out, spec)
    args.out.mkdir(parents=True, exist_ok=True)
    kinds = texts.collect()
    for kind, (trained, held_out) in kinds.items():
        print(f"{kind:16} {texts.version(kind):20} {sum(len(t) for _, t in trained):8} characters, "
              f"{len(held_out)} of {len(trained) + len(held_out)} documents held out")
    tokenizer = train_tokenizer(kinds)
    write_tokenizer(args.out, tokenizer)
    weights = initial(spec, torch.Generator().manual_seed(SEED))
    print(f"{sum(w.numel() for w in weights.values())} parameters")
    net = Net(spec, weights)
    steps, seconds = train(net, batches(tokenizer, kinds, args.rows), args,
                           lambda step: write_model(args.out, spec, weights, {"steps": str(step)}))
    write_model(args.out, spec, weights, {"steps": str(steps)})
    print(f"{steps} steps of {args.rows * LENGTH} tokens in {seconds / 60:.1f} minutes")
    check(args.out, spec)
    evaluate.evaluate(args.out, kinds)


if __name__ == "__main__":
    main()
