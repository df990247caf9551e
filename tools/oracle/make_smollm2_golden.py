#!/usr/bin/env python3
"""Teacher-forced reference of SmolLM2-135M-Instruct in fp32 on its dequantised GGUF weights.

    make_smollm2_golden.py GGUF [--out FILE] [--check]

Writes tests/models/data/smollm2_golden.safetensors:

    text<i>.ids         I32 [T]     a short text of smollm2_texts.json as token ids (no BOS)
    text<i>.top_ids     I32 [T, 8]  the eight most likely next tokens after each position
    text<i>.top_logits  F32 [T, 8]  their logits, descending
    text<i>.lse         F32 [T]     log-sum-exp over the whole vocabulary, so that probabilities are known
    chat.ids            I32 [T]     "What is the capital of France?" in the model's ChatML
    chat.greedy         I32 [n]     greedy answer, up to 32 tokens, the end token included
    chat.margins        F32 [n]     first minus second logit of each of its tokens

The metadata hold the GGUF's SHA-256, the chat prompt and the answer as text.
"""
import argparse
import hashlib
import json
import pathlib
import sys

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "models" / "data"
TEXTS = pathlib.Path(__file__).with_name("smollm2_texts.json")
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
QUESTION = "What is the capital of France?"
TOP, ANSWER_TOKENS = 8, 32


def field(reader, key):
    return reader.fields[key].contents()


def config_of(reader):
    heads = field(reader, "llama.attention.head_count")
    return LlamaConfig(
        hidden_size=field(reader, "llama.embedding_length"),
        intermediate_size=field(reader, "llama.feed_forward_length"),
        num_hidden_layers=field(reader, "llama.block_count"),
        num_attention_heads=heads,
        num_key_value_heads=field(reader, "llama.attention.head_count_kv"),
        vocab_size=field(reader, "llama.vocab_size"),
        rms_norm_eps=field(reader, "llama.attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default",
                         "rope_theta": field(reader, "llama.rope.freq_base")},
        max_position_embeddings=field(reader, "llama.context_length"),
        tie_word_embeddings=True)


def halves(weight, heads):
    """GGUF stores the rows of Q and K of a llama head interleaved (rope pairs 2i, 2i+1); transformers
    pairs i with i + D/2."""
    out, width = weight.shape
    return weight.reshape(heads, out // heads // 2, 2, width).swapaxes(1, 2).reshape(out, width)


BLOCK_NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}


def load_model(reader):
    config, state = config_of(reader), {}
    for tensor in reader.tensors:
        value = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        if tensor.name in TOP_NAMES:
            state[TOP_NAMES[tensor.name]] = torch.from_numpy(value.copy())
            continue
        _, layer, part, kind = tensor.name.split(".")
        if part == "attn_q":
            value = halves(value, config.num_attention_heads)
        if part == "attn_k":
            value = halves(value, config.num_key_value_heads)
        state[f"model.layers.{layer}.{BLOCK_NAMES[part]}.{kind}"] = torch.from_numpy(value.copy())
    config._attn_implementation = "eager"
    net = LlamaForCausalLM(config).float().eval()
    missing, unexpected = net.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        sys.exit(f"names do not match: missing {missing}, unexpected {unexpected}")
    net.tie_weights()
    return net


def load_tokenizer(reader):
    tokens = field(reader, "tokenizer.ggml.tokens")
    kinds = field(reader, "tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ")) for m in field(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    control = [AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds) if k == 3]
    tokenizer.add_special_tokens(control)
    return tokenizer


def chat_prompt(messages):
    if messages[0][0] != "system":
        messages = [("system", SYSTEM)] + messages
    turns = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)
    return turns + "<|im_start|>assistant\n"


def logits_of(net, ids):
    with torch.no_grad():
        return net(torch.tensor([ids])).logits[0].float()


def reference(net, tokenizer, texts):
    tensors = {}
    for i, text in enumerate(texts):
        ids = tokenizer.encode(text).ids
        logits = logits_of(net, ids)
        top = torch.topk(logits, TOP, dim=-1)
        tensors[f"text{i}.ids"] = torch.tensor(ids, dtype=torch.int32)
        tensors[f"text{i}.top_ids"] = top.indices.to(torch.int32)
        tensors[f"text{i}.top_logits"] = top.values.contiguous()
        tensors[f"text{i}.lse"] = torch.logsumexp(logits.double(), -1).float()
    return tensors


def answer(net, tokenizer, eos):
    prompt = chat_prompt([("user", QUESTION)])
    ids = tokenizer.encode(prompt).ids
    out, margins = [], []
    while len(out) < ANSWER_TOKENS and eos not in out:
        values, indices = torch.topk(logits_of(net, ids + out)[-1], 2)
        out.append(int(indices[0]))
        margins.append(float(values[0] - values[1]))
    tensors = {"chat.ids": torch.tensor(ids, dtype=torch.int32),
               "chat.greedy": torch.tensor(out, dtype=torch.int32),
               "chat.margins": torch.tensor(margins)}
    return prompt, tokenizer.decode(out), tensors


def compare(stored, fresh):
    if set(stored) != set(fresh):
        sys.exit(f"stored {sorted(stored)}, expected {sorted(fresh)}")
    worst = max(float((fresh[k] - stored[k]).abs().max()) for k in fresh if fresh[k].is_floating_point())
    different = [k for k in fresh if k.endswith((".ids", ".greedy")) and not torch.equal(fresh[k], stored[k])]
    print(f"worst difference {worst:.1e}; different: {different}")
    if different or worst > 2e-3:
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gguf", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=DATA / "smollm2_golden.safetensors")
    parser.add_argument("--check", action="store_true", help="compare with what is stored, write nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    reader = GGUFReader(args.gguf)
    net, tokenizer = load_model(reader), load_tokenizer(reader)
    texts = json.loads(TEXTS.read_text())
    tensors = reference(net, tokenizer, texts)
    prompt, text, chat = answer(net, tokenizer, field(reader, "tokenizer.ggml.eos_token_id"))
    tensors |= chat
    if args.check:
        compare(load_file(args.out), tensors)
        return
    sha = hashlib.sha256(args.gguf.read_bytes()).hexdigest()
    save_file(tensors, args.out, metadata={"gguf_sha256": sha, "chat_prompt": prompt, "chat_answer": text})
    args.out.chmod(0o644)
    positions = sum(len(v) for k, v in tensors.items() if k.endswith(".lse"))
    losses = []
    for i in range(len(texts)):
        logits = logits_of(net, tensors[f"text{i}.ids"].tolist())
        losses.append(torch.nn.functional.cross_entropy(logits[:-1], tensors[f"text{i}.ids"][1:].long()))
    print(f"{positions} positions, mean loss {float(sum(losses)) / len(losses):.3f}, "
          f"{args.out.stat().st_size / 1024:.0f} KiB, sha256 {sha}")
    print(f"answer {text!r}, smallest margin {float(chat['chat.margins'].min()):.3f}")


if __name__ == "__main__":
    main()
