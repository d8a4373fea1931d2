"""How close one model's answers are to another's: what training and packing must preserve."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch.nn.functional import kl_div

from mars_demo.decoding.engine import Engine
from mars_demo.decoding.layout import causal
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.serving.decode_batch import decode_batch

COMPARED = 64  # tokens of an answer: after their first difference two answers have little in common


class Reference:
    """A model's greedy answers to prompts, with which other models are compared."""

    def __init__(self, checkpoint: Checkpoint, prompts: Sequence[str], size: int, max_new_tokens: int):
        self.checkpoint, self.prompts = checkpoint, list(prompts)
        request = Request(mode="ar", max_new_tokens=max_new_tokens)
        self.runs = decode_batch(checkpoint, prompts, request, size=size).finish().runs

    def log_likelihood(self, runs: Sequence[Run]) -> float:
        """Mean log-probability, in nats per token, that the reference gives to answers to its prompts."""
        scores = [
            _scores(self.checkpoint, prompt, run.token_ids).log_softmax(-1)[
                range(run.tokens), run.token_ids
            ]
            for prompt, run in zip(self.prompts, runs)
        ]
        return torch.cat(scores).mean().item()

    def prefix(self, runs: Sequence[Run]) -> float:
        """Mean share of the reference's first `COMPARED` tokens that come before the first difference."""
        shares = []
        for own, run in zip(self.runs, runs):
            wanted = own.token_ids[:COMPARED]
            pairs = itertools.zip_longest(wanted, run.token_ids[: len(wanted)])
            same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
            shares.append(same / len(wanted))
        return sum(shares) / len(shares)

    def agreement(self, checkpoint: Checkpoint) -> float:
        """The share of the reference's first `COMPARED` tokens that `checkpoint` would choose too, given
        the reference's tokens before them."""
        same = []
        for prompt, run in zip(self.prompts, self.runs):
            ids = run.token_ids[:COMPARED]
            choices = _scores(checkpoint, prompt, ids).argmax(-1)
            same.append(choices == torch.tensor(ids, device=choices.device))
        return torch.cat(same).float().mean().item()

    def divergence(self, checkpoint: Checkpoint) -> float:
        """How far, in nats per token, `checkpoint`'s distributions are from the reference's (KL), given the
        reference's first `COMPARED` tokens."""
        nats = []
        for prompt, run in zip(self.prompts, self.runs):
            ids = run.token_ids[:COMPARED]
            own, other = (_scores(c, prompt, ids).log_softmax(-1) for c in (self.checkpoint, checkpoint))
            nats.append(kl_div(other, own, reduction="none", log_target=True).sum(-1))
        return torch.cat(nats).mean().item()


@torch.inference_mode()
def _scores(checkpoint: Checkpoint, prompt: str, answer: list[int]) -> torch.Tensor:
    """[len(answer), vocabulary] logits in float32 of an answer's tokens."""
    prompt_ids = encode_prompt(checkpoint.tokenizer, prompt)
    layout = causal([*prompt_ids, *answer[:-1]])
    return Engine(checkpoint.decoder).forward(layout, first=len(prompt_ids) - 1)
