"""The command line as a person meets it: in a process of its own, by its output and exit status."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mars_demo import cli, tasks
from mars_demo.decoding import decode
from mars_demo.trace import Run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = tasks.held_out("units", 1)[0]


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    try:
        status = cli.main(arguments)
    except SystemExit as stop:
        status = stop.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_generate_in_a_process_prints_the_answer_and_nothing_else():
    done = subprocess.run(
        [sys.executable, "-m", "mars_demo", "generate", EXAMPLE.prompt, "--model", "mars-tiny"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1 and "per forward" in done.stderr
    assert done.stdout.endswith("\n") and len(done.stdout) > 10


@pytest.mark.parametrize("mode", ["ar", "mars", "lossless"])
def test_modes_and_the_record_on_standard_output(capsys, mars_tiny, mode):
    status, out, err = run(
        capsys, "generate", EXAMPLE.prompt, "--model", "mars-tiny", "--mode", mode, "--trace", "-"
    )
    assert (status, err) == (0, "")
    record = Run.read(out.splitlines())
    assert record.settings.mode == mode
    assert record.text == decode(mars_tiny, EXAMPLE.prompt, mode=mode).finish().text


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


def test_a_seed_gives_the_same_draw_in_every_mode_and_another_one_another(capsys):
    def answer(*more: str) -> str:
        status, out, _ = run(
            capsys, "generate", "Write a story about a fox.", "--model", "mars-tiny", "--max-new-tokens",
            "30", "--temperature", "1.2", "--top-p", "0.98", "--top-k", "40", *more,
        )  # fmt: skip
        assert status == 0
        return out

    drawn = answer("--seed", "3", "--mode", "ar")
    assert answer("--seed", "3", "--mode", "lossless") == drawn
    assert answer("--seed", "3", "--mode", "speculative", "--draft", "ar-tiny", "--tau", "1") == drawn
    assert answer("--seed", "4", "--mode", "ar") != drawn


def test_an_ar_checkpoint_answers_without_a_mode(capsys):
    status, out, _ = run(capsys, "generate", EXAMPLE.prompt, "--model", "ar-tiny")
    assert status == 0 and out.strip()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["generate", ""], "prompt is empty"),
        (["generate", "word " * 600], "can read at most 511"),
        (["generate", "hi", "--tau", "1.5"], "τ must be between 0 and 1"),
        (["generate", "hi", "--tau", "x"], "--tau"),
        (["generate", "hi", "--window", "10"], "allowed is 1 to 9"),
        (["generate", "hi", "--mode", "fast"], "--mode"),
        (["generate", "hi", "--model", "nothing"], "allowed are"),
        (["generate", "hi", "--model", "."], "config.json"),
        (["generate", "hi", "--mode", "mars", "--model", "ar-tiny"], "cannot run mode mars: allowed is ar"),
        (["generate", "hi", "--mode", "speculative"], "needs a second, smaller checkpoint"),
        (["generate", "hi", "--temperature", "0"], "temperature of sampling must be above 0"),
        (["generate", "hi", "--top-p", "2"], "top_p must be above 0 and at most 1"),
        (["generate"], "prompt"),
        (["fly"], "fly"),
        (["evaluate", "--tasks", "nothing"], "nothing"),
        (["evaluate", "--taus", "a,b"], "--taus"),
        (["evaluate", "--limit", "0"], "at least 1"),
        (["train", "--base", "ar-tiny", "--data", "nothing", "--output", "{tmp}"], "No training data"),
        (["train", "--base", "ar-tiny", "--block-size", "64", "--output", "{tmp}"], "from 2 to 32"),
        (["train", "--base", "nothing", "--output", "{tmp}"], "allowed are"),
    ],
)
def test_bad_input_is_one_line_and_status_two(capsys, tmp_path, arguments, message):
    if arguments[0] in ("generate", "evaluate") and "--model" not in arguments:
        arguments = [*arguments, "--model", "mars-tiny"]
    status, out, err = run(capsys, *(a.replace("{tmp}", str(tmp_path / "out")) for a in arguments))
    assert (status, out) == (2, "")
    assert err.count("\n") == 1 and message in err
    assert "Traceback" not in err


def test_evaluate_writes_the_documented_file(capsys, tmp_path):
    path = tmp_path / "rows.json"
    status, out, _ = run(
        capsys, "evaluate", "--model", "mars-tiny", "--tasks", "units,letters", "--taus", "1.0,0.5",
        "--limit", "2", "--output", str(path),
    )  # fmt: skip
    record = json.loads(path.read_text())
    assert status == 0 and "average" in out
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


def test_train_makes_a_checkpoint_that_generates(capsys, tmp_path):
    out = tmp_path / "trained"
    status, _, _ = run(
        capsys, "train", "--base", "ar-tiny", "--objective", "mars", "--block-size", "4", "--steps", "1",
        "--data", "tasks:units", "--output", str(out),
    )  # fmt: skip
    assert status == 0
    status, text, _ = run(capsys, "generate", EXAMPLE.prompt, "--model", str(out), "--window", "5")
    assert status == 0 and text.strip()


def test_models_lists_what_is_bundled(capsys):
    status, out, _ = run(capsys, "models")
    assert status == 0
    assert "mars-tiny" in out and "block size 8" in out and "ar-tiny" in out
