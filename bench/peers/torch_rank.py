"""One rank of torch.distributed.pipelining with the timed stages of bench/goodput.py: forward and backward
sleep for their time, activations and gradients are real tensors of the given type.

Environment: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, GLOO_SOCKET_IFNAME.
Usage: torch_rank.py SCHEDULE DTYPE WIDTH TOKENS MICROBATCHES STEPS FORWARD_MS BACKWARD_MS
Rank 0 prints a JSON list: the seconds of each step.
"""
import json
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules


class Timed(torch.autograd.Function):
    """Sleeps for the given time."""

    @staticmethod
    def forward(ctx, value, forward_seconds, backward_seconds):
        ctx.backward_seconds = backward_seconds
        time.sleep(forward_seconds)
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.backward_seconds)
        return gradient.clone(), None, None


class Stage(torch.nn.Module):
    """One stage. The first stage makes activations from token ids."""

    def __init__(self, index, width, dtype, seconds):
        super().__init__()
        self.index, self.width, self.dtype, self.seconds = index, width, dtype, seconds
        self.weight = torch.nn.Parameter(torch.ones(1, dtype=dtype))

    def forward(self, value):
        if self.index == 0:
            value = self.weight.expand(*value.shape, self.width)
        return Timed.apply(value, *self.seconds)


def main():
    schedule, dtype = sys.argv[1], getattr(torch, sys.argv[2])
    width, tokens, microbatches, steps = map(int, sys.argv[3:7])
    seconds = [float(text) * 1e-3 for text in sys.argv[7:9]]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(Stage(rank, width, dtype, seconds), rank, ranks, torch.device("cpu"))
    pipeline = getattr(schedules, f"Schedule{schedule}")(
        stage, n_microbatches=microbatches, loss_fn=lambda output, _: output.float().mean())
    ids = torch.zeros(microbatches, tokens, dtype=torch.int64)
    times = []
    dist.barrier()
    for _ in range(steps):
        begin = time.monotonic()
        pipeline.step(*((ids,) if rank == 0 else ()), **({"target": ids} if rank == ranks - 1 else {}))
        times.append(time.monotonic() - begin)
    if rank == 0:
        print(json.dumps(times), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
