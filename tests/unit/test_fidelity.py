"""Answers held against a reference: the same figures as transformers' own loss and plain counting give."""

import pytest
import torch
from greedy import check_tokens

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation.fidelity import COMPARED, Reference
from mars_demo.models.chat import encode_prompt
from mars_demo.serving.decode_batch import decode_batch

PROMPTS = [tasks.held_out(name, 1)[0].prompt for name in ("units", "stories", "reversing", "letters")]


@pytest.fixture(scope="module")
def reference(ar_tiny):
    return Reference(ar_tiny, PROMPTS, size=4, max_new_tokens=96)


def test_the_reference_answers_greedily(reference, ar_tiny):
    for prompt, run in zip(PROMPTS, reference.runs):
        alone = decode(ar_tiny, prompt, Request(mode="ar", max_new_tokens=96)).finish()
        check_tokens(ar_tiny, run, alone.token_ids)


def test_log_likelihood_is_the_loss_of_transformers(reference, ar_tiny, mars_tiny):
    runs = decode_batch(mars_tiny, PROMPTS, Request(tau=0.5, max_new_tokens=96)).finish().runs
    total = tokens = 0
    for prompt, run in zip(PROMPTS, runs):
        before = encode_prompt(ar_tiny.tokenizer, prompt)
        ids = torch.tensor([before + run.token_ids])
        labels = torch.tensor([[-100] * len(before) + run.token_ids])
        with torch.inference_mode():
            total -= ar_tiny.model(ids, labels=labels).loss.item() * run.tokens
        tokens += run.tokens
    assert reference.log_likelihood(runs) == pytest.approx(total / tokens, abs=1e-4)
    assert reference.log_likelihood(runs) < reference.log_likelihood(reference.runs)


def test_the_same_answers_agree_wholly(reference, ar_tiny):
    assert reference.prefix(reference.runs) == 1
    assert reference.agreement(ar_tiny) == 1


def test_divergence_is_that_of_the_distributions_after_the_reference_s_own_tokens(
    reference, ar_tiny, mars_tiny
):
    nats = []
    for prompt, run in zip(PROMPTS, reference.runs):
        before, ids = encode_prompt(ar_tiny.tokenizer, prompt), run.token_ids[:COMPARED]
        with torch.inference_mode():
            own, other = (
                c.model(torch.tensor([before + ids])).logits[0, len(before) - 1 : -1].softmax(-1).double()
                for c in (ar_tiny, mars_tiny)
            )
        nats += (own * (own / other).log()).nansum(-1).tolist()
    assert reference.divergence(mars_tiny) == pytest.approx(sum(nats) / len(nats), rel=1e-3)
    assert reference.divergence(ar_tiny) == pytest.approx(0, abs=1e-6)


def test_a_prefix_ends_at_the_first_difference(reference, mars_tiny):
    runs = decode_batch(mars_tiny, PROMPTS, Request(tau=0.3, max_new_tokens=96)).finish().runs
    shares = []
    for own, run in zip(reference.runs, runs):
        wanted, count = own.token_ids[:COMPARED], 0
        while count < min(len(wanted), run.tokens) and wanted[count] == run.token_ids[count]:
            count += 1
        shares.append(count / len(wanted))
    assert reference.prefix(runs) == pytest.approx(sum(shares) / 4)
    assert 0 < reference.prefix(runs) < 1


def test_choices_are_compared_behind_the_reference_s_own_tokens(reference, mars_tiny):
    same = total = 0
    for prompt, run in zip(PROMPTS, reference.runs):
        ids = run.token_ids[:COMPARED]
        for count in range(len(ids)):
            past = encode_prompt(mars_tiny.tokenizer, prompt) + ids[:count]
            with torch.inference_mode():
                same += mars_tiny.model(torch.tensor([past])).logits[0, -1].argmax().item() == ids[count]
            total += 1
    assert reference.agreement(mars_tiny) == pytest.approx(same / total)
