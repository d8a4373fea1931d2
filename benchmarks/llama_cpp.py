"""Quantized decoding against llama.cpp with as many bits per weight, and transformers' `generate`.

    pip install cyllama==0.2.18
    python -m benchmarks.llama_cpp [--model mars-smollm2-135m] [--prompts 17] [--rounds 3] [--output FILE]

The batch size is 1. llama.cpp decodes the same weights in Q8_0, greedily, with as many threads. Its own
sampler chooses the tokens, so that no logits pass through Python. Methods take turns prompt by prompt.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import median

import torch

from benchmarks import tables
from benchmarks.speed import Answer, recorded, transformers_generate
from benchmarks.timing import take_turns
from mars_demo import tasks
from mars_demo.decoding.pace import measured
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.task_sets import MAX_NEW_TOKENS, task_set
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.quantization import q8_0

FILE = "llama-cpp.json"
CONTEXT = 1024  # positions reserved in llama.cpp


class LlamaCpp:
    """A GGUF model in llama.cpp with greedy decoding."""

    def __init__(self, file: Path, ends: frozenset[int]):
        from cyllama.llama import llama_cpp  # only this benchmark needs it

        self._library, self._ends = llama_cpp, ends
        llama_cpp.disable_logging()
        parameters = llama_cpp.LlamaModelParams()
        parameters.n_gpu_layers = 0
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


def methods(quantized: Checkpoint, llama: LlamaCpp, limit: int) -> dict[str, Answer]:
    dense = quantized.dense

    def theirs(prompt: str) -> tuple[int, int]:
        answer = llama.generate(encode_prompt(quantized.tokenizer, prompt), limit)
        return len(answer), len(answer)

    def ours(mode: str, **settings) -> Answer:
        request = Request(mode, max_new_tokens=limit, **settings)
        return lambda prompt: recorded(quantized, prompt, request)

    return {
        "llama.cpp, Q8_0": theirs,
        f"transformers generate, {dense.precision}": lambda prompt: transformers_generate(
            dense, prompt, limit
        ),
        f"ar, {quantized.precision}": ours("ar"),
        f"lossless, {quantized.precision}, adaptive": ours("lossless", adaptive=True),
        f"mars τ = 0.95, {quantized.precision}, adaptive": ours("mars", tau=0.95, adaptive=True),
        f"mars τ = 0.8, {quantized.precision}, adaptive": ours("mars", tau=0.8, adaptive=True),
    }


def measure(
    model: str, prompts: int, rounds: int, max_new_tokens: int, output: Path
) -> None:  # fmt: skip
    quantized = measured(load_checkpoint(model, "cpu", "int8"))
    answered = [question.prompt for question in task_set("skills").questions(prompts)]
    with tempfile.TemporaryDirectory() as folder:
        llama = LlamaCpp(q8_0.write(quantized.dense, Path(folder))[0], quantized.end_ids)
        timed = take_turns(methods(quantized, llama, max_new_tokens), answered, rounds)
    rows = [{"method": name} | one.counts() for name, one in timed.items()]
    size = {"prompts": len(answered), "max_new_tokens": max_new_tokens}
    results.write(output, results.machine(quantized), size | {"rows": rows})


def table(file: str | Path = FILE) -> str:
    """Return the table; it compares TPOT, because answers may differ in length."""
    measured = results.read(file)
    per_token = {
        row["method"]: [seconds / row["tokens"] for seconds in row["seconds"]] for row in measured["rows"]
    }
    base = next(iter(per_token.values()))
    rows = [
        {
            "method": row["method"],
            "tokens per forward": tables.per_forward(row),
            "TPOT, ms": f"{1000 * median(per_token[row['method']]):.1f}",
            "as fast as llama.cpp": tables.faster(per_token[row["method"]], base),
        }
        for row in measured["rows"]
    ]
    return tables.shown(rows) + tables.source(measured, tables.prompts(measured), tables.rounds(measured))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-smollm2-135m")
    parser.add_argument(
        "--prompts", type=int, default=len(tasks.SKILLS), help="taken from the skills in turn"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=MAX_NEW_TOKENS)
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
