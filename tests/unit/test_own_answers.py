"""The clean stream's losses on a reference's own answers and on others."""

import copy
import itertools
import random
from dataclasses import replace
from functools import partial

import pytest
import torch
from random_models import random_model

from mars_demo.training import corpus
from mars_demo.training.corpus import Conversation
from mars_demo.training.objective import Objective, Reference, ar_batch, mars_batch

PAD, MASK = 0, 2
NOTHING = {"role": "user", "content": "Hi"}


def conversation(length: int, own: bool | None) -> Conversation:
    rng = random.Random(length)
    return Conversation(
        [rng.randrange(10, 300) for _ in range(length)], [False] * 4 + [True] * (length - 4), own
    )


@pytest.fixture(scope="module")
def pair(tokenizer):
    """A model and a reference that differs from it."""
    model = random_model("llama", tokenizer)
    reference = copy.deepcopy(model).requires_grad_(False)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    return model, reference


def losses(pair, talks, **settings):
    """Return the losses of conversations and the gradients of the model's weights."""
    model, reference = pair
    batch = settings.pop("batched", ar_batch)(talks, pad_id=PAD)
    objective = Objective(model, reference=Reference(reference, 3.0), **settings)
    found = objective(batch)
    return found, torch.autograd.grad(found["loss"], list(model.parameters()), allow_unused=True)


@pytest.mark.parametrize(
    "batched",
    [ar_batch, partial(mars_batch, block_size=4, mask_id=MASK, rng=random.Random(0), fixed_blocks=True)],
)
def test_own_answers_are_held_to_the_reference_and_others_are_learned(pair, batched):
    own, learned = conversation(19, True), conversation(12, False)
    both, gradients = losses(pair, [own, learned], sft_weight=2.0, batched=batched)
    held, of_own = losses(pair, [replace(own, own=None)], sft_weight=0.0, batched=batched)
    plain = Objective(pair[0], sft_weight=2.0)(batched([learned], pad_id=PAD))
    of_learned = torch.autograd.grad(plain["loss"], list(pair[0].parameters()), allow_unused=True)
    shares = [15 / 23, 8 / 23]  # of the clean targets; the noisy ones are one less each
    torch.testing.assert_close(both["reference"], shares[0] * held["reference"])
    if batched is ar_batch:
        expected = shares[0] * 3.0 * held["reference"] + shares[1] * plain["loss"].detach()
        torch.testing.assert_close(both["loss"].detach(), expected)
        for all_of_it, one, other in zip(gradients, of_own, of_learned):
            if all_of_it is not None:
                torch.testing.assert_close(
                    all_of_it, shares[0] * one + shares[1] * other, rtol=1e-3, atol=1e-6
                )
    else:
        noisy = (14 * held["noisy"] + 7 * plain["noisy"]) / 21
        torch.testing.assert_close(both["noisy"], noisy)


def test_an_answer_of_nobody_has_both_terms(pair):
    found, _ = losses(pair, [conversation(19, None)])
    expected = found["clean"] + 3.0 * found["reference"]
    torch.testing.assert_close(found["loss"].detach(), expected)
    assert found["reference"] > 0


def test_without_a_reference_every_answer_is_learned(pair):
    talks = [conversation(19, True), conversation(12, False)]
    marked, plain = (
        Objective(pair[0])(ar_batch(some, PAD)) for some in (talks, [replace(t, own=None) for t in talks])
    )
    torch.testing.assert_close(marked["loss"], plain["loss"])


@pytest.mark.parametrize(
    ("marks", "own"), [([True], True), ([False], False), ([None], None), ([True, None], None)]
)
def test_a_conversation_is_own_if_all_of_its_answers_are(tokenizer, marks, own):
    talk = []
    for mark in marks:
        talk += [
            NOTHING,
            {"role": "assistant", "content": "Hello"} | ({} if mark is None else {"own": mark}),
        ]
    assert corpus.encode(tokenizer, corpus.messages_of({"messages": talk})).own is own


def test_every_batch_of_a_mixture_holds_both_kinds(tokenizer):
    short = [[NOTHING, {"role": "assistant", "content": "Yes " * n, "own": False}] for n in range(1, 41)]
    long = [[NOTHING, {"role": "assistant", "content": "No " * n, "own": True}] for n in range(41, 81)]
    drawn = list(itertools.islice(corpus.batches([short + long], tokenizer, 2048, 512, seed=0), 4))
    for batch in drawn:
        assert abs(sum(c.own for c in batch) - len(batch) / 2) <= 1
        assert len(batch) * max(len(c.ids) for c in batch) <= 2048
