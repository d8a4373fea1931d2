"""Decoding on a GPU, with random weights in the shapes of real models.

    python -m benchmarks.gpu [--tiny] [--output FILE]

No model is downloaded, because the time of a forward does not depend on the values of the weights. The
figures are c(k): the time of a forward with k new positions, from its layout to the readings on the host.

`--tiny` runs tiny shapes on a CPU.
"""

from pathlib import Path

import torch
import transformers
from torch.utils.benchmark import Timer
from transformers import AutoModelForCausalLM, Qwen2Config

from benchmarks import report
from mars_demo.core import layout as layouts
from mars_demo.core.acceptance import Acceptance
from mars_demo.decoding import reading
from mars_demo.evaluation import results
from mars_demo.models import device as devices
from mars_demo.models.runtime.decoder import Decoder, TransformersDecoder
from mars_demo.models.runtime.engine import Engine
from mars_demo.training.attention import SDPA

FILE = "gpu.json"
SIZES = (1, 2, 4, 8, 16)  # new positions of a forward
CONTEXT = 512  # cached positions before the measured ones
MASK_ID = 2
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


def random_decoder(config: Qwen2Config, device: str) -> Decoder:
    """Return the decoder of a random model."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation=SDPA, trust_remote_code=False
        ).eval()
    return TransformersDecoder(model)


def costs(decoder: Decoder, seconds: float) -> dict[int, float]:
    """Return c(k) in seconds: medians over forwards that take at least `seconds` together."""
    engine = Engine(decoder)
    engine.forward(layouts.causal([1] * CONTEXT))
    engine.commit(CONTEXT)

    def forward(k: int) -> None:
        layout = layouts.window([1], k - 1, MASK_ID, engine.length)
        reading.fetch(reading.measure(engine.forward(layout), Acceptance()))
        engine.commit(0)

    timers = {k: Timer("forward(k)", globals={"forward": forward, "k": k}) for k in SIZES}
    return {k: timer.blocked_autorange(min_run_time=seconds).median for k, timer in timers.items()}


def measure(tiny: bool, output: Path) -> None:
    """Write the file after each model, because a GPU may be lent for minutes."""
    device = "cpu" if tiny else "cuda"
    if device not in devices.devices():
        raise SystemExit("There is no CUDA device here; --tiny runs tiny shapes on a CPU.")
    machine = devices.gpu_name(torch.device(device)) or devices.processor()
    machine += f", torch {torch.__version__}, transformers {transformers.__version__}"
    seconds, shapes = (0.01, {"tiny": TINY}) if tiny else (2.0, SHAPES)
    rows = []
    for name, config in shapes.items():
        rows.append({"model": name, "costs": costs(random_decoder(config, device), seconds)})
        results.write(output, machine, {"context": CONTEXT, "seconds": seconds, "rows": rows})


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    if measured is None:
        return "Not measured yet; `python -m benchmarks.gpu` measures it on a CUDA device."
    rows = [
        {"model": row["model"]}
        | {f"c({k}), ms": f"{1000 * seconds:.3f}" for k, seconds in row["costs"].items()}
        for row in measured["rows"]
    ]
    facts = f"{measured['context']} cached positions, medians over {measured['seconds']:g} s"
    return report.shown(rows) + report.source(measured, facts)


if __name__ == "__main__":
    report.run(measure, table, FILE, tiny=False)
