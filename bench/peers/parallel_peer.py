#!/usr/bin/python3
"""A plain transformer under DistributedDataParallel, the peer of bench_parallel: the blocks of step_peer.py on all patches of a window,
one process and one thread per worker, gloo, AdamW, clipping by global norm. Prints one JSON line with the seconds of each step.
"""
import argparse
import json
import math
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
import torch.nn.functional as F
from step_peer import Block, optimize
from torch import nn

WARM_UP = 3


class Transformer(nn.Module):
    def __init__(self, c):
        super().__init__()
        samples, d = math.prod(c["patch"]), c["dim"]
        self.embed = nn.Linear(samples, d)
        self.blocks = nn.ModuleList(Block(d, c["heads"], 4 * d) for _ in range(c["depth"]))
        self.norm = nn.LayerNorm(d, eps=1e-6)
        self.head = nn.Linear(d, samples)

    def forward(self, rows):
        x = self.embed(rows)
        for block in self.blocks:
            x = block(x, None)
        return F.mse_loss(self.head(self.norm(x)), rows)


def train(rank, c, arguments):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{arguments.port}", rank=rank,
                            world_size=arguments.world)
    model = nn.parallel.DistributedDataParallel(Transformer(c))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.05)
    batches = [torch.randn(c["batch"], c["tokens"], math.prod(c["patch"])) for _ in range(4)]
    seconds = []
    for i in range(WARM_UP + arguments.steps):
        start = time.perf_counter()
        optimize(model, optimizer, batches[i % len(batches)])
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({"seconds": seconds[WARM_UP:], "parameters": sum(p.numel() for p in model.parameters())}),
              flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--port", type=int, default=29513)
    arguments = parser.parse_args()
    c = json.loads(arguments.config)
    torch.multiprocessing.spawn(train, args=(c, arguments), nprocs=arguments.world)


if __name__ == "__main__":
    main()
