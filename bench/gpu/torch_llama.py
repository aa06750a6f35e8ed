#!/usr/bin/env python3
"""Trains the model of bench/gpu/llama-1b.yaml as a plain PyTorch script does: transformers' model, SDPA, autocast to
bfloat16 over float32 weights, fused AdamW, clipping. Prints JSON: the median of tokens per second over steps, and the
card's rate of bfloat16 products.

Usage: torch_llama.py [--compile] [--batch SEQUENCES] [--steps N]"""
import argparse
import json
import statistics
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

MICROBATCH, LENGTH, VOCABULARY = 4, 2048, 32000


def product_rate() -> float:
    """FLOP per second of a product of two matrices [8192, 8192] in bfloat16."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(20):
        a @ b
    end.record()
    end.synchronize()
    return 20 * 2 * 8192**3 / (begin.elapsed_time(end) / 1e3)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=2048, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4,
                         intermediate_size=5632, vocab_size=VOCABULARY, max_position_embeddings=LENGTH, use_cache=False)
    config._attn_implementation = "sdpa"
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=0.1, betas=(0.9, 0.95), fused=True)
    forward = torch.compile(model) if args.compile else model
    microbatches = args.batch // MICROBATCH
    rates, loss = [], None
    for step in range(args.steps):
        torch.cuda.synchronize()
        begin = time.monotonic()
        for _ in range(microbatches):
            ids = torch.randint(VOCABULARY, (MICROBATCH, LENGTH), device="cuda")
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = forward(input_ids=ids, labels=ids).loss / microbatches
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        seconds = time.monotonic() - begin
        if step > 1 or args.steps < 3:
            rates.append(args.batch * LENGTH / seconds)
    print(json.dumps({"compiled": args.compile, "parameters": parameters, "batch": args.batch,
                      "tokens_per_second": statistics.median(rates), "memory_gib": torch.cuda.max_memory_allocated() / 2**30,
                      "product_flops": product_rate()}))


if __name__ == "__main__":
    main()
