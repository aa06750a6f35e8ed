#!/usr/bin/env python3
"""Trains the model of bench/swap.py with DeepSpeed's ZeRO-Infinity on CPUs, with parameters and optimizer state on a disk
(nvme), or in memory (none). Prints the seconds of a step without the first, the most memory of its own that the process
had, and what it read from and wrote to disks.

Usage: bench/peers/setup_deepspeed.sh, then its bin/python zero_infinity.py [--width 512] [--layers 16] [--vocabulary 256]
           [--microbatches 8] [--tokens 256] [--steps 3] [--offload nvme|none] [--recompute 1] --scratch FOLDER

Nothing is fetched ahead: on CPUs, DeepSpeed 0.19.8 ends with an assertion when it fetches ahead with this model, or keeps
parameters for their next use.
"""
import argparse
import os
import pathlib
import re
import resource
import statistics
import tempfile
import threading
import time

os.environ.update({"DS_ACCELERATOR": "cpu", "LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": "29581", "LOCAL_SIZE": "1"})

import torch  # noqa: E402
import deepspeed  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

HEAD = 64


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return functional.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


def rotate(x):
    """Rotary positions of (batch, heads, tokens, HEAD)."""
    angles = torch.outer(torch.arange(x.shape[2]), 1e4 ** -(torch.arange(0, HEAD, 2) / HEAD))
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


class Layer(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.attention_norm, self.mlp_norm = Norm(width), Norm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        batch, tokens, width = x.shape
        y = self.attention_norm(x)
        q, k, v = (f(y).view(batch, tokens, width // HEAD, HEAD).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = functional.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, tokens, width))
        y = self.mlp_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Table(nn.Embedding):
    def reset_parameters(self):
        nn.init.normal_(self.weight, std=0.02)


class Model(nn.Module):
    def __init__(self, flags):
        super().__init__()
        self.embedding = Table(flags.vocabulary, flags.width)
        self.layers = nn.ModuleList(Layer(flags.width, flags.width * 43 // 16) for _ in range(flags.layers))
        self.norm = Norm(flags.width)
        self.recompute = flags.recompute

    def forward(self, tokens):
        x = self.embedding(tokens[:, :-1])
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=True) if self.recompute else layer(x)
        logits = functional.linear(self.norm(x), self.embedding.weight)  # tied
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def configuration(flags, folder):
    offload = {"device": "nvme", "nvme_path": folder, "pin_memory": False, "buffer_count": flags.buffers}
    zero = {"stage": 3, "sub_group_size": int(flags.sub_group)} if flags.offload == "nvme" else {"stage": 0}
    if flags.offload == "nvme":
        largest = max(flags.vocabulary, flags.width * 43 // 16) * flags.width
        zero |= {"offload_param": {**offload, "buffer_size": largest, "max_in_cpu": 0},
                 "offload_optimizer": {**offload, "pipeline_read": True, "pipeline_write": True},
                 "stage3_max_live_parameters": 2 * largest, "stage3_max_reuse_distance": 0, "stage3_prefetch_bucket_size": 0,
                 "stage3_param_persistence_threshold": 10_000}
    return {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": flags.microbatches,
            "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
            "gradient_clipping": 1.0, "zero_optimization": zero, "zero_allow_untested_optimizer": True,
            "aio": {"block_size": 1 << 20, "queue_depth": 8, "intra_op_parallelism": 1, "single_submit": False,
                    "overlap_events": True}, "steps_per_print": 1 << 30}


def disk_bytes():
    text = pathlib.Path("/proc/self/io").read_text()
    return [int(re.search(rf"^{name}: (\d+)", text, re.M).group(1)) for name in ("read_bytes", "write_bytes")]


def watch(most, ended):
    while not ended.wait(0.1):
        own = re.search(r"RssAnon:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())
        most[0] = max(most[0], int(own.group(1)) * 1024)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("width", 512), ("layers", 16), ("vocabulary", 256), ("microbatches", 8), ("tokens", 256),
                          ("steps", 3), ("buffers", 16), ("recompute", 1), ("threads", os.cpu_count())):
        flags.add_argument(f"--{name}", type=int, default=default)
    flags.add_argument("--sub-group", type=float, default=1e7)
    flags.add_argument("--offload", choices=["nvme", "none"], default="nvme")
    flags.add_argument("--scratch", required=True)
    flags = flags.parse_args()
    torch.set_num_threads(flags.threads)
    torch.manual_seed(1)
    deepspeed.init_distributed("gloo")
    with tempfile.TemporaryDirectory(dir=flags.scratch) as folder:
        settings = configuration(flags, folder)
        if flags.offload == "nvme":
            with deepspeed.zero.Init(config_dict_or_path=settings, remote_device="nvme"):
                model = Model(flags)
        else:
            model = Model(flags)
        engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
        most, ended = [0], threading.Event()
        watcher = threading.Thread(target=watch, args=(most, ended), daemon=True)
        watcher.start()
        seconds, losses = [], []
        for _ in range(flags.steps + 1):
            begun, total = time.monotonic(), 0.0
            for _ in range(flags.microbatches):
                loss = engine(torch.randint(flags.vocabulary, (1, flags.tokens + 1)))
                engine.backward(loss)
                engine.step()
                total += loss.item()
            seconds.append(time.monotonic() - begun)
            losses.append(total / flags.microbatches)
            print(f"step {len(seconds)}: {seconds[-1]:.1f} s, loss {losses[-1]:.4f}", flush=True)
        ended.set()
        watcher.join()
        read, written = disk_bytes()
        print(f"DeepSpeed {deepspeed.__version__}, {flags.offload}: {statistics.median(seconds[1:]):.2f} s a step, own "
              f"{most[0] >> 20} MiB, at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB resident, read "
              f"{read >> 20}, written {written >> 20} MiB")


if __name__ == "__main__":
    main()
