"""Decoding one text on a GPU, with CUDA graphs and without, on random weights in the shapes of real models.

    python -m benchmarks.gpu_decode [--smoke] [--output FILE]

Needs torch and transformers but no model's files: how long a forward takes does not depend on what the
weights are. A forward is measured as a run makes it, from its layout to the readings on the host. Measured,
for each model, with graphs and without:

- the milliseconds per token of AR decoding;
- the bytes of the weights that a token reads, over that time, as a share of the bandwidth that a large copy
  reaches on the same device;
- c(k), the milliseconds of a forward with k new positions.

`--smoke` runs a tiny model, also on a CPU, where the fixed buffers are used without graphs.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import transformers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, PreTrainedModel, Qwen2Config

from benchmarks import tables
from mars_demo.decoding import layout as layouts
from mars_demo.decoding.engine import Engine
from mars_demo.decoding.reading import fetch, greedy
from mars_demo.evaluation import results
from mars_demo.models import device as devices
from mars_demo.models.captured import CapturedModel

FILE = "gpu-decode.json"
SIZES = (1, 2, 5, 9, 17)  # new positions of a forward
CONTEXT = 512  # cached positions before the first measured forward
WARM, TOKENS = 8, 128  # forwards before a measurement, and in it
COPIED = 2**30  # bytes
SHAPES = {
    "Qwen2.5-0.5B": Qwen2Config(
        vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
        num_attention_heads=14, num_key_value_heads=2, max_position_embeddings=32768,
        tie_word_embeddings=True,
    ),
    "Qwen2.5-7B": Qwen2Config(
        vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
        num_attention_heads=28, num_key_value_heads=4, max_position_embeddings=32768,
    ),
    "Llama-2-7B": LlamaConfig(
        vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32,
        num_attention_heads=32, num_key_value_heads=32, max_position_embeddings=4096,
    ),
}  # fmt: skip
TINY = LlamaConfig(
    vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=2048,
)  # fmt: skip


def random_model(config: PreTrainedConfig, device: str, dtype: torch.dtype) -> PreTrainedModel:
    """Random weights, made where they compute."""
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation="sdpa", trust_remote_code=False
        )
    return model.eval()


def weights_read(model: PreTrainedModel) -> int:
    """Bytes of the weights that a forward of one position reads: all but the rows of an embedding that is
    no head too."""
    read = sum(weight.nbytes for weight in model.parameters())
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    return read if embedding is head else read - embedding.nbytes


def bandwidth(device: str, size: int) -> float:
    """Bytes per second that a large copy on the device reads and writes."""
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)
        if source.is_cuda:
            torch.cuda.synchronize()

    return 2 * size / timed(copy, 3, 20)


def timed(call: Callable[[], object], warm: int, times: int) -> float:
    """Median seconds of a call that ends with the host waiting for the device."""
    for _ in range(warm):
        call()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return median(seconds)


def forward(engine: Engine, k: int, keep: int) -> None:
    """A forward with k new positions, read and committed."""
    layout = layouts.window([1], k - 1, 2, engine.length)
    fetch(engine.forward(layout, 0, greedy("probability")))
    engine.commit(keep)


def seconds(model: PreTrainedModel | CapturedModel, times: int) -> tuple[float, dict[int, float]]:
    """Seconds per token of AR decoding, and of a forward with k new positions for each k of `SIZES`."""
    engine = Engine(model)
    engine.forward(layouts.causal([1] * CONTEXT))
    engine.commit(CONTEXT)
    per_token = timed(lambda: forward(engine, 1, keep=1), WARM, times)
    return per_token, {k: timed(lambda k=k: forward(engine, k, keep=0), WARM, times) for k in SIZES}


def rows(name: str, config: PreTrainedConfig, device: str, times: int) -> list[dict]:
    """Measure a model without graphs and with them."""
    model = random_model(config, device, torch.bfloat16 if device == "cuda" else torch.float32)
    ways = {"eager": model, "graphs" if device == "cuda" else "fixed buffers": CapturedModel(model)}
    found = []
    for way, decoder in ways.items():
        per_token, costs = seconds(decoder, times)
        row = {"model": name, "decoding": way, "seconds_per_token": per_token, "costs": costs}
        found.append(row | {"bytes": weights_read(model)})
    return found


def measure(device: str, smoke: bool, output: Path) -> None:
    machine = devices.gpu_name(torch.device(device)) or devices.processor()
    machine += f", torch {torch.__version__}, transformers {transformers.__version__}"
    record = {
        "context": CONTEXT,
        "tokens": 4 if smoke else TOKENS,
        "bandwidth": bandwidth(device, COPIED // 64 if smoke else COPIED),
        "rows": [],
    }
    for name, config in ({"tiny": TINY} if smoke else SHAPES).items():
        record["rows"] += rows(name, config, device, record["tokens"])
        results.write(output, machine, record)


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    if measured is None:
        return "Not measured yet; `python -m benchmarks.gpu_decode` measures it on a CUDA device."
    shown = [
        {
            "model": row["model"],
            "decoding": row["decoding"],
            "ms per token": f"{1000 * row['seconds_per_token']:.3f}",
            "share of bandwidth": f"{row['bytes'] / row['seconds_per_token'] / measured['bandwidth']:.1%}",
            **{f"c({k})": f"{1000 * cost:.3f}" for k, cost in row["costs"].items()},
        }
        for row in measured["rows"]
    ]
    return tables.shown(shown) + tables.source(
        measured,
        f"a copy moves {measured['bandwidth'] / 1e9:.0f} GB per second",
        f"{measured['context']} positions of context, medians of {measured['tokens']} forwards",
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true", help="a tiny model, to see that everything runs")
    parser.add_argument("--output", type=Path, default=results.FOLDER / FILE)
    arguments = parser.parse_args()
    device = devices.best()
    if device != "cuda" and not arguments.smoke:
        parser.error("There is no CUDA device here; --smoke runs a tiny model.")
    measure(device, arguments.smoke, arguments.output)
    print(table(arguments.output.resolve()))


if __name__ == "__main__":
    main()
