"""Decoding on a GPU, with random weights in the shapes of real models.

    python -m benchmarks.gpu [--tiny] [--output FILE]

No model is downloaded, because the time of a forward does not depend on the values of the weights. For
training on a GPU: `python -m benchmarks.training`.

- equality: the logits of the captured model against those of the plain engine, in float32 and bfloat16.
- decoding: c(k), the time of a forward with k new positions, from its layout to the readings on the host;
  of compiled layers, which come last because compiling takes minutes, only c(1), the time per token of AR.

`--tiny` runs tiny shapes on a CPU, without compiling.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import fmean, median

import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel, Qwen2Config

from benchmarks import report
from mars_demo.core import layout as layouts
from mars_demo.decoding.reading import fetch, greedy
from mars_demo.evaluation import results
from mars_demo.models import device as devices
from mars_demo.models.runtime.captured import CapturedModel
from mars_demo.models.runtime.decoder import Decoder, TransformersDecoder
from mars_demo.models.runtime.engine import Engine
from mars_demo.training.attention import SDPA

FILE = "gpu.json"
SIZES = (1, 2, 4, 8, 16)  # new positions of a forward
CONTEXT, WARM = 512, 8  # cached positions, and forwards, before the measured ones
BLOCK_SIZE, MASK_ID = 8, 2
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
}  # fmt: skip
TINY = Qwen2Config(
    vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2,
)  # fmt: skip


def random_model(config: PreTrainedConfig, device: str, dtype: torch.dtype) -> PreTrainedModel:
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation=SDPA, trust_remote_code=False
        )
        return model.eval()


def timed(call: Callable[[], object], device: str, times: int) -> float:
    """Return the median seconds of a call and of what it started on the device."""
    seconds = []
    for _ in range(WARM + times):
        started = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return median(seconds[WARM:])


def equality(config: PreTrainedConfig, device: str, dtype: torch.dtype) -> dict:
    """Compare a captured model with the plain engine; in the last of three rounds, graphs are replayed."""
    model = random_model(config, device, dtype)
    decoder, differences, agreements = CapturedModel(model), [], []
    plain, fast = Engine(TransformersDecoder(model)), Engine(decoder)
    for layout, keep in texts():
        expected, logits = plain.forward(layout), fast.forward(layout)
        plain.commit(keep)
        fast.commit(keep)  # captures the forward
        differences.append(((logits - expected).abs().max() / expected.std()).item())
        agreements += (logits.argmax(-1) == expected.argmax(-1)).tolist()
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "graphs": sum(step.is_captured for step in decoder._steps.values()),
        "shapes": len(decoder._steps),
        "difference": max(differences),
        "agreement": fmean(agreements),
    }


def texts() -> Iterator[tuple[layouts.Layout, int]]:
    """Yield the layouts of a text, each with the number of positions to keep."""
    yield layouts.causal(range(CONTEXT)), CONTEXT
    for past in range(CONTEXT, CONTEXT + 18, 6):
        yield layouts.causal([7], past), 1
        yield layouts.window([8], BLOCK_SIZE - 1, MASK_ID, past + 1), 1
        yield layouts.verification([9], [5, 6, 7], 3, MASK_ID, past + 2), 4


def decoding(name: str, config: PreTrainedConfig, device: str, times: int, compiled: bool) -> list[dict]:
    """Return the rows of one model."""
    model = random_model(config, device, torch.bfloat16 if device == "cuda" else torch.float32)
    ways = {"without graphs": TransformersDecoder(model), "graphs": CapturedModel(model)}
    if compiled:
        ways = {"graphs, compiled": CapturedModel(model)}
    return [
        {"model": name, "decoding": way, "costs": costs(decoder, device, times, compiled)}
        for way, decoder in ways.items()
    ]


def costs(decoder: Decoder, device: str, times: int, compiled: bool) -> dict[int, float]:
    """Return c(k) in seconds; of compiled layers only c(1), because every shape is compiled."""
    engine = Engine(decoder)
    engine.forward(layouts.causal([1] * CONTEXT))
    engine.commit(CONTEXT)
    if compiled:  # after the prompt, so that it is compiled for one shape
        decoder._fused.hidden = torch.compile(decoder._fused.hidden)

    def forward(k: int) -> None:
        layout = layouts.window([1], k - 1, MASK_ID, engine.length)
        fetch(engine.forward(layout, 0, greedy("probability")))
        engine.commit(0)

    return {k: timed(partial(forward, k), device, times) for k in SIZES[: 1 if compiled else None]}


def measure(tiny: bool, output: Path) -> None:
    """Write the file after each part, because a GPU may be lent for minutes."""
    device = "cpu" if tiny else "cuda"
    if device not in devices.devices():
        raise SystemExit("There is no CUDA device here; --tiny runs tiny shapes on a CPU.")
    if tiny and output == results.FOLDER / FILE:
        raise SystemExit("Tiny shapes need another file than that of the real ones: --output FILE.")
    machine = devices.gpu_name(torch.device(device)) or devices.processor()
    machine += f", torch {torch.__version__}, transformers {transformers.__version__}"
    times, shapes = (2, {"tiny": TINY}) if tiny else (128, SHAPES)
    smallest = next(iter(shapes.values()))
    record = {"context": CONTEXT, "forwards": times}
    record["equality"] = [equality(smallest, device, dtype) for dtype in (torch.float32, torch.bfloat16)]
    record["decoding"] = []
    for compiled in (False, True):
        for shape in shapes.items():
            with torch.compiler.set_stance("force_eager" if tiny else "default"):
                record["decoding"] += decoding(*shape, device, times, compiled)
            results.write(output, machine, record)


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    if measured is None:
        return "Not measured yet; `python -m benchmarks.gpu` measures it on a CUDA device."
    decoded = [
        {
            "model": row["model"],
            "decoding": row["decoding"],
            **{f"c({k}), ms": f"{1000 * seconds:.3f}" for k, seconds in row["costs"].items()},
        }
        for row in measured["decoding"]
    ]
    compared = [
        {
            "dtype": row["dtype"],
            "shapes with a graph": f"{row['graphs']} of {row['shapes']}",
            "same most probable token": f"{row['agreement']:.1%}",
            "largest difference of logits ÷ their deviation": f"{row['difference']:.1e}",
        }
        for row in measured["equality"]
    ]
    facts = f"{measured['context']} cached positions, medians of {measured['forwards']} forwards"
    return f"{report.shown(decoded)}\n\n{report.shown(compared)}{report.source(measured, facts)}"


if __name__ == "__main__":
    report.run(measure, table, FILE, tiny=False)
