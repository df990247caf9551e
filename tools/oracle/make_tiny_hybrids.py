#!/usr/bin/env python3
"""Tiny random checkpoints with experts, linear attention and draft heads, for tests/models/data/.

    make_tiny_hybrids.py [--out DIR] [--only NAME] [--check]

The families qwen3_moe, qwen3_next and qwen3_5; folders and golden.safetensors as make_tiny_models.py
has them, with prompts around the edges of a convolution (3, 4 tokens) and of a chunk of 64, and for
models with a draft head (mtp):

    prompt<i>.hidden      F32 [T, H]  what the language model's head reads: hidden states behind the last norm
    prompt<i>.mtp.logits  F32 [T, V]  row p: from hidden p and token p + 1 (the last: the first greedy one)
    prompt<i>.mtp.draft   I32 [4]     greedy draft behind the prompt and the first greedy token

Logits come from transformers in fp32, from the plain PyTorch form of linear attention: in one pass (its
chunked form) and once more token by token (its recurrent form), and the two must agree. The draft head,
which transformers does not have, is computed here in float64; its layer is checked on a layer of the
trunk, where transformers says what comes out.
"""
import importlib.util
import inspect
import json
import math
import sys

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from make_tiny_models import DTYPES, GREEDY_TOKENS, compare, run, write_weights

# Tokens of a prompt, and how many of its last logits are kept.
PROMPTS = ((1, 1), (3, 3), (4, 4), (63, 8), (64, 8), (65, 8), (130, 130))
GREEDY_PROMPTS = (1, 2, 3)
DRAFT_PROMPTS = (1, 5)
DRAFT_TOKENS = 4
CHUNK_BOUND = 4e-5
LIN, FULL = "linear_attention", "full_attention"

COMMON = {
    "attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu", "rms_norm_eps": 1e-6,
    "max_position_embeddings": 2048, "bos_token_id": None, "eos_token_id": 2, "initializer_range": 0.02,
    "use_cache": True,
}


def sizes(hidden, layers, heads, kv_heads, head_dim, vocab, tied):
    return {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": head_dim, "vocab_size": vocab,
            "tie_word_embeddings": tied}


def linear(key_heads, value_heads, key_dim, value_dim):
    return {"linear_num_key_heads": key_heads, "linear_num_value_heads": value_heads,
            "linear_key_head_dim": key_dim, "linear_value_head_dim": value_dim, "linear_conv_kernel_dim": 4}


def experts(count, chosen, width, shared=None, **more):
    shared = {} if shared is None else {"shared_expert_intermediate_size": shared}
    return {"num_experts": count, "num_experts_per_tok": chosen, "moe_intermediate_size": width,
            "router_aux_loss_coef": 0.001, "output_router_logits": False, **shared, **more}


MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                             "mrope_interleaved": True, "mrope_section": [2, 1, 1]}}

# Of a few seeds the one with which float32 keeps most digits.
MODELS = {
    # One layer without experts; a width that is no multiple of 32.
    "qwen3_moe_6h2_bf16": {"seed": 2005, "dtype": "BF16", "config": {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", **COMMON,
        **sizes(72, 3, 6, 2, 16, 259, False), "intermediate_size": 100,
        **experts(6, 3, 40, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[1]),
        "rope_theta": 1000000.0, "rope_scaling": None, "torch_dtype": "bfloat16"}},
    # Head ratio 2, nested with an image encoder's leavings, fused experts, a draft head.
    "qwen35_moe_r2_4h2_bf16": {"seed": 2003, "dtype": "BF16", "prefix": "model.language_model.", "config": {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe",
        "tie_word_embeddings": False, "image_token_id": 298, "vision_config": {"depth": 1},
        "text_config": {
            "model_type": "qwen3_5_moe_text", **COMMON, **sizes(64, 4, 4, 2, 32, 300, False),
            **linear(2, 4, 16, 16), **experts(8, 2, 24, 32), "layer_types": [LIN, LIN, LIN, FULL],
            "attn_output_gate": True, "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": False, "dtype": "bfloat16", **MROPE}}},
    # Head ratio 3, tied, one key-value head, the text part alone, layers in no even pattern, a draft head.
    "qwen35_tied_r3_4h1_bf16": {"seed": 2001, "dtype": "BF16", "config": {
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", **COMMON,
        **sizes(64, 5, 4, 1, 32, 261, True), "intermediate_size": 96, **linear(2, 6, 16, 16),
        "layer_types": [LIN, FULL, LIN, LIN, FULL], "attn_output_gate": True, "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 1, "dtype": "bfloat16", **MROPE}},
    # Head ratio 1, projections fused by key head, one tensor an expert, rope as transformers 4 writes it.
    "qwen3_next_r1_4h2_bf16": {"seed": 2001, "dtype": "BF16", "config": {
        "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", **COMMON,
        **sizes(64, 4, 4, 2, 32, 300, False), "intermediate_size": 96, **linear(3, 3, 16, 16),
        **experts(6, 2, 20, 24, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[]),
        "full_attention_interval": 4, "rope_theta": 10000000.0, "rope_scaling": None,
        "partial_rotary_factor": 0.25, "torch_dtype": "bfloat16"}},
}


def text_of(spec):
    return spec["config"].get("text_config", spec["config"])


def layer_types(text):
    interval = text.get("full_attention_interval")
    default = [FULL] * text["num_hidden_layers"]
    if interval:
        default = [FULL if (i + 1) % interval == 0 else LIN for i in range(text["num_hidden_layers"])]
    return text.get("layer_types", default)


def is_hybrid(text):
    return "linear_num_key_heads" in text


# ---- Tensors of a file, by name ------------------------------------------------------------------

def attention_shapes(text):
    h, dim = text["hidden_size"], text["head_dim"]
    q, kv = text["num_attention_heads"] * dim, text["num_key_value_heads"] * dim
    return {"self_attn.q_proj.weight": (2 * q if is_hybrid(text) else q, h),
            "self_attn.k_proj.weight": (kv, h), "self_attn.v_proj.weight": (kv, h),
            "self_attn.o_proj.weight": (h, q),
            "self_attn.q_norm.weight": (dim,), "self_attn.k_norm.weight": (dim,)}


def linear_shapes(text):
    h = text["hidden_size"]
    key_heads, value_heads = text["linear_num_key_heads"], text["linear_num_value_heads"]
    keys, values = key_heads * text["linear_key_head_dim"], value_heads * text["linear_value_head_dim"]
    shapes = {"conv1d.weight": (2 * keys + values, 1, text["linear_conv_kernel_dim"]), "A_log": (value_heads,),
              "dt_bias": (value_heads,), "norm.weight": (text["linear_value_head_dim"],),
              "out_proj.weight": (h, values)}
    if text["model_type"] == "qwen3_next":
        shapes |= {"in_proj_qkvz.weight": (2 * keys + 2 * values, h), "in_proj_ba.weight": (2 * value_heads, h)}
    else:
        shapes |= {"in_proj_qkv.weight": (2 * keys + values, h), "in_proj_z.weight": (values, h),
                   "in_proj_b.weight": (value_heads, h), "in_proj_a.weight": (value_heads, h)}
    return {"linear_attn." + name: shape for name, shape in shapes.items()}


def mlp_shapes(prefix, h, width):
    return {f"{prefix}.gate_proj.weight": (width, h), f"{prefix}.up_proj.weight": (width, h),
            f"{prefix}.down_proj.weight": (h, width)}


def feed_forward_shapes(text, dense):
    h = text["hidden_size"]
    if dense:
        return mlp_shapes("mlp", h, text["intermediate_size"])
    count, width = text["num_experts"], text["moe_intermediate_size"]
    shapes = {"mlp.gate.weight": (count, h)}
    if "shared_expert_intermediate_size" in text:
        shapes |= mlp_shapes("mlp.shared_expert", h, text["shared_expert_intermediate_size"])
        shapes["mlp.shared_expert_gate.weight"] = (1, h)
    if text["model_type"].startswith("qwen3_5"):
        shapes |= {"mlp.experts.gate_up_proj": (count, 2 * width, h), "mlp.experts.down_proj": (count, h, width)}
        return shapes
    for e in range(count):
        shapes |= mlp_shapes(f"mlp.experts.{e}", h, width)
    return shapes


def layer_shapes(text, kind, dense):
    h = text["hidden_size"]
    mixer = attention_shapes(text) if kind == FULL else linear_shapes(text)
    return {"input_layernorm.weight": (h,), "post_attention_layernorm.weight": (h,), **mixer,
            **feed_forward_shapes(text, dense)}


def all_shapes(spec):
    text, trunk = text_of(spec), spec.get("prefix", "model.")
    h, vocab = text["hidden_size"], text["vocab_size"]
    shapes = {trunk + "embed_tokens.weight": (vocab, h), trunk + "norm.weight": (h,)}
    if not text["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocab, h)
    for i, kind in enumerate(layer_types(text)):
        dense = "num_experts" not in text or i in text.get("mlp_only_layers", [])
        shapes |= {f"{trunk}layers.{i}.{n}": s for n, s in layer_shapes(text, kind, dense).items()}
    if text.get("mtp_num_hidden_layers"):
        shapes |= {"mtp.fc.weight": (h, 2 * h), "mtp.norm.weight": (h,), "mtp.pre_fc_norm_embedding.weight": (h,),
                   "mtp.pre_fc_norm_hidden.weight": (h,)}
        shapes |= {f"mtp.layers.0.{n}": s for n, s in layer_shapes(text, FULL, "num_experts" not in text).items()}
    if "vision_config" in spec["config"]:
        shapes |= {"model.visual.patch_embed.proj.bias": (8,), "model.visual.merger.norm.weight": (8,)}
    return shapes


def init_tensor(name, shape, text, generator):
    """Values that a mistake shows in: no gain is 1, heads forget fast and slowly, experts are chosen clearly."""
    noise = torch.randn(shape, generator=generator, dtype=torch.float32)
    uniform = torch.rand(shape, generator=generator, dtype=torch.float32)
    if name.endswith("A_log"):
        return math.log(16) * uniform
    if name.endswith("dt_bias"):
        return -4 + 5 * uniform
    if name.endswith("norm.weight") or "pre_fc_norm" in name:
        around_zero = is_hybrid(text) and not name.endswith("linear_attn.norm.weight")
        return (0.0 if around_zero else 1.0) + 0.25 * noise
    if "embed_tokens" in name or "lm_head" in name:
        return 2.0 * text["hidden_size"] ** -0.5 * noise
    if name.endswith("conv1d.weight"):
        return 0.3 * noise + torch.tensor([0.1, 0.2, 0.4, 0.8])
    if name.endswith("mlp.gate.weight"):
        return 0.3 * noise
    if "in_proj_qkv" in name:
        return keys_like_queries(name, noise, text) * shape[-1] ** -0.5
    # What comes out of linear attention has been normed head by head, however little it was.
    gain = {"q_proj": 1.5, "k_proj": 1.5, "out_proj": 0.3}.get(name.split(".")[-2], 1.0)
    return gain * shape[-1] ** -0.5 * noise


def keys_like_queries(name, noise, text):
    """A state read along a direction in which little was written is a small difference of large numbers, which
    the norm behind it makes large again: with keys that are like queries, float32 keeps its digits."""
    heads, dim = text["linear_num_key_heads"], text["linear_key_head_dim"]
    by_head = name.endswith("qkvz.weight")
    rows = noise.reshape(heads, -1, noise.shape[-1]) if by_head else noise[None]
    q, k = (slice(0, dim), slice(dim, 2 * dim)) if by_head else (slice(0, heads * dim), slice(heads * dim, 2 * heads * dim))
    rows[:, k] = 0.8 * rows[:, q] + 0.6 * rows[:, k]
    return rows.reshape(noise.shape)


def make_weights(spec):
    generator = torch.Generator().manual_seed(spec["seed"])
    weights = {}
    for name, shape in sorted(all_shapes(spec).items()):
        # Exports differ in how they keep the decays: this one in float32, as the recurrence computes.
        dtype = "F32" if name.endswith("A_log") and text_of(spec)["tie_word_embeddings"] else spec["dtype"]
        weights[name] = init_tensor(name, shape, text_of(spec), generator).to(DTYPES[dtype]).contiguous()
    return weights


# ---- transformers --------------------------------------------------------------------------------

def load(folder):
    net, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[kind]:
            sys.exit(f"{folder.name}: {kind}: {sorted(info[kind])}")
    # Where its kernels are installed, transformers puts them in place of these.
    forms = vars(sys.modules[type(net).__module__])
    for name in ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule", "causal_conv1d_fn"):
        form = forms.get(name)
        if form is not None and inspect.unwrap(form).__module__ != type(net).__module__:
            sys.exit(f"{folder.name}: {name} is that of {inspect.unwrap(form).__module__}")
    for package in ("fla", "causal_conv1d", "kernels"):
        if importlib.util.find_spec(package) is not None:
            sys.exit(f"the package {package} would change what linear attention is computed with")
    return net.eval()


def token_by_token(net, ids):
    cache, rows = None, []
    for t in range(len(ids)):
        out = net(ids[None, t:t + 1], cache=cache, use_cache=True)
        cache = out.cache
        rows.append(out.logits[0, 0])
    return torch.stack(rows)


# ---- The draft head, in float64 ------------------------------------------------------------------

def silu(x):
    return x / (1 + np.exp(-x))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Draft:
    """A decoder layer with gated full attention, and around it what makes a draft of it."""

    def __init__(self, text, weights, prefix):
        self.text, self.prefix = text, prefix
        self.w = {n: t.double().numpy() for n, t in weights.items()}
        self.keys, self.values = [], []  # one per position: [key-value heads, head_dim]

    def norm(self, x, name):
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.text["rms_norm_eps"])
        return y * (1 + self.w[name])

    def rope(self, x, position):
        rope = self.text["rope_parameters"]
        dims = int(x.shape[-1] * rope["partial_rotary_factor"])
        half = dims // 2
        angle = position * rope["rope_theta"] ** (-2 * np.arange(half) / dims)
        a, b = x[..., :half], x[..., half:dims]
        turned = [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)]
        return np.concatenate(turned + [x[..., dims:]], -1)

    def attention(self, x, position):
        heads, kv, dim = (self.text[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        at = self.prefix + "self_attn."
        q_gate = (self.w[at + "q_proj.weight"] @ x).reshape(heads, 2, dim)
        k = (self.w[at + "k_proj.weight"] @ x).reshape(kv, dim)
        q = self.rope(self.norm(q_gate[:, 0], at + "q_norm.weight"), position)
        self.keys.append(self.rope(self.norm(k, at + "k_norm.weight"), position))
        self.values.append((self.w[at + "v_proj.weight"] @ x).reshape(kv, dim))
        out = np.empty((heads, dim))
        for h in range(heads):
            g = h // (heads // kv)
            scores = np.array([key[g] @ q[h] for key in self.keys]) / math.sqrt(dim)
            p = np.exp(scores - scores.max())
            out[h] = (p / p.sum()) @ np.stack([value[g] for value in self.values])
        return self.w[at + "o_proj.weight"] @ (out * sigmoid(q_gate[:, 1])).reshape(-1)

    def mlp(self, x, stem):
        hidden = silu(self.w[stem + "gate_proj.weight"] @ x) * (self.w[stem + "up_proj.weight"] @ x)
        return self.w[stem + "down_proj.weight"] @ hidden

    def feed_forward(self, x):
        at = self.prefix + "mlp."
        if at + "gate.weight" not in self.w:
            return self.mlp(x, at)
        logits = self.w[at + "gate.weight"] @ x
        p = np.exp(logits - logits.max())
        chosen = np.argsort(-p, kind="stable")[:self.text["num_experts_per_tok"]]
        out, width = np.zeros_like(x), self.text["moe_intermediate_size"]
        for e in chosen:
            gate_up = self.w[at + "experts.gate_up_proj"][e] @ x
            hidden = silu(gate_up[:width]) * gate_up[width:]
            out += p[e] / p[chosen].sum() * (self.w[at + "experts.down_proj"][e] @ hidden)
        shared = sigmoid(self.w[at + "shared_expert_gate.weight"][0] @ x)
        return out + shared * self.mlp(x, at + "shared_expert.")

    def layer(self, x, position):
        x = x + self.attention(self.norm(x, self.prefix + "input_layernorm.weight"), position)
        return x + self.feed_forward(self.norm(x, self.prefix + "post_attention_layernorm.weight"))

    def step(self, trunk, hidden, token, position):
        """Hidden state behind the draft's norm, and logits."""
        table = self.w[trunk + "embed_tokens.weight"]
        both = [self.norm(table[token], "mtp.pre_fc_norm_embedding.weight"),
                self.norm(hidden, "mtp.pre_fc_norm_hidden.weight")]
        x = self.layer(self.w["mtp.fc.weight"] @ np.concatenate(both), position)
        m = self.norm(x, "mtp.norm.weight")
        return m, self.w.get("lm_head.weight", table) @ m


def check_layer(net, spec, weights, ids):
    """The draft's layer on a full-attention layer of the trunk, against transformers."""
    text, i = text_of(spec), layer_types(text_of(spec)).index(FULL)
    seen = {}

    def keep(_, args, kwargs, out):
        seen["in"] = (args[0] if args else kwargs["hidden_states"])[0]
        seen["out"] = (out[0] if isinstance(out, tuple) else out)[0]

    handle = net.model.layers[i].register_forward_hook(keep, with_kwargs=True)
    net(ids.long()[None])
    handle.remove()
    draft = Draft(text, weights, f"{spec.get('prefix', 'model.')}layers.{i}.")
    mine = np.stack([draft.layer(x, p) for p, x in enumerate(seen["in"].double().numpy())])
    worst = float(np.abs(mine - seen["out"].double().numpy()).max())
    if worst > 2e-5:
        sys.exit(f"layer {i}: the draft's layer is {worst} off")


def drafts(spec, weights, ids, hidden, first):
    text, trunk = text_of(spec), spec.get("prefix", "model.")
    draft, rows = Draft(text, weights, "mtp.layers.0."), []
    following = ids.tolist()[1:] + [first]
    for p, token in enumerate(following):
        m, logits = draft.step(trunk, hidden[p].double().numpy(), token, p)
        rows.append(logits)
    tokens = [int(logits.argmax())]
    while len(tokens) < DRAFT_TOKENS:
        m, logits = draft.step(trunk, m, tokens[-1], len(following) + len(tokens) - 1)
        tokens.append(int(logits.argmax()))
    return torch.tensor(np.stack(rows), dtype=torch.float32), torch.tensor(tokens, dtype=torch.int32)


# ---- Files ---------------------------------------------------------------------------------------

def prompts_of(spec):
    rng = np.random.default_rng(spec["seed"])
    return [torch.tensor(rng.integers(0, text_of(spec)["vocab_size"], n), dtype=torch.int32) for n, _ in PROMPTS]


@torch.no_grad()
def goldens(folder, spec):
    net, weights = load(folder), load_file(folder / "model.safetensors")
    text, tensors, apart, spread = text_of(spec), {}, 0.0, 0.0
    has_draft = bool(text.get("mtp_num_hidden_layers"))
    for i, (ids, (_, tail)) in enumerate(zip(prompts_of(spec), PROMPTS)):
        out = net(ids.long()[None], output_hidden_states=True)
        logits = out.logits[0]
        apart = max(apart, float((logits - token_by_token(net, ids.long())).abs().max()))
        spread = float(logits.std())
        tensors[f"prompt{i}.ids"] = ids
        tensors[f"prompt{i}.logits"] = logits[-tail:].float().contiguous()
        sequence = ids.long().tolist()
        if i in GREEDY_PROMPTS:
            for _ in range(GREEDY_TOKENS):
                sequence.append(int(net(torch.tensor([sequence])).logits[0, -1].argmax()))
            tensors[f"prompt{i}.greedy"] = torch.tensor(sequence[len(ids):], dtype=torch.int32)
        if has_draft and i in DRAFT_PROMPTS:
            check_layer(net, spec, weights, ids)
            hidden = out.hidden_states[-1][0]
            if float((net.lm_head(hidden) - logits).abs().max()) > 1e-6:
                sys.exit(f"{folder.name}: the last hidden state is not what the head reads")
            rows, tokens = drafts(spec, weights, ids, hidden, int(logits[-1].argmax()))
            tensors |= {f"prompt{i}.hidden": hidden.contiguous(), f"prompt{i}.mtp.logits": rows,
                        f"prompt{i}.mtp.draft": tokens}
    if apart > CHUNK_BOUND:
        sys.exit(f"{folder.name}: in one pass and token by token, logits differ by {apart}")
    return tensors, apart, spread


def make(name, spec, out):
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / "config.json").write_text(json.dumps(spec["config"], indent=2) + "\n")
    write_weights(folder, {"shards": 1}, make_weights(spec))
    tensors, apart, spread = goldens(folder, spec)
    save_file(tensors, folder / "golden.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name:28} {size / 1024:7.0f} KiB  logits std {spread:.2f}  |one pass - token by token| {apart:.1e}")


def check(name, spec, out):
    fresh, _, _ = goldens(out / name, spec)
    compare(name, out / name, fresh)


if __name__ == "__main__":
    run(__doc__, MODELS, lambda _, name, spec, args: (check if args.check else make)(name, spec, args.out))
