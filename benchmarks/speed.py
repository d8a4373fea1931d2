"""Wall-clock time of single prompts, with llama.cpp beside quantized models.

    python -m benchmarks.speed [--model mars-tiny] [--prompts 36] [--rounds 3] [--max-new-tokens 160]
    pip install cyllama==0.2.18
    python -m benchmarks.speed --model mars-smollm2-135m --prompts 34 --output assets/results/llama-cpp.json

Every method answers every held-out prompt in every round. Methods take turns prompt by prompt. llama.cpp
decodes the same weights in Q8_0, greedily, with as many threads. Its own sampler chooses the tokens, so
that no logits pass through Python.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks import batches, report
from benchmarks.frontier import SETS
from benchmarks.timing import take_turns
from mars_demo.decoding.decode import decode
from mars_demo.decoding.pace import measured
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.task_sets import MAX_NEW_TOKENS, questions
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.export import q8_0
from mars_demo.models.load import load_checkpoint

FILE, CHAT_FILE = "speed.json", "llama-cpp.json"
CONTEXT = 1024  # positions reserved in llama.cpp
Answer = Callable[[str], dict[str, int]]  # from a prompt to the numbers of tokens and forwards


class LlamaCpp:
    """A quantized model in llama.cpp with greedy decoding."""

    def __init__(self, quantized: Checkpoint, folder: str):
        from cyllama.llama import llama_cpp  # only quantized models need it

        self._library, self._ends = llama_cpp, quantized.end_ids
        llama_cpp.disable_logging()
        parameters = llama_cpp.LlamaModelParams()
        parameters.n_gpu_layers = 0
        file = q8_0.write(quantized.dense, Path(folder))[0]
        self._model = llama_cpp.LlamaModel(path_model=str(file), params=parameters)
        settings = llama_cpp.LlamaContextParams()
        settings.n_ctx = settings.n_batch = CONTEXT
        settings.n_threads = settings.n_threads_batch = torch.get_num_threads()
        self._context = llama_cpp.LlamaContext(model=self._model, params=settings)
        self._sampler = llama_cpp.LlamaSampler(llama_cpp.LlamaSamplerChainParams())
        self._sampler.add_greedy()

    def generate(self, ids: list[int], limit: int) -> list[int]:
        self._context.memory_seq_rm(0, 0, -1)
        self._decode(ids, 0)
        answer: list[int] = []
        while True:
            answer.append(self._sampler.sample(self._context, -1))
            if len(answer) == limit or answer[-1] in self._ends:
                return answer
            self._decode(answer[-1:], len(ids) + len(answer) - 1)

    def _decode(self, ids: list[int], start: int) -> None:
        batch = self._library.LlamaBatch(n_tokens=len(ids), embd=0, n_seq_max=1)
        for index, token in enumerate(ids):
            batch.add(token, start + index, [0], index == len(ids) - 1)
        self._context.decode(batch)


def methods(checkpoint: Checkpoint, limit: int, folder: str) -> dict[str, Answer]:
    paced = measured(checkpoint)

    def ours(mode: str, **settings) -> Answer:
        request = Request(mode, max_new_tokens=limit, **settings)

        def answer(prompt: str) -> dict[str, int]:
            run = decode(paced, prompt, request).finish()
            return {"tokens": run.tokens, "forwards": run.forwards}

        return answer

    def generate(prompt: str) -> dict[str, int]:
        counts = batches.generating(checkpoint, [prompt], 1, limit)
        return {name: counts[name] for name in ("tokens", "forwards")}

    chosen = {"transformers generate": generate, "ar": ours("ar")}
    if checkpoint.precision == "int8":
        llama = LlamaCpp(checkpoint, folder)

        def theirs(prompt: str) -> dict[str, int]:
            answer = llama.generate(encode_prompt(checkpoint.tokenizer, prompt), limit)
            return {"tokens": len(answer), "forwards": len(answer)}

        chosen["llama.cpp, Q8_0"] = theirs
    drafts = checkpoint.largest_window - 1
    return chosen | {
        "mars τ = 0.95": ours("mars", tau=0.95),
        "mars τ = 0.95, adaptive": ours("mars", tau=0.95, adaptive=True),
        "mars τ = 0.8": ours("mars", tau=0.8),
        f"lossless, {drafts} drafts, grouped": ours("lossless", linear=False),
        f"lossless, {drafts} drafts, linear": ours("lossless", linear=True),
        "lossless, adaptive": ours("lossless", adaptive=True),
    }


def measure(model: str, prompts: int, rounds: int, max_new_tokens: int, output: Path) -> None:
    checkpoint = load_checkpoint(model, "cpu")
    answered = [question.prompt for question in questions(SETS[model][0], prompts)]
    with tempfile.TemporaryDirectory() as folder:
        timed = take_turns(methods(checkpoint, max_new_tokens, folder), answered, rounds)
    rows = [{"method": name} | one.counts() for name, one in timed.items()]
    record = {"prompts": len(answered), "max_new_tokens": max_new_tokens, "rows": rows}
    results.write(output, results.machine(checkpoint), record)


def per_token(row: dict) -> list[float]:
    """Return the TPOT of each round; methods' answers may differ in length."""
    return [seconds / row["tokens"] for seconds in row["seconds"]]


def relative(file: str) -> dict[str, Any]:
    """Return each method's tokens per forward, and its cost and speed relative to AR, with their source."""
    timed = results.read(file)
    by_name = {row["method"]: row for row in timed["rows"]}
    ms = {name: median(row["seconds"]) / row["forwards"] for name, row in by_name.items()}
    rows = {
        name: {
            "tokens per forward": report.per_forward(row),
            "cost of a forward": f"{ms[name] / ms['ar']:.2f}",
            "speed": report.faster(row["seconds"], by_name["ar"]["seconds"]),
        }
        for name, row in by_name.items()
    }
    source = f"{results.origin(timed)} · {timed['machine']} · {timed['prompts']} prompts"
    return {"source": source, "rows": rows}


def table(file: str | Path = FILE) -> str:
    """Return the times relative to those of llama.cpp if it was timed, else of AR."""
    timed = results.read(file)
    by_name = {row["method"].partition(",")[0]: row for row in timed["rows"]}
    base = "llama.cpp" if "llama.cpp" in by_name else "ar"
    rows = [
        {
            "method": row["method"],
            "tokens per forward": report.per_forward(row),
            "TPOT, ms": f"{1000 * median(per_token(row)):.1f}",
            f"as fast as {base}": report.faster(per_token(row), per_token(by_name[base])),
        }
        for row in timed["rows"]
    ]
    return report.shown(rows) + report.source(timed, report.prompts(timed), report.rounds(timed))


if __name__ == "__main__":
    report.run(measure, table, FILE, model="mars-tiny", prompts=36, rounds=3, max_new_tokens=MAX_NEW_TOKENS)
