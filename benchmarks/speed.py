"""Wall-clock time of single prompts and of their forwards, with llama.cpp beside quantized models.

    python -m benchmarks.speed [--rounds 3] [--max-new-tokens 160]
    export CFLAGS="-mno-amx-int8 -mno-amx-tile -mno-amx-bf16"
    CXXFLAGS=$CFLAGS pip install --no-binary llama-cpp-python llama-cpp-python==0.3.36
    python -m benchmarks.speed --model mars-smollm2-135m --output assets/results/llama-cpp.json

Every method answers every held-out prompt in every round, the same number of each task or skill unless
`--prompts` says otherwise. Methods take turns prompt by prompt. llama.cpp decodes the same weights in Q8_0,
greedily, with as many threads, compiled for this CPU; with AMX, this release's answers are not those of
its weights. Its own sampler chooses the tokens, so that no logits pass through Python.
"""

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks import batches, report
from benchmarks.frontier import SETS
from benchmarks.timing import Timed, take_turns
from mars_demo.core.names import CHAT, TINY
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.pace import measured
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.task_sets import MAX_NEW_TOKENS, TITLES, Question, questions
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.export import q8_0
from mars_demo.models.load import load_checkpoint

FILE, CHAT_FILE = "speed.json", "llama-cpp.json"
OPTIONS = {"model": TINY, "prompts": 0, "rounds": 3, "max_new_tokens": MAX_NEW_TOKENS}
PROMPTS = {TINY: 480, CHAT: 136}  # as many as the table of `benchmarks.frontier` has
MOST_POSITIONS = 17  # of the forwards whose costs are written: nine tokens or drafts, and eight masks
LEAST = 5  # forwards of a cost
AR = "AR"
MARS, LOSSLESS, LLAMA = "MARS, τ = 0.95, adaptive", "lossless, adaptive", "llama.cpp, Q8_0"
RESERVED = 1024  # positions of llama.cpp's cache
Method = Callable[[Question], Run | list[int]]  # other libraries return token ids


class LlamaCpp:
    """A quantized model in llama.cpp with greedy decoding."""

    def __init__(self, quantized: Checkpoint, folder: str):
        import llama_cpp  # only quantized models need it

        self._library, self._ends = llama_cpp, quantized.end_ids
        threads, (file, *_) = torch.get_num_threads(), q8_0.write_q8_0(quantized.dense, Path(folder))
        sizes = {"n_ctx": RESERVED, "n_batch": RESERVED, "n_ubatch": RESERVED}
        self._model = llama_cpp.Llama(
            str(file), n_gpu_layers=0, n_threads=threads, n_threads_batch=threads, **sizes, verbose=False
        )
        self._sampler = llama_cpp.llama_sampler_init_greedy()

    @property
    def version(self) -> str:
        """Return the version of the library, and the vector instructions that it uses."""
        features = re.findall(r"(A[VM]X\w*) = 1", self._library.llama_print_system_info().decode())
        return f"llama-cpp-python {self._library.__version__} ({', '.join(features)})"

    def generate(self, ids: list[int], limit: int) -> list[int]:
        library, context = self._library, self._model.ctx
        library.llama_memory_clear(library.llama_get_memory(context), False)
        answer, new = [], ids
        while len(answer) < limit and not (answer and answer[-1] in self._ends):
            tokens = (library.llama_token * len(new))(*new)
            if library.llama_decode(context, library.llama_batch_get_one(tokens, len(new))):
                raise RuntimeError("llama.cpp could not compute a forward.")
            new = [library.llama_sampler_sample(self._sampler, context, -1)]
            answer += new
        return answer


def methods(checkpoint: Checkpoint, limit: int, llama: LlamaCpp | None) -> dict[str, Method]:
    """Return the methods by name, AR first; float32 models are compared with `generate` too."""
    paced = measured(checkpoint)

    def ours(mode: str, **settings) -> Method:
        request = Request(mode, max_new_tokens=limit, **settings)
        return lambda question: decode(paced, question.prompt, request).finish()

    def theirs(question: Question) -> list[int]:
        if llama:
            return llama.generate(encode_prompt(checkpoint.tokenizer, question.prompt), limit)
        _, [answer] = batches.generated(checkpoint, [question.prompt], limit)
        return answer

    drafts = checkpoint.largest_window - 1
    # 81 positions, which only a tiny model computes in reasonable time.
    grouped = {} if llama else {f"lossless, {drafts} drafts, grouped": ours("lossless", linear=False)}
    return {
        AR: ours("ar"),
        LLAMA if llama else "transformers generate": theirs,
        "MARS, τ = 0.95": ours("mars", tau=0.95),
        MARS: ours("mars", tau=0.95, adaptive=True),
        "MARS, τ = 0.8": ours("mars", tau=0.8),
        **grouped,
        f"lossless, {drafts} drafts, linear": ours("lossless", linear=True),
        LOSSLESS: ours("lossless", adaptive=True),
    }


def measure(model: str, prompts: int, rounds: int, max_new_tokens: int, output: Path) -> None:
    checkpoint = load_checkpoint(model, "cpu")
    kind, most = SETS[model][0], prompts or PROMPTS[model]
    with tempfile.TemporaryDirectory() as folder:
        llama = LlamaCpp(checkpoint, folder) if checkpoint.quantized else None
        timed = take_turns(
            methods(checkpoint, max_new_tokens, llama),
            questions(kind, most),
            rounds,
            lambda question, answer: counted(checkpoint, question, answer),
        )
    ar = timed[AR].outputs
    rows = [
        {"method": name, "seconds": timing.seconds} | summed(timing.outputs, ar)
        for name, timing in timed.items()
    ]
    record = {"model": checkpoint.name, "tasks": TITLES[kind], "prompts": len(ar)}
    record |= {"library": llama.version} if llama else {}
    record |= {"max_new_tokens": max_new_tokens, "costs": costs(timed), "rows": rows}
    report.save(output, results.machine(checkpoint), record)


def counted(checkpoint: Checkpoint, question: Question, answer: Run | list[int]) -> dict[str, Any]:
    """Return the token ids of an answer, whether it is right, and its forwards.

    A forward is its number of positions and its milliseconds, which other libraries do not tell.
    """
    if isinstance(answer, list):
        stop = "eos" if answer[-1] in checkpoint.end_ids else "length"
        text = checkpoint.tokenizer.decode(answer, skip_special_tokens=True)
        right = question.grade(SimpleNamespace(text=text, stop=stop))
        return {"ids": answer, "right": right, "forwards": [(1, None)] * len(answer)}
    forwards = [(step.positions, step.ms) for step in answer.passes]
    return {"ids": answer.token_ids, "right": question.grade(answer), "forwards": forwards}


def summed(answers: Sequence[Mapping], ar: Sequence[Mapping]) -> dict[str, int]:
    """Return the sums over answers; `positions` are of the forwards after the prompt's."""
    return {
        "tokens": sum(len(answer["ids"]) for answer in answers),
        "forwards": sum(len(answer["forwards"]) for answer in answers),
        "positions": sum(positions for answer in answers for positions, _ in answer["forwards"][1:]),
        "right": sum(answer["right"] for answer in answers),
        "equal": sum(answer["ids"] == other["ids"] for answer, other in zip(answers, ar)),
    }


def costs(timed: Mapping[str, Timed]) -> dict[str, Any]:
    """Return the mean milliseconds of prompts, with their tokenization, and of later forwards by size."""
    ar, by_positions = timed[AR], {}
    for timing in timed.values():
        for answer in timing.outputs:
            for positions, ms in answer["forwards"][1:]:
                if ms is not None and positions <= MOST_POSITIONS:
                    by_positions.setdefault(positions, []).append(ms)
    later = sum(ms for answer in ar.outputs for _, ms in answer["forwards"][1:])
    return {
        "prompt": [
            round(fmean(answer["forwards"][0][0] for answer in ar.outputs)),
            (1000 * ar.seconds[-1] - later) / len(ar.outputs),
        ],
        "forwards": [(k, fmean(ms)) for k, ms in sorted(by_positions.items()) if len(ms) >= LEAST],
    }


# ------------------------------------------------------------------------------------------ tables


def cells(timed: Mapping, *columns: str) -> dict[str, dict[str, str]]:
    """Return the cells of each method; speeds are ratios of TPOT, because answers differ in length."""
    tpot = {row["method"]: [seconds / row["tokens"] for seconds in row["seconds"]] for row in timed["rows"]}
    count, by_method = timed["prompts"], {}
    for row in timed["rows"]:
        own = tpot[row["method"]]
        every = {
            "tokens per forward": report.per_forward(row),
            "positions per forward": f"{row['positions'] / (row['forwards'] - count):.1f}",
            "accuracy": f"{row['right'] / count:.1%}",
            "equal to AR's": f"{row['equal']}",
            "as fast as AR": report.faster(own, tpot[AR]),
        }
        by_method[row["method"]] = {name: every[name] for name in columns}
    return by_method


def lesson(file: str) -> dict[str, Any]:
    """Return the lessons' cells, the costs of forwards, the mean tokens of AR's answers, and the source."""
    timed = results.read_results(file)
    [ar] = [row for row in timed["rows"] if row["method"] == AR]
    source = [results.origin(timed), timed["machine"], report.prompts(timed), report.rounds(timed)]
    return {
        "source": " · ".join(source),
        "tokens": round(ar["tokens"] / timed["prompts"], 1),
        "costs": timed["costs"],
        "rows": cells(timed, "tokens per forward", "positions per forward", "as fast as AR"),
    }


def table(file: str | Path = FILE) -> str:
    timed = results.read_results(file)
    rows = cells(timed, "tokens per forward", "accuracy", "equal to AR's", "as fast as AR")
    library = [timed["library"]] if "library" in timed else []
    return report.shown([{"method": method} | row for method, row in rows.items()]) + report.source(
        timed, report.prompts(timed), report.rounds(timed), *library
    )


if __name__ == "__main__":
    report.run()
