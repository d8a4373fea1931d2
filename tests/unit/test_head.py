"""The head's loss in parts is that of all logits at once."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax

from mars_demo.training import head
from mars_demo.training.head import Teacher, in_parts

WIDTH, VOCABULARY, COUNT = 12, 50, 23


@pytest.fixture
def data():
    """Hidden states, a teacher's hidden states, target tokens and their weights."""
    drawn = torch.Generator().manual_seed(0)
    hidden, states = torch.randn(2, COUNT, WIDTH, generator=drawn, dtype=torch.float64)
    ids = torch.randint(VOCABULARY, (COUNT,), generator=drawn)
    weights = torch.rand(COUNT, generator=drawn, dtype=torch.float64)
    return hidden.requires_grad_(), states, ids, weights


@pytest.mark.parametrize(
    ("rows", "teaching", "bias"),
    [
        (1, None, True),
        (7, None, False),
        (7, "itself", True),
        (23, "another", True),
        (100, "another", False),
    ],
)
def test_loss_and_gradients_are_those_of_all_logits_at_once(monkeypatch, data, rows, teaching, bias):
    monkeypatch.setattr(head, "ROWS", rows)
    torch.manual_seed(0)
    output = nn.Linear(WIDTH, VOCABULARY, bias=bias, dtype=torch.float64)
    another = nn.Linear(WIDTH, VOCABULARY, dtype=torch.float64)
    hidden, states, ids, weights = data
    logits = output(hidden).float()  # as everywhere, whatever the weights are in
    nats = cross_entropy(logits, ids, reduction="none")
    expected, kl, teacher = (weights * nats).sum(), torch.zeros(()), None
    if teaching:
        teacher = Teacher({"itself": output, "another": another}[teaching], states, torch.tensor(0.3))
        wanted = teacher.head(states).float().softmax(-1).detach()
        kl = (wanted * (wanted.log() - log_softmax(logits, -1))).sum()
        expected = expected + teacher.weight * kl
    found = in_parts(output, hidden, ids, weights, teacher)
    torch.testing.assert_close(found[:2] + found[3:], (expected, nats, kl))
    assert torch.equal(found.right, logits.argmax(-1) == ids)
    inputs = [hidden, *output.parameters()]
    torch.testing.assert_close(  # whatever comes after the loss scales its gradient
        torch.autograd.grad(2 * found.loss, inputs), torch.autograd.grad(2 * expected, inputs)
    )


def test_a_frozen_head_has_no_gradient_but_passes_one_on(data):
    output = nn.Linear(WIDTH, VOCABULARY, bias=False, dtype=torch.float64).requires_grad_(False)
    hidden, _, ids, weights = data
    in_parts(output, hidden, ids, weights).loss.backward()
    assert output.weight.grad is None and hidden.grad.abs().sum() > 0
