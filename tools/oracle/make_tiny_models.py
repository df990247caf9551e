#!/usr/bin/env python3
"""Tiny random checkpoints with golden logits from transformers, for tests/models/data/.

    make_tiny_models.py [--out DIR] [--only NAME] [--check]

Each folder holds config.json, model.safetensors (or shards with an index) and golden.safetensors:

    prompt<i>.ids      I32 [T]     token ids, processed in one forward pass
    prompt<i>.logits   F32 [n, V]  logits of the last n positions of that prompt (n = T for short prompts)
    prompt<i>.greedy   I32 [16]    greedy continuation after the prompt (short prompts only)

The goldens are computed in fp32 with eager attention on exactly the stored weights: every weight is
representable in the dtype in which it is stored. --check recomputes everything and compares.
"""
import argparse
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, logging

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "models" / "data"
SHORT_PROMPTS = (48, 17)
LONG_PROMPT, LONG_TAIL = 1100, 4  # crosses an attention span (1,024 keys)
GREEDY_TOKENS = 16
DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}


def model(arch, hidden, heads, kv_heads, head_dim, ffn, vocab, tied, dtype, *, layers=2, eps=1e-5,
          attention_bias=False, mlp_bias=None, rope=None, theta=10000.0, new_style=False,
          norms="same", shards=1, long=False):
    config = {
        "architectures": [{"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM",
                           "qwen3": "Qwen3ForCausalLM"}[arch]],
        "model_type": arch,
        "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim,
        "vocab_size": vocab, "tie_word_embeddings": tied, "attention_bias": attention_bias,
        "hidden_act": "silu", "rms_norm_eps": eps, "max_position_embeddings": 2048,
        "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.02, "use_cache": True,
    }
    if mlp_bias is not None:
        config["mlp_bias"] = mlp_bias
    if arch == "qwen2":  # q, k and v have biases without a key that says so; heads divide the hidden size
        assert head_dim * heads == hidden and not attention_bias
        del config["head_dim"], config["attention_bias"]
        config.update(use_sliding_window=False, sliding_window=2048, max_window_layers=layers)
    # Both spellings are in the wild: rope_theta and rope_scaling at the top, or one object.
    if new_style:
        config["rope_parameters"] = {"rope_theta": theta, **(rope or {"rope_type": "default"})}
    else:
        config["rope_theta"] = theta
        config["rope_scaling"] = rope
    name = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[dtype]
    config["dtype" if new_style else "torch_dtype"] = name
    return {"config": config, "dtype": dtype, "norms": norms, "shards": shards, "long": long}


MODELS = {
    "llama_tied_4h2_bf16": model("llama", 64, 4, 2, 16, 96, 259, True, "BF16", long=True),
    "llama_untied_9h3_f32": model("llama", 72, 9, 3, 16, 100, 300, False, "F32", mlp_bias=False),
    "llama_allbias_4h2_f32": model("llama", 64, 4, 2, 16, 100, 300, True, "F32", attention_bias=True,
                                   mlp_bias=True, theta=500000.0),
    "llama_attnbias_3h1_linear_bf16": model(
        "llama", 96, 3, 1, 32, 96, 259, True, "BF16", attention_bias=True, mlp_bias=False,
        rope={"type": "linear", "factor": 2.5}),
    "llama_mlpbias_3h1_f16": model("llama", 48, 3, 1, 16, 100, 261, False, "F16", mlp_bias=True,
                                   new_style=True, eps=1e-6, layers=3),
    "llama_8h8_llama3_bf16": model(
        "llama", 64, 8, 8, 16, 96, 300, True, "BF16",
        rope={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 32}),
    "llama_9h3_llama3_sharded_bf16": model(
        "llama", 144, 9, 3, 16, 100, 259, False, "BF16", new_style=True, theta=50000.0, shards=3,
        rope={"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 64}),
    "qwen3_tied_4h2_d32_bf16": model("qwen3", 64, 4, 2, 32, 96, 259, True, "BF16", eps=1e-6,
                                     theta=1000000.0, long=True),
    "qwen3_untied_9h3_f32": model("qwen3", 64, 9, 3, 16, 100, 300, False, "F32", eps=1e-6,
                                  theta=1000000.0, new_style=True),
    "qwen3_bias_8h8_mixed": model("qwen3", 64, 8, 8, 16, 100, 263, False, "BF16", eps=1e-6,
                                  attention_bias=True, norms="F32"),
    "qwen2_tied_7h1_bf16": model("qwen2", 112, 7, 1, 16, 100, 259, True, "BF16", eps=1e-6, theta=1000000.0),
    "qwen2_untied_4h2_f32": model("qwen2", 64, 4, 2, 16, 96, 300, False, "F32", eps=1e-6, theta=10000.0),
}


def init_tensor(name, shape, hidden, generator):
    """Values whose logits have a spread of about two and whose attention is far from uniform."""
    noise = torch.randn(shape, generator=generator, dtype=torch.float32)
    if name.endswith("norm.weight"):
        return 1.0 + 0.25 * noise
    if name.endswith(".bias"):
        return 0.3 * noise
    if "embed_tokens" in name or "lm_head" in name:
        return 2.0 * hidden ** -0.5 * noise
    gain = 1.5 if ("q_proj" in name or "k_proj" in name) else 1.0
    return gain * shape[-1] ** -0.5 * noise


def make_weights(spec, seed):
    config = AutoConfig.for_model(**spec["config"])
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, parameter in sorted(empty.state_dict().items()):
        if spec["config"]["tie_word_embeddings"] and name == "lm_head.weight":
            continue
        value = init_tensor(name, tuple(parameter.shape), config.hidden_size, generator)
        is_norm = name.endswith("norm.weight")
        stored = spec["norms"] if is_norm and spec["norms"] != "same" else spec["dtype"]
        weights[name] = value.to(DTYPES[stored]).contiguous()
    return weights


def write_weights(folder, spec, weights):
    if spec["shards"] == 1:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names, count = sorted(weights), spec["shards"]
    per = -(-len(names) // count)
    weight_map, total = {}, 0
    for i in range(count):
        file = f"model-{i + 1:05d}-of-{count:05d}.safetensors"
        part = {n: weights[n] for n in names[i * per:(i + 1) * per]}
        save_file(part, folder / file, metadata={"format": "pt"})
        weight_map.update({n: file for n in part})
        total += sum(t.numel() * t.element_size() for t in part.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def load(folder, dtype):
    """The model as transformers reads the folder; fails if a name is missing or not used."""
    net, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[kind]:
            sys.exit(f"{folder.name}: {kind}: {info[kind]}")
    return net.eval()


def prompts_of(spec, seed):
    rng = np.random.default_rng(seed)
    vocab = spec["config"]["vocab_size"]
    sizes = SHORT_PROMPTS + ((LONG_PROMPT,) if spec["long"] else ())
    return [torch.tensor(rng.integers(0, vocab, n), dtype=torch.int32) for n in sizes]


@torch.no_grad()
def goldens(folder, spec, seed):
    net, exact = load(folder, torch.float32), load(folder, torch.float64)
    for module in exact.modules():  # norms compute in fp32 by design of the library; fp64 is a hint
        module.double()
    tensors, worst, spread = {}, 0.0, 0.0
    for i, ids in enumerate(prompts_of(spec, seed)):
        logits = net(ids.long()[None]).logits[0]
        worst = max(worst, float((logits.double() - exact(ids.long()[None]).logits[0]).abs().max()))
        spread = float(logits.std())
        tail = LONG_TAIL if len(ids) == LONG_PROMPT else len(ids)
        tensors[f"prompt{i}.ids"] = ids
        tensors[f"prompt{i}.logits"] = logits[-tail:].float().contiguous()
        if tail == len(ids):
            sequence = ids.long().tolist()
            for _ in range(GREEDY_TOKENS):
                sequence.append(int(net(torch.tensor([sequence])).logits[0, -1].argmax()))
            tensors[f"prompt{i}.greedy"] = torch.tensor(sequence[len(ids):], dtype=torch.int32)
    return tensors, worst, spread


def make(name, spec, seed, out):
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / "config.json").write_text(json.dumps(spec["config"], indent=2) + "\n")
    write_weights(folder, spec, make_weights(spec, seed))
    tensors, worst, spread = goldens(folder, spec, seed)
    save_file(tensors, folder / "golden.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name:34} {size / 1024:7.0f} KiB  logits std {spread:.2f}  |fp32 - fp64| {worst:.1e}")


def compare(name, folder, fresh):
    """What was just computed against what is stored: numbers nearly, ids exactly."""
    stored = load_file(folder / "golden.safetensors")
    if set(stored) != set(fresh):
        sys.exit(f"{name}: golden holds {sorted(stored)}, expected {sorted(fresh)}")
    worst = 0.0
    for key, value in fresh.items():
        if value.dtype == torch.float32:
            worst = max(worst, float((value - stored[key]).abs().max()))
        elif not torch.equal(value, stored[key]):
            sys.exit(f"{name}: {key} differs")
    print(f"{name:34} worst difference {worst:.1e}")
    if worst > 2e-5:
        sys.exit(f"{name}: values moved by {worst}")


def check(name, spec, seed, out):
    fresh, _, _ = goldens(out / name, spec, seed)
    compare(name, out / name, fresh)


def run(description, models, each):
    """The command line of a script that makes checkpoints: each(number, name, spec, args) for those asked for."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    parser.add_argument("--only", choices=sorted(models))
    parser.add_argument("--check", action="store_true", help="compare with what is stored, write nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    for number, (name, spec) in enumerate(models.items()):
        if args.only in (None, name):
            each(number, name, spec, args)


if __name__ == "__main__":
    run(__doc__, MODELS, lambda number, name, spec, args:
        (check if args.check else make)(name, spec, 1000 + number, args.out))
