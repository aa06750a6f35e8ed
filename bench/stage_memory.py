#!/usr/bin/env python3
"""What a stage takes: memory beside what the plan predicts, and tokens a second.

shape: a microbatch of a model with 1.1 billion parameters (d = 2048, 22 layers, the shape of TinyLlama) in four stages,
  one after the other, each in a process of its own: forward through all, then backward from the last to the first, with
  what crosses the boundaries in files. A stage then repeats its step twice, since a worker keeps the sums of two steps.
  Target: each peak within 10 % of the plan. Takes up to 12 GB of memory.
recompute: a stage of four layers (d = 1024), eight microbatches in flight, with pipeline.recompute None, Layers, Full.

Usage: bench/stage_memory.py [shape|recompute] [--tokens 2048] [--threads 2] [--build build/release]
The exit code is 1 if a peak misses the target.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

STAGES = 4
JOB = """
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {{name: shape}}
spec:
  model:
    config: {config}
    tokenizer: {{kind: Byte}}
  data: {{uri: text.txt}}
  training: {{maxSteps: 10, globalBatchSize: {microbatches}, microbatchSize: 1, sequenceLength: {tokens}}}
  pipeline: {{stages: {stages}, recompute: {recompute}}}
"""
BILLION = {"hidden_size": 2048, "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
           "intermediate_size": 5632, "vocab_size": 32000, "max_position_embeddings": 2048}
SMALL = BILLION | {"hidden_size": 1024, "num_hidden_layers": 16, "num_attention_heads": 16, "intermediate_size": 2816}


class Stages:
    def __init__(self, arguments, folder, config, microbatches=1, recompute="None"):
        self.program = [f"{arguments.build}/bench/stage_step", "--threads", str(arguments.threads),
                        "--microbatches", str(microbatches), "--filename", str(folder / "job.yaml")]
        (folder / "job.yaml").write_text(JOB.format(config=json.dumps(config), microbatches=microbatches, stages=STAGES,
                                                    recompute=recompute, tokens=arguments.tokens))
        self.microbatches = microbatches

    def run(self, stage, *flags):
        """What the program says, with the plan's peak and what the peak is of it."""
        text = subprocess.run(self.program + ["--stage", str(stage)] + [str(flag) for flag in flags], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        figures = json.loads(text)
        figures["plan"] = figures["state"] + self.microbatches * figures["graph"] + figures["backward"]
        figures["of_plan"] = figures["peak"] / figures["plan"]
        return figures


def text_of(figures):
    return (f"{figures['peak'] / 2**30:.2f} GiB, the plan {figures['plan'] / 2**30:.2f}: {figures['of_plan']:.3f} of "
            f"it; {figures['tokens_per_s']:.0f} tokens/s")


def shape(arguments, folder):
    stages = Stages(arguments, folder, BILLION)
    for stage in range(STAGES - 1):
        source = ["--input", folder / f"x{stage}"] if stage > 0 else []
        stages.run(stage, "--forward-only", "--output", folder / f"x{stage + 1}", *source)
    good = True
    for stage in reversed(range(STAGES)):
        files = ["--input", folder / f"x{stage}"] if stage > 0 else []
        files += ["--gradient", folder / f"g{stage + 1}"] if stage < STAGES - 1 else []
        files += ["--sent", folder / f"g{stage}"] if stage > 0 else []
        figures = stages.run(stage, "--rounds", 3, *files)
        good &= abs(figures["of_plan"] - 1) <= 0.1
        print(f"stage {stage}, {figures['layers']} layers, {figures['parameters'] / 1e6:.0f} M parameters: "
              f"{text_of(figures)}", flush=True)
    return good


def recompute(arguments, folder):
    first = None
    for mode in ("None", "Layers", "Full"):
        figures = Stages(arguments, folder, SMALL, microbatches=8, recompute=mode).run(1, "--rounds", 3)
        first = first or figures
        held = figures["peak"] - figures["state"]
        print(f"{mode}: {text_of(figures)}; {held / (first['peak'] - first['state']):.2f} of the memory of graphs and "
              f"{figures['tokens_per_s'] / first['tokens_per_s']:.2f} of the rate of None", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("shape", "recompute"))
    parser.add_argument("--tokens", type=int, default=2048, help="of a microbatch")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--build", default="build/release")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        parts = [part for part in (recompute, shape) if arguments.what in (None, part.__name__)]
        return 0 if all([part(arguments, pathlib.Path(temporary)) for part in parts]) else 1


if __name__ == "__main__":
    sys.exit(main())
