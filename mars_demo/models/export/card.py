"""Model cards of trained and of exported checkpoints, from the files next to their weights."""

import json
import shutil
from pathlib import Path
from typing import Any

from huggingface_hub import metadata_save
from pandas import DataFrame

from mars_demo.core.links import PAPER
from mars_demo.core.markdown import table
from mars_demo.core.names import is_hub_id
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.facts import beside, front_matter

# Front matter that a trained model takes over from its base.
_INHERITED = ("base_model", "language", "license", "license_name", "license_link")
_FRONT = (*_INHERITED, "datasets")

_TITLES = {
    "ar": "autoregressive fine-tuning",
    "mars": f"MARS (Mask AutoRegreSsion, [arXiv 2604.07023]({PAPER}))",
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


def record(folder: Path, base: Checkpoint, recipe: dict[str, Any]) -> None:
    """Write the recipe of a model trained from `base`, and its card; drop its previous measurements."""
    front = {name: text for name, text in front_matter(base.source).items() if name in _INHERITED}
    front = {name: text for name, text in front.items() if _is_text(text)}  # YAML also has dates
    if is_hub_id(base.name):
        front["base_model"] = base.name
    elif not is_hub_id(str(front.get("base_model"))):
        front.pop("base_model", None)
    if datasets := [part for part in str(recipe["data"]).split("+") if is_hub_id(part)]:
        front["datasets"] = datasets
    (folder / "results.json").unlink(missing_ok=True)
    text = json.dumps({"base": base.name} | front | recipe, indent=1) + "\n"
    (folder / "recipe.json").write_text(text, encoding="utf-8")
    write(folder)


def _is_text(value: object) -> bool:
    """Return whether a value of a front matter is a string or a list of strings."""
    return all(isinstance(one, str) for one in (value if isinstance(value, list) else [value]))


def write(folder: Path) -> None:
    """Write `README.md` from `recipe.json` and, if there is one, the `results.json` of an evaluation."""
    recipe = json.loads((folder / "recipe.json").read_text("utf-8"))
    objective, attribution = recipe["objective"], recipe.pop("attribution", None)
    trainings = recipe.pop("trainings", [])
    front = {name: recipe.pop(name) for name in _FRONT if name in recipe}
    if "base_model" in front:  # the hub would take GGUF files for a quantization of the base
        front["base_model_relation"] = "finetune"
    parts = [
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
    (folder / "README.md").write_text("\n" + "\n\n".join(parts) + "\n", encoding="utf-8")
    _save_front(folder, objective, front)


def write_exported(checkpoint: Checkpoint, folder: Path) -> None:
    """Write the card of an exported checkpoint: its own, with the tags of the new folder."""
    for name in ("LICENSE", "README.md", "recipe.json", "results.json"):
        if checkpoint.source and (file := beside(checkpoint.source, name)).exists():
            shutil.copy(file, folder)
    if (folder / "recipe.json").exists():
        write(folder)
        return
    if not (readme := folder / "README.md").exists():
        readme.write_text(f"\n# {folder.resolve().name}\n\n{_use(folder)}\n", encoding="utf-8")
    _save_front(folder, checkpoint.objective, front_matter(folder))


def _save_front(folder: Path, objective: str, front: dict[str, Any]) -> None:
    """Write front matter, with the fields by which the hub finds a model, over that of `README.md`."""
    has_code = (folder / "custom_generate" / "generate.py").is_file()
    own = [*(["custom_generate"] if has_code else []), *(["mars"] if objective == "mars" else [])]
    tags = front.get("tags") or []
    tags = tags if isinstance(tags, list) else [tags]
    defaults = {"library_name": "transformers", "pipeline_tag": "text-generation"}
    tagged = {"tags": [*tags, *(tag for tag in own if tag not in tags)]}
    metadata_save(folder / "README.md", defaults | front | tagged)


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
