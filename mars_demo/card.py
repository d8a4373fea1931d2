"""The model card of a trained checkpoint, written from the files that lie beside its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
_USE_MARS = """# Several tokens per forward; tau is the confidence from which on a token is accepted.
output = model.generate(ids, max_new_tokens=128, tau=0.95, custom_generate=FOLDER, trust_remote_code=True)
"""


def write(folder: Path) -> None:
    """Write `README.md` from `recipe.json` and, if it is there, `results.json` of an evaluation.

    A `license` in the recipe, an SPDX identifier, goes into the front matter, and its `attribution` gets a
    section.
    """
    recipe = json.loads((folder / "recipe.json").read_text("utf-8"))
    objective, attribution = recipe["objective"], recipe.pop("attribution", None)
    packed = next((file.name for file in folder.glob("*.gguf")), None)
    use = _USE.replace("(FOLDER)", f'(FOLDER, gguf_file="{packed}")', 1) if packed else _USE
    license_line = f"license: {recipe['license']}\n" if "license" in recipe else ""
    parts = [
        f"---\nlibrary_name: transformers\n{license_line}base_model: {recipe['base']}\n---",
        f"# {folder.resolve().name}",
        f"{recipe['base']} after {_TITLES[objective]}: an ordinary causal language model of the same "
        "architecture, with no more parameters than its base.",
        *(["## Licence and attribution", attribution] if attribution else []),
        "## Use",
        use + (_USE_MARS if objective == "mars" else "") + "```",
        "## Training",
        _table(["setting", "value"], [[name, _shown(value)] for name, value in recipe.items()]),
    ]
    results = folder / "results.json"
    if results.exists():
        parts += ["## Measured", _measured(json.loads(results.read_text("utf-8")))]
    (folder / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _measured(results: dict[str, Any]) -> str:
    rows = [
        [
            row["task"],
            _shown(row["tau"]),
            row["n"],
            f"{row['accuracy']:.1%}",
            f"{row['tokens_per_forward']:.2f}",
        ]
        for row in results["rows"]
    ]
    table = _table(["held-out task", "τ", "prompts", "accuracy", "tokens per forward"], rows)
    return f"Mode {results['mode']}, greedy.\n\n{table}"


def _table(head: list[str], rows: list[list[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', '/') for cell in line)} |" for line in lines)


def _shown(value: object) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
