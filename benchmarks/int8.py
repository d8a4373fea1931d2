"""What quantization loses: next-token distributions in int8 against float32.

    python -m benchmarks.int8 [--model mars-smollm2-135m] [--prompts 136] [--max-new-tokens 160]

Both forms of the model read the same held-out prompts of all skills, each with its answer of AR in int8.
"""

from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from benchmarks import report
from mars_demo.core.layout import causal
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.task_sets import questions
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.precision import integer_kernel

FILE = "int8.json"
OPTIONS = {"model": "mars-smollm2-135m", "prompts": 136, "max_new_tokens": 160}


@torch.inference_mode()
def log_probabilities(checkpoint: Checkpoint, prompt: list[int], answer: list[int]) -> Tensor:
    """Return the log-probabilities [tokens, vocabulary] at each token of an answer."""
    layout, decoder = causal([*prompt, *answer[:-1]]), checkpoint.decoder
    return decoder.forward(decoder.new_text(), layout, first=len(prompt) - 1).log_softmax(-1)


def measure(model: str, prompts: int, max_new_tokens: int, output: Path) -> None:
    quantized, plain = load_checkpoint(model, "cpu", "int8"), load_checkpoint(model, "cpu", "float32")
    divergence, agreed, request = [], [], Request("ar", max_new_tokens=max_new_tokens)
    for question in tqdm(questions("skills", prompts), "prompts", unit="prompt", mininterval=1):
        answer = decode(quantized, question.prompt, request).finish().token_ids
        ids = encode_prompt(quantized.tokenizer, question.prompt)
        exact, rounded = (log_probabilities(form, ids, answer) for form in (plain, quantized))
        divergence.append((exact.exp() * (exact - rounded)).sum(-1))
        agreed.append(exact.argmax(-1) == rounded.argmax(-1))
    divergence, agreed = torch.cat(divergence), torch.cat(agreed)
    record = {
        "prompts": prompts,
        "kernel": integer_kernel(),
        "tokens": len(agreed),
        "divergence": divergence.mean().item(),
        "agreement": agreed.float().mean().item(),
    }
    report.save(output, results.machine(quantized), record)


def table(file: str | Path = FILE) -> str:
    measured = results.read_results(file)
    row = {
        "weights": "int8",
        "KL divergence from float32": f"{measured['divergence']:.4f}",
        "same most probable token": f"{measured['agreement']:.1%}",
    }
    size = f"{measured['tokens']:,} tokens of answers to {report.prompts(measured)}"
    return report.shown([row]) + report.source(measured, size)


if __name__ == "__main__":
    report.run()
