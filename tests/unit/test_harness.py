"""The lm-evaluation-harness with this project's models, compared with the harness's own `hf` model."""

import json
import logging
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import datasets
import lm_eval.evaluator
import lm_eval.tasks
import pytest
import yaml
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from mars_demo import tasks
from mars_demo.cli.benchmark import FOLDER
from mars_demo.core.names import locate
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.evaluation.harness.model import MarsLM

ROOT = Path(__file__).resolve().parents[2]
PROMPTS = [example.prompt for example in tasks.mixed(1)]
LONG = " ".join(example.answer for example in tasks.held_out("stories", 30))  # longer than the context
SETTINGS = {
    "to the end": {"until": [], "max_gen_toks": 60},
    "sentence": {"until": [". ", "\n"], "max_gen_toks": 60},
    "special token": {"until": ["<|assistant|>", "<|end|>"], "max_gen_toks": 20, "do_sample": False},
}


class LocalTasks(TaskManager):
    """A task manager without the harness's own tasks, which load slowly."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options | {"include_defaults": False})


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", LocalTasks)
    # It runs a dozen programs to describe the machine.
    monkeypatch.setattr(lm_eval.evaluator, "add_env_info", lambda storage: None)


@pytest.fixture
def restored_logging():
    """Restore the logging configuration that the harness's command changes."""
    loggers = [logging.getLogger(), logging.getLogger("lm_eval")]
    states = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in states:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture(scope="module", autouse=True)
def data_cache(tmp_path_factory):
    """Set the cache of `datasets` to a temporary folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("datasets")))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the task `local-answers` in the harness's format."""
    folder = tmp_path_factory.mktemp("tasks")
    lines = [json.dumps({"prompt": prompt}) for prompt in PROMPTS[:4]]
    (folder / "test.jsonl").write_text("\n".join(lines), encoding="utf-8")
    task = {
        "task": "local-answers",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "test.jsonl")}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{prompt}}",
        "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 40, "do_sample": False},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }
    (folder / "local-answers.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def hf():
    """Return the harness's own model of the same checkpoint."""
    return HFLM(pretrained=locate("mars-tiny"), dtype="float32", device="cpu", batch_size=1)


def instances(prompts, settings) -> list[Instance]:
    return [
        Instance("generate_until", {}, (prompt, settings), 0, ("test", number, 1))
        for number, prompt in enumerate(prompts)
    ]


def chat(model, prompts=PROMPTS) -> list[str]:
    return [model.apply_chat_template([{"role": "user", "content": prompt}]) for prompt in prompts]


# ----------------------------------------------------------------------- comparison with `hf`


FULL = pytest.mark.full


@pytest.mark.parametrize(
    ("name", "mode", "rows"),
    [
        ("sentence", "lossless", 4),
        pytest.param("to the end", "ar", 1, marks=FULL),
        pytest.param("special token", "lossless", 4, marks=FULL),
    ],
)
def test_answers_equal_hf_to_the_last_character(mars_tiny, hf, mode, rows, name):
    model = MarsLM(mars_tiny, mode=mode, tau=1.0, batch_size=rows)
    assert chat(model) == chat(hf)
    requests = instances(chat(model), SETTINGS[name])
    answers = model.generate_until(requests, disable_tqdm=True)
    assert answers == hf.generate_until(requests, disable_tqdm=True)
    speed = model.speeds["test"]
    assert speed["answers"] == len(answers)
    assert (speed["tokens_per_forward"] > 1.5) if mode == "lossless" else (speed["tokens_per_forward"] == 1)


@FULL
def test_a_long_prompt_is_truncated_on_the_left_as_by_hf(mars_tiny, hf):
    model = MarsLM(mars_tiny, mode="ar")
    requests = instances([LONG], {"until": [], "max_gen_toks": 12})
    assert model.generate_until(requests, disable_tqdm=True) == hf.generate_until(
        requests, disable_tqdm=True
    )


@FULL
def test_tokens_are_sampled_with_the_settings_of_the_task(mars_tiny):
    settings = {"until": [], "max_gen_toks": 20, "do_sample": True, "temperature": 0.8, "top_p": 0.9}
    model = MarsLM(mars_tiny, mode="lossless", batch_size=3, seed=5)
    answers = model.generate_until(instances(chat(model, PROMPTS[:3]), settings), disable_tqdm=True)
    for number, (prompt, answer) in enumerate(zip(PROMPTS, answers)):
        sampling = Sampling(0.8, 0.9, seed=5 + number)
        alone = decode(mars_tiny, prompt, Request("ar", max_new_tokens=20, sampling=sampling)).finish()
        assert answer == alone.text


# ---------------------------------------------------------------------------------- refusals


def test_texts_are_scored_as_by_hf_and_models_without_a_likelihood_are_refused(mars_tiny, hf):
    request = Instance("loglikelihood", {}, ("Hello", " there"), 0, ("test", 0, 1))
    [(ours, _)], [(theirs, _)] = (one.loglikelihood([request]) for one in (MarsLM(mars_tiny), hf))
    assert ours == pytest.approx(theirs, rel=1e-5)
    model = MarsLM(replace(mars_tiny, objective="block-diffusion"), mode="block-diffusion")
    with pytest.raises(ValueError, match="block-diffusion"):
        model.loglikelihood([request], disable_tqdm=True)


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"max_gen_toks": 512}, "512.*mars-tiny"),
        ({"num_beams": 4}, "num_beams"),
        ({"do_sample": True, "temperature": -1.0}, "temperature"),
    ],
)
def test_unsupported_settings_of_a_task_are_refused(mars_tiny, settings, fact):
    with pytest.raises(ValueError, match=fact):
        MarsLM(mars_tiny).generate_until(instances(["Hi"], settings))


# ----------------------------------------------------------------------------------- commands


def harness(monkeypatch, *arguments: str) -> None:
    """Run the command of the harness in this process."""
    monkeypatch.setattr("sys.argv", ["lm-eval", "run", "--model", "mars_demo", *arguments])
    runpy.run_module("mars_demo.evaluation.harness", run_name="__main__")


def test_the_command_of_the_harness_has_the_model(capsys, monkeypatch, restored_logging, folder, tmp_path):
    harness(
        monkeypatch, "--model_args", "pretrained=mars-tiny", "mode=mars", "tau=0.95", "--tasks",
        "local-answers", "--include_path", str(folder), "--limit", "3", "--batch_size", "2",
        "--apply_chat_template", "--output_path", str(tmp_path),
    )  # fmt: skip
    assert "local-answers" in capsys.readouterr().out
    (file,) = tmp_path.rglob("results_*.json")
    config = json.loads(file.read_text())["config"]
    assert (config["mode"], config["tau"], config["window"]) == ("mars", 0.95, 9)
    speed = config["speed"]["local-answers"]
    assert speed["answers"] == 3 and speed["tokens_per_forward"] > 1.5


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["pretrained=mars-tiny", "tau=nan"], "nan"),
        (["pretrained=ar-tiny", "mode=mars"], "ar-tiny"),
        (["pretrained=mars-tiny", "window=10"], "10"),
    ],
)
def test_bad_settings_are_one_line_and_status_two(
    capsys, monkeypatch, restored_logging, folder, arguments, fact
):
    options = ["--tasks", "local-answers", "--include_path", str(folder), "--model_args", *arguments]
    with pytest.raises(SystemExit) as stop:
        harness(monkeypatch, *options)
    *_, line = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2 and line.startswith("mars_demo benchmark: ") and fact in line


@FULL
def test_the_benchmark_command_passes_its_options_and_further_flags(folder, tmp_path):
    command = [sys.executable, "-m", "mars_demo", "benchmark", "--model", "mars-tiny", "--mode", "lossless"]
    flags = ["--limit", "2", "--include_path", str(folder), "--output_path", str(tmp_path)]
    subprocess.run([*command, "--tasks", "local-answers", "--", *flags], cwd=ROOT, check=True)
    (file,) = tmp_path.rglob("results_*.json")
    record = json.loads(file.read_text())
    assert record["config"]["mode"] == "lossless"
    assert record["config"]["speed"]["local-answers"]["answers"] == 2
    assert record["chat_template"] and record["config"]["batch_size"] == "8"


@FULL
def test_without_the_harness_the_command_names_the_requirements():
    hidden = """if True:
        import sys
        sys.modules["lm_eval"] = None
        from mars_demo import cli
        sys.exit(cli.main(["benchmark", "--tasks", "paper"]))"""
    done = subprocess.run([sys.executable, "-c", hidden], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "requirements-eval.txt" in done.stderr


@FULL
def test_the_six_benchmarks_of_the_paper_are_tasks_of_the_harness():
    group = yaml.safe_load((FOLDER / "paper.yaml").read_text())
    names = [entry["group"] if isinstance(entry, dict) else entry for entry in group["task"]]
    assert len(names) == 6 and set(names) <= set(TaskManager().all_tasks)
