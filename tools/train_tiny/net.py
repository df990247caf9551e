"""Qwen3.5-MoE's text model and its draft head as plain functions of the tensors of a file, for training.

Names and shapes are the file's own (tools/oracle/make_tiny_hybrids.py); train.py checks what comes out
against transformers and against that script's draft head. Batches are [B, T, H], float32.
"""
import math
import pathlib
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import make_tiny_hybrids as oracle  # noqa: E402

CHUNK = 32  # tokens of linear attention that are solved at once
FULL_EVERY = 4  # layers, of which one looks back at all tokens


def initial(spec, generator):
    """Weights to begin with: products keep the size of what they read, branches begin small."""
    text, weights = oracle.text_of(spec), {}
    branch = (2 * text["num_hidden_layers"]) ** -0.5
    for name, shape in sorted(oracle.all_shapes(spec).items()):
        noise = torch.randn(shape, generator=generator)
        uniform = torch.rand(shape, generator=generator)
        stem = name.split(".")[-2] if name.endswith("weight") else name.split(".")[-1]
        if name.endswith("A_log"):
            value = torch.log(1 + 15 * uniform)
        elif name.endswith("dt_bias"):
            step = torch.exp(math.log(1e-3) + uniform * (math.log(0.1) - math.log(1e-3)))
            value = step + torch.log(-torch.expm1(-step))
        elif name.endswith("linear_attn.norm.weight"):
            value = torch.ones(shape)
        elif "norm" in stem:
            value = torch.zeros(shape)
        elif stem == "conv1d":
            value = uniform - 0.5
        elif stem == "embed_tokens":
            value = 0.04 * noise
        else:
            value = shape[-1] ** -0.5 * noise * (branch if stem in ("o_proj", "out_proj", "down_proj") else 0.7)
        weights[name] = value.requires_grad_()
    return weights


class Net:
    def __init__(self, spec, weights):
        self.text, self.w, self.trunk = oracle.text_of(spec), weights, spec["prefix"]
        self.kinds = oracle.layer_types(self.text)
        self.balance = []  # one a layer of experts since the last time it was emptied: see experts()

    # ---- Parts of a layer --------------------------------------------------------------------------

    def norm(self, x, name):
        return F.rms_norm(x, x.shape[-1:], 1 + self.w[name], self.text["rms_norm_eps"])

    def rope(self, x, positions):
        rope = self.text["rope_parameters"]
        dims = int(x.shape[-1] * rope["partial_rotary_factor"])
        rate = rope["rope_theta"] ** (-torch.arange(0, dims, 2, dtype=torch.float32) / dims)
        angle = positions[:, None].float() * rate
        cos, sin = angle.cos(), angle.sin()
        a, b, rest = x.split([dims // 2, dims // 2, x.shape[-1] - dims], -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def attention(self, x, at, positions, past=None, mask=None):
        """Result, and keys and values; `past`: those that stand before, `mask` over all of them."""
        (rows, length, _), dim = x.shape, self.text["head_dim"]
        q, gate = F.linear(x, self.w[at + "q_proj.weight"]).view(rows, length, -1, 2, dim).unbind(3)
        k, v = (F.linear(x, self.w[at + f"{n}_proj.weight"]).view(rows, length, -1, dim) for n in "kv")
        q = self.rope(self.norm(q, at + "q_norm.weight").transpose(1, 2), positions)
        k = self.rope(self.norm(k, at + "k_norm.weight").transpose(1, 2), positions)
        v = v.transpose(1, 2)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        share = q.shape[1] // k.shape[1]
        out = F.scaled_dot_product_attention(q, k.repeat_interleave(share, 1), v.repeat_interleave(share, 1),
                                             attn_mask=mask, is_causal=mask is None)
        out = (out.transpose(1, 2) * torch.sigmoid(gate)).reshape(rows, length, -1)
        return F.linear(out, self.w[at + "o_proj.weight"]), (k, v)

    def linear_attention(self, x, at):
        text, (rows, length, _) = self.text, x.shape
        dim, width = text["linear_key_head_dim"], text["linear_value_head_dim"]
        heads, share = text["linear_num_value_heads"], text["linear_num_value_heads"] // text["linear_num_key_heads"]
        keys = text["linear_num_key_heads"] * dim
        mixed = F.pad(F.linear(x, self.w[at + "in_proj_qkv.weight"]), (0, 0, text["linear_conv_kernel_dim"] - 1, 0))
        taps = self.w[at + "conv1d.weight"][:, 0].unbind(-1)
        mixed = F.silu(sum(mixed[:, i:i + length] * tap for i, tap in enumerate(taps)))
        q, k, v = mixed.split([keys, keys, heads * width], -1)
        q, k = (unit(t.view(rows, length, -1, dim)).repeat_interleave(share, 2) for t in (q, k))
        beta = torch.sigmoid(F.linear(x, self.w[at + "in_proj_b.weight"]))
        step = F.softplus(F.linear(x, self.w[at + "in_proj_a.weight"]) + self.w[at + "dt_bias"])
        out = delta_rule(q * dim ** -0.5, k, v.view(rows, length, heads, width), -torch.exp(self.w[at + "A_log"]) * step, beta)
        z = F.linear(x, self.w[at + "in_proj_z.weight"]).view(rows, length, heads, width)
        out = F.rms_norm(out, (width,), self.w[at + "norm.weight"], text["rms_norm_eps"]) * F.silu(z)
        return F.linear(out.reshape(rows, length, -1), self.w[at + "out_proj.weight"])

    def experts(self, x, at):
        """Rows in the order of their experts, so that each expert is one product."""
        flat, chosen = x.reshape(-1, x.shape[-1]), self.text["num_experts_per_tok"]
        p = torch.softmax(F.linear(flat, self.w[at + "gate.weight"]), -1)
        top, which = p.topk(chosen, -1)
        top = top / top.sum(-1, keepdim=True)
        order = torch.argsort(which.reshape(-1), stable=True)
        counts = torch.bincount(which.reshape(-1), minlength=p.shape[-1])
        token, sizes = order // chosen, counts.tolist()
        gate_up = torch.cat([F.linear(rows, w) for rows, w in
                             zip(flat[token].split(sizes), self.w[at + "experts.gate_up_proj"].unbind(0))])
        gate, up = gate_up.chunk(2, -1)
        hidden = F.silu(gate) * up * top.reshape(-1)[order, None]
        out = torch.cat([F.linear(rows, w) for rows, w in
                         zip(hidden.split(sizes), self.w[at + "experts.down_proj"].unbind(0))])
        # 1 where all experts get the same share, more where some are favoured.
        self.balance.append((p.mean(0) * counts / counts.sum()).sum() * p.shape[-1])
        shared = F.silu(F.linear(flat, self.w[at + "shared_expert.gate_proj.weight"])) \
            * F.linear(flat, self.w[at + "shared_expert.up_proj.weight"])
        shared = F.linear(shared, self.w[at + "shared_expert.down_proj.weight"]) \
            * torch.sigmoid(F.linear(flat, self.w[at + "shared_expert_gate.weight"]))
        return shared.index_add(0, token, out).view_as(x)

    def second_half(self, x, at):
        return x + self.experts(self.norm(x, at + "post_attention_layernorm.weight"), at + "mlp.")

    # ---- The whole --------------------------------------------------------------------------------

    def embed(self, ids):
        return F.embedding(ids, self.w[self.trunk + "embed_tokens.weight"])

    def logits(self, hidden):
        return F.linear(hidden, self.w.get("lm_head.weight", self.w[self.trunk + "embed_tokens.weight"]))

    def hidden(self, ids):
        """Behind the last norm: what the head reads, and what drafts begin with."""
        x, positions = self.embed(ids), torch.arange(ids.shape[1])
        for i, kind in enumerate(self.kinds):
            at = f"{self.trunk}layers.{i}."
            y = self.norm(x, at + "input_layernorm.weight")
            if kind == oracle.FULL:
                x = x + self.attention(y, at + "self_attn.", positions)[0]
            else:
                x = x + self.linear_attention(y, at + "linear_attn.")
            x = self.second_half(x, at)
        return self.norm(x, self.trunk + "norm.weight")

    def draft(self, hidden, ids, step, past):
        """Draft `step` (0, 1, ..) of every position at once: its normed state, and keys and values for the next.

        hidden: of the trunk for step 0, else of the step before; ids: the token behind what hidden has seen.
        Position p reads the trunk's states up to p and then its own drafts, so that a later step's keys are
        the trunk's up to p and one more for each step.
        """
        length, at = ids.shape[1], "mtp.layers.0."
        both = [self.norm(self.embed(ids), "mtp.pre_fc_norm_embedding.weight"),
                self.norm(hidden, "mtp.pre_fc_norm_hidden.weight")]
        x, mask = F.linear(torch.cat(both, -1), self.w["mtp.fc.weight"]), None
        if step:
            own = torch.eye(length, dtype=torch.bool)
            mask = torch.cat([torch.ones(length, length, dtype=torch.bool).tril()] + [own] * step, 1)
        out, past = self.attention(self.norm(x, at + "input_layernorm.weight"), at + "self_attn.",
                                   torch.arange(length) + step, past, mask)
        return self.norm(self.second_half(x + out, at), "mtp.norm.weight"), past


def unit(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def delta_rule(q, k, v, decay, beta):
    """S <- exp(g) S + k beta (v - k exp(g) S), out = q S, with S [key, value] of each head; [B, T, heads, dim].

    Within a chunk what each token writes depends on the writes before it alone: a triangular system.
    Between chunks S is carried.
    """
    rows, length, heads, width = v.shape
    pad = -length % CHUNK

    def chunks(t):  # [B, heads, chunks, CHUNK, ..]
        t = F.pad(t, (0, 0) * (t.dim() - 2) + (0, pad)).transpose(1, 2)
        return t.reshape(rows, heads, -1, CHUNK, *t.shape[3:])

    q, k, v, decay, beta = (chunks(t) for t in (q, k, v, decay, beta[..., None]))
    since = decay.cumsum(-1)  # log of what is left, at a token, of what the chunk began with
    seen = torch.ones(CHUNK, CHUNK, dtype=torch.bool).tril()
    left = (since[..., :, None] - since[..., None, :]).masked_fill(~seen, -math.inf).exp()
    writes = (beta * k) @ k.transpose(-1, -2) * left
    wanted = torch.cat([beta * v, beta * k * since[..., None].exp()], -1)
    values, reads = torch.linalg.solve_triangular(writes, wanted, upper=False, unitriangular=True).split([width, k.shape[-1]], -1)
    inside = q @ k.transpose(-1, -2) * left
    q = q * since[..., None].exp()
    k = (k * (since[..., -1:] - since)[..., None].exp()).transpose(-1, -2)
    last = since[..., -1, None, None].exp()
    state, out = v.new_zeros(rows, heads, k.shape[-2], width), []
    for c in range(v.shape[2]):
        new = values[:, :, c] - reads[:, :, c] @ state
        out.append(q[:, :, c] @ state + inside[:, :, c] @ new)
        state = last[:, :, c] * state + k[:, :, c] @ new
    return torch.cat(out, 2)[:, :, :length].transpose(1, 2)
