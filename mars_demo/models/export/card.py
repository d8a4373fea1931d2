"""Model cards of trained and of exported checkpoints, from the files next to their weights."""

import json
import os
import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml, metadata_save
from jinja2 import Environment, FileSystemLoader
from pandas import DataFrame

from mars_demo.core.links import PAPER
from mars_demo.core.markdown import table
from mars_demo.core.names import gguf_file, is_hub_id, parts
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.facts import beside, front_matter

# Front matter that a trained model takes over from its base.
_INHERITED = ("base_model", "language", "license", "license_name", "license_link")
_FRONT = (*_INHERITED, "datasets")
_MADE = ("tasks", "skills")  # the names of data that this project generates begin so
_EVAL_RESULTS = ".eval_results"  # read by the hub

_TITLES = {
    "ar": "autoregressive fine-tuning",
    "mars": f"MARS (Mask AutoRegreSsion, [arXiv 2604.07023]({PAPER}))",
    "block-diffusion": "block diffusion",
}
_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def write_recipe(folder: Path, base: Checkpoint, recipe: dict[str, Any]) -> None:
    """Write the recipe of a model trained from `base`, and its card; drop its previous measurements."""
    front = {name: text for name, text in front_matter(base.source).items() if name in _INHERITED}
    if is_hub_id(base.name):
        front["base_model"] = base.name
    elif not is_hub_id(str(front.get("base_model"))):
        front.pop("base_model", None)
    if datasets := [part for part in str(recipe.get("data", "")).split("+") if is_hub_id(part)]:
        front["datasets"] = datasets
    (folder / "results.json").unlink(missing_ok=True)
    shutil.rmtree(folder / _EVAL_RESULTS, ignore_errors=True)
    recipe = {name: value for name, value in recipe.items() if name != "limitations"}  # measured, too
    text = json.dumps({"base": base.name} | front | recipe, indent=1, default=str) + "\n"  # YAML has dates
    (folder / "recipe.json").write_text(text, encoding="utf-8")
    write_model_card(folder)


def write_model_card(folder: Path) -> None:
    """Write `README.md` from `recipe.json` and, if there is one, the `results.json` of an evaluation.

    Results on a benchmark of the hub are also written as the hub reads them.
    """
    recipe = json.loads((folder / "recipe.json").read_text("utf-8"))
    trainings = recipe.pop("trainings", [])
    said = {name: recipe.pop(name, None) for name in ("attribution", "limitations")}
    front = {name: recipe.pop(name) for name in _FRONT if name in recipe}
    if "base_model" in front:  # the hub would take GGUF files for a quantization of the base
        front["base_model_relation"] = "finetune"
    if all(part.startswith(_MADE) for part in str(recipe.get("data") or "").split("+")):
        front["tags"] = ["synthetic"]
    file = folder / "results.json"
    results = json.loads(file.read_text("utf-8")) if file.exists() else {}
    if "benchmark" in results:
        _write_eval_results(folder / _EVAL_RESULTS, results)
    _write(
        folder,
        recipe=recipe,
        title=_TITLES[recipe["objective"]],
        **said,
        trainings=_table(trainings),
        settings=_table([{"setting": name, "value": value} for name, value in recipe.items()]),
        results=results,
        rows=_table([_measured(row) for row in results.get("rows", [])]),
    )
    _save_front(folder, recipe["objective"], front)


def write_exported(checkpoint: Checkpoint, folder: Path) -> None:
    """Write the card of an exported checkpoint: its own, with the tags of the new folder."""
    for name in ("LICENSE", "README.md", "recipe.json", "results.json"):
        if checkpoint.source and (file := beside(checkpoint.source, name)).exists():
            shutil.copy(file, folder)
    if (folder / "recipe.json").exists():
        write_model_card(folder)
        return
    if not (folder / "README.md").exists():
        _write(folder)
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


def _write(folder: Path, **facts: Any) -> None:
    """Write the text of `README.md`: how to use the files of the folder, and facts of a training."""
    quantized = gguf_file(str(folder))
    text = _ENVIRONMENT.get_template("card.md.jinja").render(
        name=folder.resolve().name,
        quantized=[file.name for file in parts(quantized)] if quantized else [],
        has_code=(folder / "custom_generate").is_dir(),
        space=os.environ.get("SPACE_ID"),
        paper=PAPER,
        **facts,
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _write_eval_results(folder: Path, results: dict[str, Any]) -> None:
    """Write a file for each τ: the hub shows one score of a task from each file."""
    entries = defaultdict(list)
    for row in results["rows"]:
        setting = results["mode"] if row["tau"] is None else f"{results['mode']}, τ = {row['tau']:g}"
        notes = f"{setting}, {row['tokens_per_forward']:.2f} tokens per forward, {row['n']} prompts"
        entry = EvalResultEntry(results["benchmark"], row["task"], round(100 * row["accuracy"], 2))
        entries[setting].append(replace(entry, date=results["date"], notes=notes))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number, listed in enumerate(entries.values(), start=1):
        text = yaml.safe_dump(eval_result_entries_to_yaml(listed), sort_keys=False, allow_unicode=True)
        (folder / f"{number}.yaml").write_text(text, encoding="utf-8")


def _table(rows: list[dict[str, Any]]) -> str:
    texts = [{name: f"{v:g}" if isinstance(v, float) else v for name, v in row.items()} for row in rows]
    return table(DataFrame(texts)) if rows else ""


def _measured(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "held-out task": row["task"],
        "τ": row["tau"],
        "prompts": row["n"],
        "accuracy": f"{row['accuracy']:.1%}",
        "tokens per forward": f"{row['tokens_per_forward']:.2f}",
    }
