"""Decoding and training on a GPU, with random weights in the shapes of real models.

    python -m benchmarks.gpu [--parts PART …] [--smoke] [--tiny] [--output FILE]

No model is downloaded, because the time of a forward does not depend on the values of the weights.

- equality: the logits of the captured model against those of the plain engine, in float32 and bfloat16.
- decoding: c(k), the time of a forward with k new positions, from its layout to the readings on the host.
  c(1) is the time per token of AR. Its share of the bandwidth compares the weights read with a large copy.
- training: the recipe's own MARS step on the chat model's shape, with FlexAttention and with SDPA.
- compiled: c(1) with compiled layers. Compiling takes most of this part's time.

The file is written after each part and keeps the other parts of earlier runs. `--smoke` repeats less, for a
first look. `--tiny` runs tiny shapes on a CPU, without compiling.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median

import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel, Qwen2Config

from benchmarks import tables
from mars_demo import layout as layouts
from mars_demo.decoding.engine import Engine
from mars_demo.decoding.reading import fetch, greedy
from mars_demo.evaluation import results
from mars_demo.export.save import save_checkpoint
from mars_demo.models import device as devices
from mars_demo.models.load import load_checkpoint, outline
from mars_demo.models.runtime.captured import CapturedModel
from mars_demo.models.runtime.decoder import Decoder, TransformersDecoder
from mars_demo.recipes.smollm import NAME, SCALES
from mars_demo.training.attention import FLEX, SDPA
from mars_demo.training.config import MarsConfig
from mars_demo.training.stepwise import stepwise
from mars_demo.training.trainer import MarsTrainer

FILE = "gpu.json"
SECONDS = {"equality": 30, "decoding": 90, "training": 120, "compiled": 240}  # estimates for a large GPU
SIZES = (1, 2, 4, 8, 16)  # new positions of a forward
CONTEXT, WARM = 512, 8  # cached positions, and forwards, before the measured ones
BLOCK_SIZE, MASK_ID = 8, 2
CUDNN = f"{SDPA}, cuDNN"
use_cudnn = torch.backends.cuda.enable_cudnn_sdp  # off by default in this project
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


def timed(call: Callable[[], object], device: str, warm: int, times: int) -> float:
    """Return the median seconds of a call and of what it started on the device."""
    seconds = []
    for _ in range(warm + times):
        started = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return median(seconds[warm:])


def bandwidth(device: str) -> float:
    """Return the bytes per second that a large copy on the device reads and writes."""
    size = 2**30 if device == "cuda" else 2**24
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / timed(lambda: target.copy_(source), device, 3, 20)


def equality(config: PreTrainedConfig, device: str, dtype: torch.dtype) -> list[dict]:
    """Compare a captured model with the plain engine; in the last of three rounds, graphs are replayed."""
    model, rows = random_model(config, device, dtype), []
    for attention in (SDPA, CUDNN):
        decoder, differences, agreements = CapturedModel(model), [], []
        plain, fast = Engine(TransformersDecoder(model)), Engine(decoder)
        for layout, keep in texts():
            expected = plain.forward(layout)
            plain.commit(keep)
            use_cudnn(attention == CUDNN)
            logits = fast.forward(layout)
            fast.commit(keep)  # captures the forward
            use_cudnn(False)
            differences.append(((logits - expected).abs().max() / expected.std()).item())
            agreements += (logits.argmax(-1) == expected.argmax(-1)).tolist()
        graphs = [step.is_captured for step in decoder._steps.values()]
        row = {"dtype": str(dtype).removeprefix("torch."), "attention": attention}
        row |= {"graphs": sum(graphs), "shapes": len(graphs)}
        rows.append(row | {"difference": max(differences), "agreement": fmean(agreements)})
    return rows


def texts() -> Iterator[tuple[layouts.Layout, int]]:
    """Yield the layouts of a text, each with the number of positions to keep."""
    yield layouts.causal(range(CONTEXT)), CONTEXT
    for past in range(CONTEXT, CONTEXT + 18, 6):
        yield layouts.causal([7], past), 1
        yield layouts.window([8], BLOCK_SIZE - 1, MASK_ID, past + 1), 1
        yield layouts.verification([9], [5, 6, 7], 3, MASK_ID, past + 2), 4


def decoding(name: str, config: PreTrainedConfig, device: str, times: int) -> list[dict]:
    """Return the rows of one model without compiled layers."""
    model = decoding_model(config, device)
    ways = {"without graphs": TransformersDecoder(model), "graphs": CapturedModel(model)}
    rows = {way: costs(decoder, device, times) for way, decoder in ways.items()}
    use_cudnn(True)
    rows["graphs, cuDNN"] = costs(CapturedModel(model), device, times)
    use_cudnn(False)
    shared = {"model": name, "bytes": bytes_read(model)}
    return [shared | {"decoding": way, "costs": one} for way, one in rows.items()]


def compiled(name: str, config: PreTrainedConfig, device: str, times: int) -> list[dict]:
    """Return the row of one model with compiled layers; only AR, because every shape is compiled."""
    model = decoding_model(config, device)
    one = costs(CapturedModel(model), device, times, compiled=True)
    return [{"model": name, "bytes": bytes_read(model), "decoding": "graphs, compiled", "costs": one}]


def decoding_model(config: PreTrainedConfig, device: str) -> PreTrainedModel:
    return random_model(config, device, torch.bfloat16 if device == "cuda" else torch.float32)


def bytes_read(model: PreTrainedModel) -> int:
    """Return the bytes of the weights that a forward reads."""
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    untied = 0 if embedding is head else embedding.nbytes  # a forward reads only a few of its rows
    return sum(weight.nbytes for weight in model.parameters()) - untied


def costs(decoder: Decoder, device: str, times: int, compiled: bool = False) -> dict[int, float]:
    """Return c(k) in seconds."""
    engine = Engine(decoder)
    engine.forward(layouts.causal([1] * CONTEXT))
    engine.commit(CONTEXT)
    if compiled:  # after the prompt, so that it is compiled for one shape
        decoder._fused.hidden = torch.compile(decoder._fused.hidden)

    def forward(k: int) -> None:
        layout = layouts.window([1], k - 1, MASK_ID, engine.length)
        fetch(engine.forward(layout, 0, greedy("probability")))
        engine.commit(0)

    return {k: timed(partial(forward, k), device, WARM, times) for k in SIZES[: 1 if compiled else None]}


def training(tiny: bool, times: int) -> list[dict]:
    """Return the clean tokens per second of the recipe's MARS step with each attention, weights random."""
    source = outline("ar-tiny" if tiny else "mars-smollm2-135m")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        base = f"{folder}/base"
        size = {"packed": 1024, "compile": False, "dataloader_num_workers": 0} if tiny else {}
        model = random_model(source.model.config, "cpu", torch.float32)
        save_checkpoint(model, source.tokenizer, Path(base), block_size=None)
        for attention in (SDPA,) if tiny else (FLEX, SDPA):  # on a CPU FlexAttention has no backward pass
            settings = SCALES["full"].trainings[NAME] | size
            settings |= {
                "reference": base,
                "data": "skills",
                "save_strategy": "no",
                "max_steps": times + WARM,
            }
            config = MarsConfig(f"{folder}/{attention}", **settings)
            start = load_checkpoint(base, dtype=torch.float32, for_training=True)
            trainer = MarsTrainer(start.model, config, processing_class=start.tokenizer)
            steps = [(m.tokens, m.seconds) for m in stepwise(trainer)][WARM - 1 :]
            (before, began), (tokens, seconds) = steps[0], steps[-1]
            row = {"attention": attention, "seconds": (seconds - began) / times}
            rows.append(row | {"tokens": (tokens - before) / times})
    return rows


def measure(parts: Sequence[str], smoke: bool, tiny: bool, output: Path) -> None:
    device = "cpu" if tiny else "cuda"
    if device not in devices.devices():
        raise SystemExit("There is no CUDA device here; --tiny runs tiny shapes on a CPU.")
    if tiny and output == results.FOLDER / FILE:
        raise SystemExit("Tiny shapes need another file than that of the real ones: --output FILE.")
    machine = devices.gpu_name(torch.device(device)) or devices.processor()
    machine += f", torch {torch.__version__}, transformers {transformers.__version__}"
    measured = json.loads(output.read_text("utf-8")) if output.exists() else {}
    record = {part: measured[part] for part in SECONDS if part in measured}
    for part in parts:
        print(f"{part}: estimated at {SECONDS[part]} s on a large GPU", flush=True)
        started = time.perf_counter()
        with torch.compiler.set_stance("force_eager" if tiny else "default"):
            content = measured_part(part, device, smoke, tiny)
        seconds = round(time.perf_counter() - started, 1)
        print(f"{part}: took {seconds} s", flush=True)
        record[part] = {"command": results.command(), "machine": machine, "seconds": seconds} | content
        results.write(output, machine, record)


def measured_part(part: str, device: str, smoke: bool, tiny: bool) -> dict:
    """Return the rows of a part and the sizes behind them."""
    times = 2 if tiny else 16 if smoke else 128
    shapes = {"tiny": TINY} if tiny else SHAPES
    smallest = next(iter(shapes.values()))
    if part == "equality":
        dtypes = (torch.float32, torch.bfloat16)
        return {"rows": [row for dtype in dtypes for row in equality(smallest, device, dtype)]}
    if part == "training":
        return {"steps": min(times, 16), "rows": training(tiny, min(times, 16))}
    measure_model = {"decoding": decoding, "compiled": compiled}[part]
    return {
        "context": CONTEXT,
        "forwards": times,
        "bandwidth": bandwidth(device),
        "rows": [row for shape in shapes.items() for row in measure_model(*shape, device, times)],
    }


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3f}"


def compared(part: dict) -> str:
    """Return the table of `equality`."""
    rows = [
        {
            "dtype": row["dtype"],
            "attention": row["attention"],
            "shapes with a graph": f"{row['graphs']} of {row['shapes']}",
            "same most probable token": f"{row['agreement']:.1%}",
            "largest difference of logits ÷ their deviation": f"{row['difference']:.1e}",
        }
        for row in part["rows"]
    ]
    reference = "reference: the plain engine's logits in the same dtype, without cuDNN's attention"
    return tables.shown(rows) + tables.source(part, reference)


def decoded(part: dict) -> str:
    """Return the table of `decoding` or `compiled`."""
    rows = [
        {
            "model": row["model"],
            "decoding": row["decoding"],
            "AR, share of bandwidth": f"{row['bytes'] / row['costs']['1'] / part['bandwidth']:.0%}",
            **{f"c({k}), ms": milliseconds(seconds) for k, seconds in row["costs"].items()},
        }
        for row in part["rows"]
    ]
    return tables.shown(rows) + tables.source(
        part,
        f"a copy moves {part['bandwidth'] / 1e9:.0f} GB per second",
        f"{part['context']} cached positions, medians of {part['forwards']} forwards",
    )


def trained(part: dict) -> str:
    """Return the table of `training`."""
    rows = [
        {
            "attention": row["attention"],
            "ms per MARS step": milliseconds(row["seconds"]),
            "clean tokens per second": f"{row['tokens'] / row['seconds']:.0f}",
        }
        for row in part["rows"]
    ]
    return tables.shown(rows) + tables.source(part, f"means of {part['steps']} steps")


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    if measured is None:
        return "Not measured yet; `python -m benchmarks.gpu` measures it on a CUDA device."
    shown = {"decoding": decoded, "compiled": decoded, "training": trained, "equality": compared}
    return "\n\n".join(show(measured[part]) for part, show in shown.items() if part in measured)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure decoding and training on a GPU.")
    estimates = ", ".join(f"{part} {seconds}" for part, seconds in SECONDS.items())
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=SECONDS,
        default=[*SECONDS],
        help=f"parts to measure, by default all; estimated seconds on a large GPU: {estimates}",
    )
    parser.add_argument("--smoke", action="store_true", help="repeat less, for a first look")
    parser.add_argument("--tiny", action="store_true", help="run tiny shapes on a CPU, to test the command")
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
