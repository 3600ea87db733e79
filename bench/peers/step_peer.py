#!/usr/bin/python3
"""Training step of the `sfm` masked autoencoder in PyTorch, the peer of bench_step.

Idiomatic eager PyTorch, the same shapes and the same work as Craton's model: patches, fixed sin-cos or rotary positions, pre-norm blocks with one
QKV projection, GELU, a decoder that predicts the masked patches only, per-patch normalised loss, AdamW and clipping by global norm.
The configuration is JSON: the `model` section of a recipe plus `batch`, the samples per step and process. Prints one JSON line: the
seconds of each step, the processor seconds of all of them, the number of parameters. With --world W it starts W processes with
DistributedDataParallel over gloo, each with --threads threads.
"""
import argparse
import json
import math
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
import torch.nn.functional as F
from torch import nn

WARM_UP = 3


class Block(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x, rotation):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if rotation is not None:
            q, k = rotate(q, *rotation), rotate(k, *rotation)
        scores = (q * (d // self.heads) ** -0.5) @ k.transpose(-2, -1)
        x = x + self.proj((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


def rotate(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-second, first], -1) * sine


def angles(counts, frequencies, base):
    axes = [a for a, n in enumerate(counts) if n > 1]
    grid = torch.cartesian_prod(*[torch.arange(n, dtype=torch.float64) for n in counts])
    columns = []
    for i, a in enumerate(axes):
        n = frequencies // len(axes) + (1 if i < frequencies % len(axes) else 0)
        columns.append(grid[:, a : a + 1] * base ** (-torch.arange(n, dtype=torch.float64) / n))
    return torch.cat(columns, 1)


def sin_cos(counts, dim):
    a = angles(counts, dim // 2, 10000.0)
    return torch.cat([a.sin(), a.cos()], 1).float()


def rotary(counts, head_dim, base):
    a = angles(counts, head_dim // 2, base)
    a = torch.cat([a, a], 1)
    return torch.stack([a.cos(), a.sin()]).float()


class Sfm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.patch = c["patch"]
        self.counts = [w // p for w, p in zip(c["window"], c["patch"])]
        self.tokens = math.prod(self.counts)
        self.masked = round(c["mask_ratio"] * self.tokens)
        samples, d, dd = math.prod(self.patch), c["dim"], c["decoder_dim"]
        self.embed = nn.Linear(samples, d)
        self.encoder = nn.ModuleList(Block(d, c["heads"], int(d * c["mlp_ratio"])) for _ in range(c["depth"]))
        self.encoder_norm = nn.LayerNorm(d, eps=1e-6)
        self.decoder_embed = nn.Linear(d, dd, bias=False)
        self.mask_token = nn.Parameter(torch.randn(dd) * 0.02)
        self.decoder = nn.ModuleList(
            Block(dd, c["decoder_heads"], int(dd * c["decoder_mlp_ratio"])) for _ in range(c["decoder_depth"]))
        self.decoder_norm = nn.LayerNorm(dd, eps=1e-6)
        self.head = nn.Linear(dd, samples)
        self.amplitude_weight = c["amplitude_weight"]
        if self.amplitude_weight > 0:
            self.amplitude = nn.Linear(dd, 2)
        self.rotary = c["positions"] == "rotary"
        if self.rotary:
            self.register_buffer("turns", rotary(self.counts, d // c["heads"], c["rotary_base"]))
            self.register_buffer("decoder_turns", rotary(self.counts, dd // c["decoder_heads"], c["rotary_base"]))
        else:
            self.register_buffer("places", sin_cos(self.counts, d))
            self.register_buffer("decoder_places", sin_cos(self.counts, dd))

    def patchify(self, x):
        b, p, n = x.shape[0], self.patch, self.counts
        shape = [b]
        for count, size in zip(n, p):
            shape += [count, size]
        axes = len(p)
        order = [0] + [1 + 2 * a for a in range(axes)] + [2 + 2 * a for a in range(axes)]
        return x.view(shape).permute(order).reshape(b, self.tokens, math.prod(p))

    def forward(self, x):
        b = x.shape[0]
        rows = self.patchify(x)
        order = torch.rand(b, self.tokens).argsort(dim=1)
        visible, masked = order[:, : self.tokens - self.masked], order[:, self.tokens - self.masked :]
        take = lambda t, ids: t.gather(1, ids.unsqueeze(-1).expand(-1, -1, t.shape[-1]))
        y = self.embed(take(rows, visible))
        rotation = None
        if self.rotary:  # [batch, 1, tokens, head_dim]
            rotation = [t[visible].unsqueeze(1) for t in self.turns]
        else:
            y = y + self.places[visible]
        for block in self.encoder:
            y = block(y, rotation)
        y = self.decoder_embed(self.encoder_norm(y))
        y = torch.cat([y, self.mask_token.expand(b, self.masked, -1)], 1)
        if self.rotary:
            rotation = [t[order].unsqueeze(1) for t in self.decoder_turns]
        else:
            y = y + self.decoder_places[order]
        for block in self.decoder:
            y = block(y, rotation)
        y = self.decoder_norm(y[:, -self.masked :])
        truth = take(rows, masked)
        variance, mean = torch.var_mean(truth, dim=-1, keepdim=True)
        scale = (variance + 1e-6).sqrt()
        loss = F.mse_loss(self.head(y), (truth - mean) / scale)
        if self.amplitude_weight > 0:
            loss = loss + self.amplitude_weight * F.mse_loss(self.amplitude(y), torch.cat([mean, scale.log()], -1))
        return loss


def optimize(model, optimizer, batch):
    optimizer.zero_grad(set_to_none=True)
    loss = model(batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()


def train(rank, c, arguments):
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(rank)
    model = Sfm(c)
    wrapped = model
    if arguments.world > 1:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{arguments.port}", rank=rank,
                                world_size=arguments.world)
        wrapped = nn.parallel.DistributedDataParallel(model)
    vectors = [p for p in model.parameters() if p.dim() < 2]
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.95))
    batches = [torch.randn([c["batch"]] + c["window"]) for _ in range(4)]
    seconds = []
    for i in range(WARM_UP + arguments.steps):
        if i == WARM_UP:
            processor = time.process_time()
        start = time.perf_counter()
        optimize(wrapped, optimizer, batches[i % len(batches)])
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({
            "seconds": seconds[WARM_UP:],
            "processor_seconds": time.process_time() - processor,
            "parameters": sum(p.numel() for p in model.parameters()),
        }), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--port", type=int, default=29511)
    arguments = parser.parse_args()
    c = json.loads(arguments.config)
    if arguments.world == 1:
        train(0, c, arguments)
    else:
        torch.multiprocessing.spawn(train, args=(c, arguments), nprocs=arguments.world)


if __name__ == "__main__":
    main()
