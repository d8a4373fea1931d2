"""The head's loss in parts is that of all logits at once."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax

from mars_demo.training import head
from mars_demo.training.head import Targets, Teacher, in_parts

WIDTH, VOCABULARY, COUNT = 12, 50, 23


def data(teaching: nn.Module | None = None) -> tuple[torch.Tensor, Targets]:
    """teaching: the head of a teacher, if there is to be one."""
    drawn = torch.Generator().manual_seed(0)
    hidden, states = torch.randn(2, COUNT, WIDTH, generator=drawn, dtype=torch.float64)
    ids = torch.randint(VOCABULARY, (COUNT,), generator=drawn)
    weights = torch.rand(COUNT, generator=drawn, dtype=torch.float64)
    teacher = teaching and Teacher(teaching, states, torch.tensor(0.3))
    return hidden.requires_grad_(), Targets(ids, weights, teacher)


@pytest.mark.parametrize(
    ("rows", "teaching", "bias"),
    [
        (1, None, True),
        (7, None, False),
        (7, "itself", True),
        (23, "itself", False),
        (23, "another", True),
        (100, "another", False),
    ],
)
def test_loss_and_gradients_are_those_of_all_logits_at_once(monkeypatch, rows, teaching, bias):
    monkeypatch.setattr(head, "ROWS", rows)
    torch.manual_seed(0)
    output = nn.Linear(WIDTH, VOCABULARY, bias=bias, dtype=torch.float64)
    another = nn.Linear(WIDTH, VOCABULARY, dtype=torch.float64)
    teaching = {"itself": output, "another": another}.get(teaching)
    hidden, targets = data(teaching)
    logits = output(hidden).float()  # as everywhere, whatever the weights are in
    nats = cross_entropy(logits, targets.ids, reduction="none")
    expected = (targets.weights * nats).sum()
    kl = torch.zeros(())
    if teaching:
        wanted = teaching(targets.teacher.hidden).float().softmax(-1).detach()
        kl = (wanted * (wanted.log() - log_softmax(logits, -1))).sum()
        expected = expected + targets.teacher.weight * kl
    inputs = [hidden, *output.parameters()]
    found = in_parts(output, hidden, targets)
    torch.testing.assert_close(found.loss, expected)
    torch.testing.assert_close(found.nats, nats)
    torch.testing.assert_close(found.kl, kl)
    assert torch.equal(found.right, logits.argmax(-1) == targets.ids)
    # Whatever comes after the loss scales its gradient.
    torch.testing.assert_close(
        torch.autograd.grad(2 * found.loss, inputs), torch.autograd.grad(2 * expected, inputs)
    )


def test_a_frozen_head_has_no_gradient_but_passes_one_on():
    output = nn.Linear(WIDTH, VOCABULARY, bias=False, dtype=torch.float64).requires_grad_(False)
    hidden, targets = data()
    in_parts(output, hidden, targets).loss.backward()
    assert output.weight.grad is None and hidden.grad.abs().sum() > 0


def test_without_gradients_only_the_loss_is_computed():
    output = nn.Linear(WIDTH, VOCABULARY, dtype=torch.float64)
    hidden, targets = data(output)
    expected = in_parts(output, hidden, targets)
    with torch.inference_mode():
        found = in_parts(output, hidden, targets)
    torch.testing.assert_close(found.loss, expected.loss.detach())
    assert not found.loss.requires_grad
