"""The command line: output, errors and exit status."""

import io
import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mars_demo import cli, tasks
from mars_demo.cli import chat
from mars_demo.cli.output import printable
from mars_demo.core.assets import ASSETS
from mars_demo.core.grammar import Grammar
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.load import load_checkpoint
from mars_demo.training import corpus

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = tasks.held_out("units", 1)[0]


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    try:
        status = cli.main(arguments)
    except SystemExit as stop:
        status = stop.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_record_on_standard_output(capsys, mars_tiny):
    status, out, err = run(
        capsys, "generate", EXAMPLE.prompt, "--model", "mars-tiny", "--mode", "lossless", "--trace", "-"
    )
    assert (status, err) == (0, "")
    record = Run.read(out.splitlines())
    assert record.settings.mode == "lossless"
    assert record.text == decode(mars_tiny, EXAMPLE.prompt, Request("lossless")).finish().text


def test_the_record_in_a_file(capsys, tmp_path):
    path = tmp_path / "run.jsonl"
    status, out, _ = run(
        capsys, "generate", "hello", "--model", "mars-tiny", "--max-new-tokens", "5", "--raw",
        "--window", "3", "--tau", "0.5", "--trace", str(path),
    )  # fmt: skip
    record = Run.read(path.read_text().splitlines())
    assert status == 0
    assert out == record.text + "\n"
    assert (record.settings.window, record.settings.tau, record.settings.max_new_tokens) == (3, 0.5, 5)


def numbers_in(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?", text))


def test_options_of_sampling_and_a_draft_model_take_effect(capsys, mars_tiny, ar_tiny):
    sampling = Sampling(1.2, top_p=0.98, top_k=40, seed=3)
    request = Request("speculative", 0.5, max_new_tokens=30, draft=ar_tiny, sampling=sampling)
    expected = decode(mars_tiny, EXAMPLE.prompt, request).finish()
    status, out, err = run(
        capsys, "generate", EXAMPLE.prompt, "--model", "mars-tiny", "--mode", "speculative", "--draft",
        "ar-tiny", "--tau", "0.5", "--max-new-tokens", "30", "--temperature", "1.2", "--top-p", "0.98",
        "--top-k", "40", "--seed", "3",
    )  # fmt: skip
    assert (status, out) == (0, f"{expected.text}\n")
    drafting = sum(step.draft_forwards for step in expected.passes)
    assert {str(expected.tokens), str(expected.forwards), str(drafting)} <= numbers_in(err)


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text('{"type": "object", "properties": {"é": {"enum": [1, 2]}}, "required": ["é"]}', "utf-8")
    return path


def test_answers_have_the_shape_of_the_options(capsys, monkeypatch, mars_tiny, schema):
    for options, grammar in (
        (("--schema", str(schema)), Grammar("json", schema.read_text("utf-8"))),
        (("--regex", "[0-9]{3}"), Grammar("regex", "[0-9]{3}")),
        (("--choice", "No, never", "--choice", "Yes"), Grammar("choice", "No, never\nYes")),
    ):
        expected = decode(mars_tiny, SPELL, Request("ar", max_new_tokens=40, grammar=grammar)).finish()
        common = "--model", "mars-tiny", "--mode", "ar", "--max-new-tokens", "40", *options
        status, out, err = run(capsys, "generate", SPELL, *common)
        assert (status, out) == (0, f"{expected.text}\n")
        forced = expected.sources["forced"]
        assert (f"{forced} forced" if forced else "tokens in") in err
        assert talk(capsys, monkeypatch, SPELL, *common[4:])[:2] == (status, out)


def test_figures_have_the_forced_tokens_even_if_there_are_no_others(capsys):
    status, out, err = run(capsys, "generate", "Hi", "--model", "mars-tiny", "--choice", "Yes")
    assert (status, out) == (0, "Yes\n") and re.match(r"(\d+) tokens \(\1 forced\)", err)


@pytest.fixture(scope="module")
def lacking(tmp_path_factory):
    """Return a checkpoint folder without one of its tensors."""
    folder = tmp_path_factory.mktemp("lacking")
    for file in (ASSETS / "mars-tiny").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    "arguments, fact",
    [
        (["generate", "word " * 600], "511"),
        (["fly"], "fly"),
        (["generate", "hi", "--model", "{lacking}"], "model.norm.weight"),
        (["generate", "hi", "--trace", "{tmp}/no/run.jsonl"], "{tmp}/no/run.jsonl"),
        (["generate", "hi", "--schema", "{tmp}"], "{tmp}"),
        (["generate", "hi", "--schema", "{lacking}/model.safetensors"], "{lacking}/model.safetensors"),
        (["generate", "hi", "--schema", "{lacking}/README.md"], "valid JSON schema"),
        (["generate", "hi", "--regex", "(a"], "regular expression"),
        (["chat", "--regex", "(a"], "regular expression"),
        (["generate", "hi", "--choice", "a\nb"], "'a\\nb'"),
        (["generate", "hi", "--choice", "a", "--regex", "a"], "--regex"),
        (["evaluate", "--taus", "a,b"], "a,b"),
        (["evaluate", "--limit", "0"], "0"),
        (["evaluate", "--tasks", "units,", "--limit", "1"], "''"),
        (["evaluate", "--output", "{tmp}/no/rows.json", "--limit", "1"], "{tmp}/no/rows.json"),
        (["train", "--base", "ar-tiny", "--data", "nothing", "--output-dir", "{tmp}"], "nothing"),
        (["train", "--base", "ar-tiny", "--max-steps", "many"], "many"),
        (["train", "--base", "ar-tiny", "--data", "self", "--conversations", "0", "--output-dir", "{tmp}"],
         "--conversations"),
        (["train", "--base", "ar-tiny", "--data", "self", "--prompts", "{tmp}", "--output-dir", "{tmp}"],
         "{tmp}"),
        (["train", "--base", "ar-tiny", "--output-dir", "{lacking}/config.json"], "{lacking}/config.json"),
        (["recipe", "average", "mars-tiny", "--output", "{tmp}"], "'mars-tiny'"),
        (["space", "--static", "--push", "no name", "--output", "{tmp}"], "no name"),
        (["chat", "--mode", "speculative"], "speculative"),
        (["serve", "--size", "8"], "vllm"),
        (["serve", "--engine", "vllm"], "pip install -r requirements-vllm.txt"),
        (["serve", "--engine", "vllm", "--size", "0"], "--size"),
        (["serve", "--port", "70000"], "70000"),
        (["serve", "--model", "no such model"], "no such model"),
        (["serve", "--host", "203.0.113.1"], "203.0.113.1"),  # an address reserved for documentation
        (["serve", "--engine", "vllm", "--tau", "0.9-0.5"], "0.9-0.5"),
        (["serve", "--engine", "vllm", "--tau", "2"], "2"),
        (["serve", "--allow-origin", "https://example.org/page"], "https://example.org/page"),
        (["serve", "--engine", "vllm", "--allow-origin", "*"], "--allowed-origins"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_status_two(capsys, tmp_path, lacking, arguments, fact):
    if arguments[0] in ("generate", "evaluate", "chat") and "--model" not in arguments:
        arguments = [*arguments, "--model", "mars-tiny"]
    for name, place in {"{tmp}": str(tmp_path / "out"), "{lacking}": str(lacking)}.items():
        arguments = [argument.replace(name, place) for argument in arguments]
        fact = fact.replace(name, place)
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1 and err.startswith("mars_demo") and "Traceback" not in err
    assert re.search(rf"(?<![\d.]){re.escape(fact)}(?![\d])", err), err


def test_out_of_memory_is_one_line(capsys, monkeypatch):
    def run_out(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("mars_demo.decoding.decode.drive", run_out)
    status, out, err = run(capsys, "generate", "hi", "--model", "mars-tiny")
    assert (status, out) == (2, "") and err.count("\n") == 1 and "enough memory" in err


@pytest.mark.full
def test_a_failing_process_prints_only_one_line(lacking):
    """Include the output of libraries that bypasses Python's streams."""
    command = ["-m", "mars_demo", "generate", "hi", "--model", str(lacking)]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, input="y\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"mars_demo generate: {lacking}") and done.stderr.count("\n") == 1
    assert "model.norm.weight" in done.stderr


def test_evaluate_writes_the_documented_file(capsys, tmp_path):
    path = tmp_path / "rows.json"
    status, out, _ = run(
        capsys, "evaluate", "--model", "mars-tiny", "--tasks", "units,letters", "--taus", "1.0,0.5",
        "--limit", "2", "--output", str(path),
    )  # fmt: skip
    record = json.loads(path.read_text())
    assert status == 0 and "units" in out and "letters" in out
    assert (record["model"], record["mode"]) == ("mars-tiny", "mars")
    assert [(r["task"], r["tau"], r["n"]) for r in record["rows"]] == [
        ("units", 1.0, 2), ("units", 0.5, 2), ("letters", 1.0, 2), ("letters", 0.5, 2),
    ]  # fmt: skip
    for row in record["rows"]:
        assert set(row) == {
            "task", "tau", "n", "accuracy", "tokens_per_forward", "tokens", "forwards", "seconds",
        }  # fmt: skip
        assert row["tokens_per_forward"] == row["tokens"] / row["forwards"]
    assert record["rows"][0]["tokens_per_forward"] == 1.0


def card_of(folder) -> dict[str, list[list[str]]]:
    """Return the table rows of a model card by section."""
    tables = {}
    for section in (folder / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        title, *lines = section.splitlines()
        rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
        tables[title] = [[cell.strip() for cell in row] for row in rows]
    return tables


@pytest.mark.full
def test_train_makes_a_checkpoint_that_generates_and_its_card_has_its_results(capsys, tmp_path):
    out = tmp_path / "trained"
    command = [
        "train", "--base", "ar-tiny", "--objective", "mars", "--block-size", "4", "--max-steps", "1",
        "--data", "tasks:units", "--batch-tokens", "1024", "--sft-weight", "0",
        "--muon-learning-rate", "1e-3", "--output-dir", str(out),
    ]  # fmt: skip
    assert run(capsys, *command)[0] == 0
    assert json.loads((out / "recipe.json").read_text())["muon_learning_rate"] == 1e-3
    [step] = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    assert step["loss"] == step["noisy"] > 0
    status, text, _ = run(capsys, "generate", EXAMPLE.prompt, "--model", str(out), "--window", "5")
    assert status == 0 and text.strip()
    assert "Measured" not in card_of(out)

    def evaluate(*options: str) -> list[list[str]]:
        output = ["--output", str(out / "results.json")]
        options = ["--tasks", "units,letters", "--limit", "2", *output, *options]
        assert run(capsys, "evaluate", "--model", str(out), *options)[0] == 0
        return card_of(out)["Measured"]

    head, _, *rows = evaluate("--mode", "mars", "--taus", "1.0,0.5")
    assert head == ["held-out task", "τ", "prompts", "accuracy", "tokens per forward"]
    measured = json.loads((out / "results.json").read_text())["rows"]
    assert rows == [
        [r["task"], f"{r['tau']:g}", "2", f"{r['accuracy']:.1%}", f"{r['tokens_per_forward']:.2f}"]
        for r in measured
    ]
    assert len({row[-1] for row in rows}) > 2  # so that no two rows could be swapped unnoticed

    assert [row[1] for row in evaluate("--mode", "ar")[2:]] == ["–", "–"]
    assert run(capsys, *command)[0] == 0  # new weights invalidate the measurements
    assert "Measured" not in card_of(out)


@pytest.mark.parametrize("given", [True, pytest.param(False, marks=pytest.mark.full)])
def test_training_on_its_own_answers(capsys, tmp_path, ar_tiny, given):
    """Train with `--data self` on greedy answers to prompts from a file or sampled from the model."""
    prompts = [tasks.held_out(name, 1)[0].prompt for name in ("units", "world-facts", "letters")]
    (tmp_path / "prompts.txt").write_text("\n".join(prompts) + "\n")
    out = tmp_path / "out"
    command = [
        "train", "--base", "ar-tiny", "--data", "self", "--conversations", "3", "--max-steps", "1",
        "--output-dir", str(out), *(["--prompts", str(tmp_path / "prompts.txt")] if given else []),
    ]  # fmt: skip
    status, _, err = run(capsys, *command)
    assert status == 0, err
    talks = [json.loads(line)["messages"] for line in (out / "self.jsonl").read_text("utf-8").splitlines()]
    assert len(talks) == 3
    if given:
        assert [question["content"] for question, _ in talks] == prompts
    for question, answer in talks:
        assert question["content"] == question["content"].strip() != ""
        alone = decode(ar_tiny, question["content"], Request(mode="ar")).finish()
        assert (answer["content"], "cut" in answer) == (alone.text, alone.stop != "eos")
    [step] = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    assert step["tokens"] == sum(
        len(one.ids) for talk in talks for one in corpus.encode(ar_tiny.tokenizer, talk)
    )
    assert json.loads((out / "recipe.json").read_text())["data"] == str(out / "self.jsonl")
    assert load_checkpoint(str(out), device="cpu").objective == "mars"


def test_the_help_of_every_command_has_its_defaults_and_an_example(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    for command in cli.COMMANDS:
        status, out, _ = run(capsys, command, "--help")
        assert status == 0
        [example] = re.findall(rf"^  python -m mars_demo ({command} .*)$", out, re.MULTILINE)
        values = vars(cli.parser(command).parse_args(shlex.split(example)))
        helps = re.split(r"\n  (?=-)", out.partition("example:")[0])[1:]  # a piece for each option
        for option, text in ((words.split()[0].rstrip(","), words) for words in helps):
            assert re.search(r"\S\s{2,}\S", text), (command, option)  # something is said about it
            default = values.get(option, values.get(option.strip("-").replace("-", "_")))
            if option.replace("_", "-") not in example and default not in (None, False, "", []):
                assert f"default: {default})" in text, (command, option)


def test_models_lists_the_bundled_models(capsys):
    status, out, _ = run(capsys, "models")
    assert status == 0
    models = {part.splitlines()[0]: part for part in re.split(r"\n(?=\S)", out)}
    assert {"mars-tiny", "ar-tiny"} <= models.keys()
    assert {"4.08", "8"} <= numbers_in(models["mars-tiny"])
    assert "8" not in numbers_in(models["ar-tiny"]) and "ar, jacobi, speculative" in models["ar-tiny"]
    assert run(capsys, "models", "ar-tiny")[1] == models["ar-tiny"]
    assert run(capsys, "models", "nothing")[0] == 2


# ------------------------------------------------------------------------------------------ chat

KILOMETERS = "How many meters is 14 kilometers?"
SPELL = "How do you spell planet backwards?"


def talk(capsys, monkeypatch, lines: str, *more: str) -> tuple[int, str, list[str]]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    status, out, err = run(capsys, "chat", "--model", "mars-tiny", "--mode", "ar", *more)
    return status, out, err.splitlines()


def test_chat_answers_each_line_in_its_conversation(capsys, monkeypatch, mars_tiny):
    system = [{"role": "system", "content": "Count sheep."}]
    lines = f"{KILOMETERS}\n\n{SPELL}\n/new\n{SPELL}\n"
    status, out, figures = talk(capsys, monkeypatch, lines, "--system", "Count sheep.")
    first = decode(mars_tiny, KILOMETERS, Request("ar"), messages=system).finish()
    second = decode(mars_tiny, SPELL, Request("ar"), messages=first.messages).finish()
    alone = decode(mars_tiny, SPELL, Request("ar"), messages=system).finish()
    assert (status, out) == (0, f"{first.text}\n{second.text}\n{alone.text}\n")
    cached = [re.findall(r"\d+", line)[-2:] for line in figures]  # the cached tokens of all prompts
    assert [int(total) for _, total in cached] == [r.settings.prompt_tokens for r in (first, second, alone)]
    assert int(cached[0][0]) == int(cached[2][0]) == 0 < int(cached[1][0])
    assert {str(first.tokens), str(first.forwards)} <= numbers_in(figures[0])


def test_a_full_context_is_reported_and_a_new_conversation_follows(capsys, monkeypatch, mars_tiny):
    status, out, notices = talk(capsys, monkeypatch, f"{SPELL}\n{'1 ' * 600}\n/new\n{SPELL}\n")
    assert status == 0
    assert out == 2 * (decode(mars_tiny, SPELL, Request("ar")).finish().text + "\n")
    assert "511" in numbers_in(notices[1]) and "/new" in notices[1]


def test_an_interrupt_stops_the_answer_and_not_the_conversation(capsys, monkeypatch):
    pieces = []

    def interrupted(text: str) -> str:
        pieces.append(text)
        if len(pieces) == 3:
            signal.raise_signal(signal.SIGINT)
        return text

    monkeypatch.setattr(chat, "printable", interrupted)
    status, out, figures = talk(capsys, monkeypatch, f"{KILOMETERS}\n{SPELL}\n")
    assert status == 0 and len(figures) == 2
    assert "stopped" in figures[0] and "3" in numbers_in(figures[0])
    assert "eos" in figures[1] or "length" in figures[1]


def test_a_terminal_gets_no_control_characters():
    hostile = "a\x1b[2J\x1b]0;owned\x07b\x9b31mc\rd\x7f\x00\b\n\tü 👩‍🚀"
    assert printable(hostile) == "a[2J]0;ownedb31mcd\n\tü 👩‍🚀"


class Terminal(io.StringIO):
    """Lines that are typed in a terminal."""

    def isatty(self) -> bool:
        return True


def test_chat_in_a_terminal_prompts_and_names_its_keys(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal(f"{KILOMETERS}\n"))
    status, out, err = run(capsys, "chat", "--model", "mars-tiny", "--mode", "ar")
    assert status == 0 and out.startswith("> ") and out.endswith("\n> ")
    assert "/new" in err and "Ctrl-D" in err


def test_serve_refuses_a_bad_limit(capsys, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_ANSWER", "many")
    status, _, err = run(capsys, "serve")
    assert status == 2 and "MARS_DEMO_ANSWER" in err and "many" in err and err.count("\n") == 1
