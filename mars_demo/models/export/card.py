"""The model card of a trained checkpoint, from the files next to its weights."""

import json
from pathlib import Path
from typing import Any

from pandas import DataFrame

from mars_demo.core.markdown import table

_TITLES = {
    "ar": "autoregressive fine-tuning",
    "mars": "MARS (Mask AutoRegreSsion)",
    "block-diffusion": "block diffusion",
}
_USE = """```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(FOLDER)
tokenizer = AutoTokenizer.from_pretrained(FOLDER)
messages = [{"role": "user", "content": "..."}]
ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")["input_ids"]
output = model.generate(ids, max_new_tokens=128)  # one token per forward, the ordinary way
"""
_USE_MARS = """# Several tokens per forward; tau is the lowest score of an accepted token.
output = model.generate(ids, max_new_tokens=128, tau=0.95, custom_generate=FOLDER, trust_remote_code=True)
"""
_USE_VLLM = """

vLLM serves it with `PYTHONPATH=FOLDER vllm serve FOLDER --config FOLDER/mars_vllm/serve.yaml`.
Its answers are those of one token per forward; `"vllm_xargs": {"tau": 0.95}` in a request accepts tokens
from this score on."""
_USE_PARTS = """```python
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.load import load_checkpoint

checkpoint = load_checkpoint(FOLDER)
print(decode(checkpoint, "...", Request("mars", tau=0.95)).finish().text)
```

llama.cpp reads the same files, one token per forward: `llama-cli -m FOLDER/{first}`.
"""


def write(folder: Path) -> None:
    """Write `README.md` from `recipe.json` and, if there is one, the `results.json` of an evaluation."""
    recipe = json.loads((folder / "recipe.json").read_text("utf-8"))
    objective, attribution = recipe["objective"], recipe.pop("attribution", None)
    trainings = recipe.pop("trainings", [])
    license_line = f"license: {recipe['license']}\n" if "license" in recipe else ""
    parts = [
        f"---\nlibrary_name: transformers\n{license_line}base_model: {recipe['base']}\n---",
        f"# {folder.resolve().name}",
        f"{recipe['base']} after {_TITLES[objective]}. It is an ordinary causal language model with the "
        "architecture and size of its base.",
        *(["## Licence and attribution", attribution] if attribution else []),
        "## Use",
        _use(folder),
        "## Training",
        *([_in_turn(trainings)] if trainings else []),
        table(DataFrame([{"setting": name, "value": _shown(value)} for name, value in recipe.items()])),
    ]
    results = folder / "results.json"
    if results.exists():
        parts += ["## Measured", _measured(json.loads(results.read_text("utf-8")))]
    (folder / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _use(folder: Path) -> str:
    quantized = sorted(file.name for file in folder.glob("*.gguf"))
    if len(quantized) > 1:  # transformers reads one file
        return _USE_PARTS.format(first=quantized[0]).rstrip()
    use = _USE.replace("(FOLDER)", f'(FOLDER, gguf_file="{quantized[0]}")', 1) if quantized else _USE
    if not (folder / "custom_generate").is_dir():
        return use + "```"
    return f"{use}{_USE_MARS}```{_USE_VLLM}"


def _in_turn(trainings: list[dict[str, Any]]) -> str:
    rows = table(DataFrame([{name: _shown(value) for name, value in one.items()} for one in trainings]))
    return f"Consecutive training runs; the settings below are those of the last one.\n\n{rows}"


def _measured(results: dict[str, Any]) -> str:
    rows = [
        {
            "held-out task": row["task"],
            "τ": _shown(row["tau"]),
            "prompts": row["n"],
            "accuracy": f"{row['accuracy']:.1%}",
            "tokens per forward": f"{row['tokens_per_forward']:.2f}",
        }
        for row in results["rows"]
    ]
    return f"Mode {results['mode']}, greedy.\n\n{table(DataFrame(rows))}"


def _shown(value: object) -> object:
    return f"{value:g}" if isinstance(value, float) else value
