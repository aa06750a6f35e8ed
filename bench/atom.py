#!/usr/bin/env python3
"""Measures whether replicas that each have the whole model (ATOM, arXiv 2403.10504: Local steps with Swap) or a
pipeline of stages brings more tokens per second over slow links: the same four devices, the same links.

Usage: bench/atom.py [--build FOLDER] [--shapes small,wide] [--rates 10,50,200,1000] [--rtts 80] [--inner 100]
                     [--local Int8,Int4] [--pipelines Int8:Delayed,32x:Delayed,...] [--tokens 256] [--in-flight 256]
                     [--torch float32] ...      (as root)

As in goodput.py, compute is timed at the rate of a T4 (20 TFLOP/s) and bytes are real, over bench/wan. A replica of
Local computes its forward twice; weights and gradients, two bytes each, cross PCIe at 12 GB/s beside that, and the
optimizer on its host steps 4 G parameters a second behind it. Eight microbatches make an inner step. Sums of rounds
are real, of as many floats as the model has parameters, and overlap with the next round. A pipeline has a quarter of
the layers in each device, which holds its state. 32x stands for a boundary of 32 times fewer bytes than float32. Late is
by how much the emulator delivered its latest packet too late.
"""
import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE / "wan"), str(HERE / "peers")]

import goodput  # noqa: E402
import torch_pipelining  # noqa: E402
import wan  # noqa: E402
from cluster import sandbox  # noqa: E402

PEERS = 4
FLOPS, PCIE, UPDATES = 20e12, 12e9, 4e9  # of a T4; bytes a second each way; parameters a second
TOGETHER = 8  # microbatches of an inner step
ROUNDS = 2  # that count, after the first


@dataclasses.dataclass
class Shape:
    width: int
    layers: int
    vocabulary: int = 50257

    def parameters(self):
        return self.layers * 12 * self.width**2 + self.vocabulary * self.width  # the head is the embedding

    def seconds(self, tokens):
        """Of a device with all layers, forward and backward."""
        return 6 * self.parameters() * tokens / FLOPS


SHAPES = {"small": Shape(768, 12),  # GPT-3 Small: 124 M parameters
          "wide": Shape(1024, 4)}  # 102 M, with thick boundaries and little behind them


def manifest(shape, options, codec, corpus):
    microbatches = PEERS * options.inner * TOGETHER
    return {
        "apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "atom"},
        "spec": {
            "model": {"config": {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
                                 "intermediate_size": 128, "vocab_size": 256}},  # only the bytes of texts matter
            "data": {"uri": str(corpus)},
            "training": {
                "maxSteps": 1 + ROUNDS, "globalBatchSize": microbatches, "microbatchSize": 1,
                "sequenceLength": options.tokens, "stepMode": "Local", "reduceCodec": codec,
                "local": {"innerSteps": options.inner, "microbatches": TOGETHER, "overlap": True},
                "validationIntervalSteps": 1000000},
            "pipeline": {"stages": 1}, "workers": {"replicas": PEERS},
            "checkpoint": {"intervalSteps": 1000000}}}


def train_local(network, shape, options, codec, folder):
    """Runs rounds on the network; gives the lines of steps.jsonl."""
    folder.mkdir()
    corpus = folder / "corpus.txt"
    corpus.write_text("".join(f"{number}\n" for number in range(200000)))
    text = json.dumps(manifest(shape, options, codec, corpus))
    job = subprocess.run([options.build / "bin" / "swarmctl", "validate", "-", "--json"], check=True, input=text,
                         text=True, stdout=subprocess.PIPE).stdout
    (folder / "job.json").write_text(job)
    tokens, parameters = TOGETHER * options.tokens, shape.parameters()
    inner_step = max(shape.seconds(tokens) * 4 / 3, 3 * 2 * parameters / PCIE) + parameters / UPDATES
    milliseconds = 1e3 * inner_step / TOGETHER
    with goodput.programs(network, options.build, folder) as (start, processes):
        trainer, address = goodput.start_trainer(start, folder, [PEERS])
        for peer in range(PEERS):
            start(f"w{peer}", "bench/timed_worker", "--id", f"w{peer}", "--trainer", address, "--forward-ms",
                  milliseconds / 4, "--backward-ms", milliseconds * 3 / 4, "--parameters", parameters)
        goodput.await_end(trainer, processes, folder, options.patience)
        return [json.loads(line) for line in (folder / "out" / "steps.jsonl").read_text().splitlines()]


def measure_local(shape, options, rate, rtt, codec):
    nodes = ["trainer", *(f"w{peer}" for peer in range(PEERS))]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="job-", dir=options.folder)) / "run"
    with wan.Wan(wan.uniform(nodes, rate, rtt), options.build) as network:
        steps = train_local(network, shape, options, codec, folder)[1:]
    tokens_per_second = sum(step["tokens"] for step in steps) / sum(step["seconds"] for step in steps)
    return {"tokensPerSecond": tokens_per_second, "lateMs": network.report["maxLateUs"] / 1e3}


def measure_pipeline(options, rate, rtt, codec, mode):
    named = {"32x": "32x:0.125"}.get(codec, codec)
    return goodput.measure(options, rate, rtt, named, mode)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=wan.ROOT / "build" / "release")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--rates", default="10,50,200,1000", help="Mb/s")
    parser.add_argument("--rtts", default="80", help="round trips in ms")
    parser.add_argument("--inner", type=int, default=100, help="inner steps of a round")
    parser.add_argument("--local", default="Int8,Int4", help="codecs of the sums; empty: none")
    parser.add_argument("--pipelines", default="Int8:Sync,Int8:Delayed,32x:Delayed", help="codec:mode; empty: none")
    parser.add_argument("--torch", default="", help="dtypes of torch's 1F1B, after bench/peers/setup.sh")
    parser.add_argument("--stages", type=int, default=PEERS, choices=[PEERS], help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=1, help="of pipelines, that count")
    parser.add_argument("--microbatches", type=int, default=256, help="a step of a pipeline")
    parser.add_argument("--tokens", type=int, default=256, help="a microbatch")
    parser.add_argument("--in-flight", type=int, default=256, help="most that a worker of a pipeline holds, as a plan has it")
    parser.add_argument("--patience", type=int, default=1800, help="seconds for a run")
    parser.add_argument("--keep", type=pathlib.Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def names(text):
    return [name for name in text.split(",") if name]


def main():
    options = parse_arguments()
    wan.sandboxed()
    options.folder = sandbox.Sandbox.current().folder
    for shape_name in names(options.shapes):
        shape = SHAPES[shape_name]
        goodput.WIDTH = shape.width
        goodput.MICROSECONDS_PER_TOKEN = 1e6 * shape.seconds(1) / PEERS  # of a stage
        print(f"{shape_name}: {shape.parameters() / 1e6:.0f} M parameters, {shape.width} wide; four devices bring at "
              f"most {PEERS / shape.seconds(1):.0f} tokens/s", flush=True)
        for rate in map(int, names(options.rates)):
            for rtt in map(int, names(options.rtts)):
                def show(name, measured):
                    print(f"{rate:5} Mb/s {rtt:4} ms  {name:24}{measured['tokensPerSecond']:9.0f} tokens/s"
                          f"   late {measured['lateMs']:6.1f} ms", flush=True)
                for codec in names(options.local):
                    show(f"Local, {codec}", measure_local(shape, options, rate, rtt, codec))
                for pipeline in names(options.pipelines):
                    codec, mode = pipeline.split(":")
                    show(f"{mode}, {codec}", measure_pipeline(options, rate, rtt, codec, mode))
                for dtype in names(options.torch):
                    show(f"torch 1F1B, {dtype}", torch_pipelining.measure(options, rate, rtt, "1F1B", dtype))


if __name__ == "__main__":
    main()
