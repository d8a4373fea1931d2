"""Wall-clock at batch 1 on this machine, as ratios from one run.

    python -m benchmarks.speed [--model mars-tiny] [--prompts 36] [--held-out FILE]

Every method answers every prompt; methods take turns prompt by prompt, so that a slow moment of the
machine falls on all of them. Prints a Markdown table of the time relative to `ar`.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from mars_demo import checkpoints, distillation, layout, tasks
from mars_demo.chat import encode_prompt
from mars_demo.checkpoints import Checkpoint
from mars_demo.decoding import decode
from mars_demo.engine import Engine

MAX_NEW_TOKENS = 160


def transformers_generate(checkpoint: Checkpoint, prompt: str) -> tuple[int, int]:
    ids = torch.tensor([encode_prompt(checkpoint.tokenizer, prompt)], device=checkpoint.model.device)
    output = checkpoint.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=MAX_NEW_TOKENS,
        eos_token_id=sorted(checkpoint.end_ids),
        pad_token_id=checkpoint.tokenizer.pad_token_id,
    )
    tokens = output.shape[1] - ids.shape[1]
    return tokens, tokens


def unrecorded(checkpoint: Checkpoint, prompt: str, slots: int, tau: float) -> tuple[int, int]:
    """The sliding window with nothing kept but its tokens: what recording is measured against."""
    engine, answer, forwards = Engine(checkpoint.model), [], 0
    new = encode_prompt(checkpoint.tokenizer, prompt)
    while len(answer) < MAX_NEW_TOKENS:
        masks = min(slots, MAX_NEW_TOKENS - len(answer)) - 1
        logits = engine.forward(
            layout.window(new, masks, checkpoint.mask_id, engine.length), first=len(new) - 1
        )
        engine.commit(len(new))
        forwards += 1
        best = logits.softmax(-1).max(-1)
        new = []
        for token, confidence in zip(best.indices.tolist(), best.values.tolist()):
            if new and confidence < tau:
                break
            new.append(token)
            if token in checkpoint.end_ids:
                return len(answer) + len(new), forwards
        answer += new
    return len(answer), forwards


def recorded(checkpoint: Checkpoint, prompt: str, **settings) -> tuple[int, int]:
    run = decode(checkpoint, prompt, max_new_tokens=MAX_NEW_TOKENS, **settings).finish()
    return run.tokens, run.forwards


def methods(checkpoint: Checkpoint) -> dict[str, Callable[[str], tuple[int, int]]]:
    def ours(**settings):
        return lambda prompt: recorded(checkpoint, prompt, **settings)

    largest = checkpoint.largest_window
    chosen = {
        "transformers generate": lambda prompt: transformers_generate(checkpoint, prompt),
        "ar": ours(mode="ar"),
        "mars τ = 0.95, nothing recorded": lambda p: unrecorded(checkpoint, p, largest, 0.95),
        "mars τ = 0.95": ours(mode="mars", tau=0.95),
    }
    for slots in (4, 5, 6, 7, largest):
        for linear in (False, True):
            name = f"lossless, {slots - 1} drafts, {'linear' if linear else 'grouped'}"
            chosen[name] = ours(mode="lossless", window=slots, linear=linear)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--prompts", type=int, default=36)
    parser.add_argument("--held-out", help="a file of prompts instead of those of the built-in worlds")
    arguments = parser.parse_args()
    checkpoint = checkpoints.load(arguments.model)
    if arguments.held_out:
        prompts = list(itertools.islice(distillation.prompts_from(arguments.held_out), arguments.prompts))
    else:
        per_task = max(1, arguments.prompts // len(tasks.TASKS))
        prompts = [e.prompt for name in tasks.TASKS for e in tasks.held_out(name, per_task)]
    chosen = methods(checkpoint)
    for method in chosen.values():  # the first call of a shape pays for its set-up
        method(prompts[0])
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    counts = {name: [0, 0] for name in chosen}
    for prompt in prompts:
        for name, method in chosen.items():
            started = time.perf_counter()
            tokens, forwards = method(prompt)
            seconds[name].append(time.perf_counter() - started)
            counts[name][0] += tokens
            counts[name][1] += forwards
    device = checkpoint.model.device.type
    print(
        f"{checkpoint.name}, {str(checkpoint.model.dtype).removeprefix('torch.')}, {device}, "
        f"{torch.get_num_threads()} threads, {_processor()}, {len(prompts)} held-out prompts\n"
    )
    print("| method | tokens per forward | time ÷ ar | faster than ar | median per prompt |")
    print("|---|---|---|---|---|")
    base = sum(seconds["ar"])
    for name, (tokens, forwards) in counts.items():
        ratio = sum(seconds[name]) / base
        print(
            f"| {name} | {tokens / forwards:.2f} | {ratio:.2f} | {1 / ratio:.2f}× "
            f"| {median(seconds[name]) * 1000:.0f} ms |"
        )
    cost = sum(seconds["mars τ = 0.95"]) / sum(seconds["mars τ = 0.95, nothing recorded"]) - 1
    print(f"\nRecording every slot costs {cost:.1%} of the decoding time.")


def _processor() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    info = Path("/proc/cpuinfo")
    names = info.read_text().splitlines() if info.exists() else []
    return next((n.split(":")[1].strip() for n in names if n.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
