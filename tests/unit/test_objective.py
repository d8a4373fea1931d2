"""The two-stream loss: targets, leakage, and agreement with what decoding sees."""

import copy
import random
from dataclasses import replace

import pytest
import torch
from random_models import random_model
from torch import nn
from torch.nn.attention import flex_attention
from torch.nn.attention.flex_attention import create_mask
from torch.nn.functional import cross_entropy, log_softmax
from training_batches import MASK, PAD, conversation, diffusion, mars, one_per_row
from transformers.integrations.flex_attention import WrappedFlexAttention

from mars_demo.training import corpus, head
from mars_demo.training.attention import FLEX, SDPA
from mars_demo.training.batch import batch_of
from mars_demo.training.blocks import SIZE, block_mask
from mars_demo.training.corpus import TokenizedConversation
from mars_demo.training.head import Teacher, in_parts
from mars_demo.training.objective import Objective, Reference
from mars_demo.training.two_streams import IGNORE, ar


@pytest.fixture(scope="module")
def model(tokenizer):
    return random_model("llama", tokenizer, head_dim=16)  # the minimum of the kernels of FlexAttention


@pytest.fixture(scope="module")
def pair(model):
    """Return a model and a reference with other weights."""
    reference = copy.deepcopy(model).requires_grad_(False)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    return model, reference


def hidden_states(model, layout):
    return model.base_model(
        input_ids=layout.ids, position_ids=layout.positions, attention_mask=layout.visible[:, None]
    ).last_hidden_state


def masks_of(batch, row=0):
    """Yield (index, position, block start) of each real mask.

    A mask sees the clean tokens before its block: its last visible clean position + 1 is the block start.
    """
    layout, clean = batch.layout, batch.is_clean[row].sum()
    for index in range(clean, layout.ids.shape[1]):
        if batch.targets[row, index] != IGNORE:
            sees = layout.visible[row, index, :clean].nonzero().flatten().tolist()
            yield index, layout.positions[row, index].item(), sees[-1] + 1


@pytest.mark.parametrize(
    ("block_size", "phase", "decay"),
    [(1, 0, 1.0), (4, 3, 1.0), (8, 0, 0.5), (16, 0, 1.0), (16, 5, 0.9), (16, 15, 1.0)],
)
def test_the_loss_equals_that_of_plain_windows(model, block_size, phase, decay):
    """Compute the loss block by block with the ordinary model.

    Each mask of `[prefix, MASK, …]` predicts the token after its position. The clean stream has the loss of
    the ordinary model on the text. Losses per slot have no weights.
    """
    sequences = [conversation(6, 40), conversation(3, 20, 1)]
    nats: dict[int, list] = {slot: [] for slot in range(1, block_size + 2)}
    for sequence in sequences:
        ids, answer = sequence.ids, sequence.response.index(True)
        clean = model(torch.tensor([ids])).logits[0]
        for target in range(answer, len(ids)):
            nats[1].append(cross_entropy(clean[target - 1], torch.tensor(ids[target])))
        bounds = [answer, *range(answer + block_size - phase, len(ids), block_size), len(ids)]
        for start, end in zip(bounds, bounds[1:]):
            masks = min(end, len(ids) - 1) - start  # the last token of an answer has no next token
            logits = model(torch.tensor([ids[:start] + [MASK] * masks])).logits[0]
            for mask in range(masks):
                target = torch.tensor(ids[start + mask + 1])
                nats[mask + 2].append(cross_entropy(logits[start + mask], target))
    settings = {"block_size": block_size, "slot_decay": decay}
    batch = one_per_row(mars, sequences, rng=_Phases([phase, phase]), **settings)
    losses = Objective(sft_weight=0.5)(model, batch)
    noisy = [(loss, decay ** (slot - 2)) for slot, terms in nats.items() if slot > 1 for loss in terms]
    expected = sum(loss * weight for loss, weight in noisy) / sum(weight for _, weight in noisy)
    torch.testing.assert_close(losses["noisy"], expected)
    torch.testing.assert_close(losses["clean"], torch.stack(nats[1]).mean())
    torch.testing.assert_close(losses["loss"], losses["noisy"] + 0.5 * losses["clean"])
    for slot, terms in nats.items():
        count, summed, _ = losses["slots"][slot - 1]
        assert count == len(terms)
        torch.testing.assert_close(summed, sum(terms, torch.zeros(())))
    assert (losses["slots"][block_size + 1 :] == 0).all()


class _Phases:
    """A random generator that returns the given block phases in order."""

    def __init__(self, phases):
        self.phases = list(phases)

    def randrange(self, _):
        return self.phases.pop(0)


def test_block_phase_varies_between_answers():
    sequences = [conversation(4, 24, seed) for seed in range(40)]
    batch = one_per_row(mars, sequences, block_size=8, rng=random.Random(0))
    second = {sorted({s for *_, s in masks_of(batch, row)})[1] for row in range(40)}
    assert second == set(range(5, 13))  # the first block starts at position 4 and has 1 to 8 masks


def turns() -> TokenizedConversation:
    """Return two questions with answers; another question follows the second answer."""
    rng = random.Random(4)
    response = [False] * 3 + [True] * 5 + [False] * 4 + [True] * 6 + [False] * 2
    return TokenizedConversation([rng.randrange(10, 300) for _ in response], response)


def test_each_answer_of_a_conversation_has_its_own_blocks():
    """Train no prediction across the end of an answer."""
    sequence, phases = turns(), _Phases([1, 2])
    batch = one_per_row(mars, [sequence], rng=phases)
    assert not phases.phases
    predicting = [3, 4, 5, 6, 12, 13, 14, 15, 16]  # followed by a token of the same answer
    starts = [3, 3, 3, 6, 12, 12, 14, 14, 14]
    assert [(position, start) for _, position, start in masks_of(batch)] == list(zip(predicting, starts))
    for index, position, start in masks_of(batch):
        assert batch.targets[0, index] == sequence.ids[position + 1]
        assert batch.slots[0, index] == position - start + 2
    assert batch.layout.ids[0].tolist() == sequence.ids + [MASK] * len(predicting)
    clean = [t for t in range(len(sequence.ids)) if batch.targets[0, t] != IGNORE]
    assert clean == [2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16]  # including the first token of each answer


def test_fixed_blocks_begin_with_the_answer():
    batch = one_per_row(mars, [conversation(4, 24)], block_size=8, fixed_blocks=True)
    assert {start for *_, start in masks_of(batch)} == {4, 12, 20}


TALKS = [  # written by the reference model, by another one, and by either
    conversation(3, 7, 2, own=False),
    conversation(5, 30),
    conversation(9, 12, 1, own=True),
    conversation(8, 21, 4, own=False),
    conversation(2, 5, 3),
]
ATTENTION = [(SDPA, "cpu"), (FLEX, "cpu"), *([(FLEX, "cuda")] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize(("attention", "device"), ATTENTION)
@pytest.mark.parametrize("length", [None, 160])
@pytest.mark.parametrize(
    ("make", "taught"), [(ar, False), (mars, False), (mars, True), (diffusion, False)]
)  # fmt: skip
def test_conversations_in_shared_rows_have_the_loss_and_gradients_of_each_alone(
    pair, make, taught, length, attention, device, monkeypatch
):
    if device == "cpu":
        # The fused kernel has no backward pass on a CPU; the unfused FlexAttention has one.
        monkeypatch.setattr(flex_attention, "_validate_device", lambda *tensors: None)
        monkeypatch.setattr(torch, "compile", lambda function, **options: function)
        monkeypatch.setattr(WrappedFlexAttention, "_instance", None)
    model, reference = (copy.deepcopy(one).to(device) for one in pair)
    objective = Objective(0.5, Reference(reference, 3.0) if taught else None)
    streams = [make(one) for one in TALKS]
    batch = batch_of([streams[:3], [streams[3]], [streams[4]]], PAD, length, taught)

    alone = [
        objective(model, batch_of([[one]], PAD, reference=taught), batch.totals.to(device))
        for one in streams
    ]
    sum(one["loss"] for one in alone).backward()
    expected = {name: weights.grad.clone() for name, weights in model.named_parameters()}
    model.zero_grad()
    for one in (model, reference):
        one.set_attn_implementation(attention)
    losses = objective(model, batch)
    losses["loss"].backward()
    assert losses.keys() == set().union(*alone)
    for name, loss in losses.items():
        torch.testing.assert_close(loss, sum(one[name] for one in alone if name in one))
    gradients = {name: weights.grad for name, weights in model.named_parameters()}
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-5)


def test_right_guesses_are_counted_per_slot(model):
    """Replace every third target by the model's prediction, so that some are right."""
    batch = one_per_row(mars, [conversation(5, 30)])
    predictions = model.get_output_embeddings()(hidden_states(model, batch.layout)).argmax(-1)
    has_target = batch.targets != IGNORE
    third = has_target & (torch.arange(has_target.shape[1])[None] % 3 == 0)
    batch = replace(batch, targets=torch.where(third, predictions, batch.targets))
    right = Objective()(model, batch)["slots"][:, 2]
    for slot in range(1, 6):
        here = has_target & (batch.slots == slot)
        expected = (predictions[here] == batch.targets[here]).sum()
        assert 0 < expected < here.sum()
        assert right[slot - 1] == expected


@pytest.mark.parametrize("make", [ar, mars])
def test_the_reference_term_is_the_kl_divergence_of_the_clean_stream(pair, make):
    """Compare the term and its gradient with those from transformers' logits, sequence by sequence."""
    model, reference = pair
    talks = [conversation(5, 12), conversation(3, 9, 1)]
    total, count = 0.0, 0
    for talk in talks:
        ids = torch.tensor([talk.ids])
        answers = [place for place in range(len(talk.ids) - 1) if talk.response[place + 1]]
        target, output = (one(ids).logits[0, answers].log_softmax(-1) for one in (reference, model))
        total = total + (target.exp() * (target - output)).sum()
        count += len(answers)
    weights = list(model.parameters())
    expected = torch.autograd.grad(3.0 * total / count, weights)
    with_it, without = (
        Objective(reference=one)(model, one_per_row(make, talks, reference=one is not None))
        for one in (Reference(reference, 3.0), None)
    )
    torch.testing.assert_close(with_it["reference"], (total / count).detach())
    torch.testing.assert_close(with_it["loss"], without["loss"] + 3.0 * with_it["reference"])
    gradients = (torch.autograd.grad(one["loss"], weights) for one in (with_it, without))
    for of_both, of_one, gradient in zip(*gradients, expected):
        torch.testing.assert_close(of_both - of_one, gradient, rtol=1e-3, atol=1e-5)


def test_the_loss_of_block_diffusion_equals_that_of_plain_denoising(model):
    """Compute the loss block by block with the ordinary model: causal prompt, bidirectional blocks.

    Each of the m masks of a block has the weight (tokens of the block) / m.
    """
    sequences = [conversation(4, 14), conversation(7, 9, 1)]
    batch = one_per_row(diffusion, sequences, rng=random.Random(2))
    total = 0.0
    for row, sequence in enumerate(sequences):
        ids, prompt = sequence.ids, sequence.response.index(True)
        for start in range(prompt, len(ids), 4):
            end = min(start + 4, len(ids))
            copied = slice(len(ids) + start - prompt, len(ids) + end - prompt)
            block = batch.layout.ids[row, copied].tolist()
            masked = [place for place, token in enumerate(block) if token == MASK]
            visible = torch.ones(end, end, dtype=torch.bool).tril()
            for first in range(prompt, end, 4):
                visible[first : first + 4, first : first + 4] = True
            logits = model(
                torch.tensor([ids[:start] + block]),
                attention_mask=visible[None, None],
                position_ids=torch.arange(end)[None],
            ).logits[0, start:]
            targets = torch.tensor(ids[start:end])
            nats = cross_entropy(logits[masked], targets[masked], reduction="sum")
            total = total + nats * len(block) / len(masked)
            assert batch.slots[row, copied].tolist() == list(range(1, len(block) + 1))
    losses = Objective()(model, batch)
    torch.testing.assert_close(losses["loss"], total / (14 + 9))
    assert "clean" not in losses


def test_a_block_of_block_diffusion_has_any_number_of_masks_anywhere():
    talks = [conversation(2, 4, seed) for seed in range(800)]
    batch = one_per_row(diffusion, talks, rng=random.Random(0))
    masked = batch.layout.ids[:, 6:] == MASK
    shares = masked.sum(1).bincount(minlength=5)[1:] / 800
    assert shares.sum() == 1
    assert shares.tolist() == pytest.approx([1 / 4] * 4, abs=0.07)
    assert masked.float().mean(0).tolist() == pytest.approx([5 / 8] * 4, abs=0.07)


# -------------------------------------------------------------------- answers of the reference, and others


@pytest.mark.parametrize("make", [ar, mars])
def test_own_answers_get_the_reference_term_and_others_the_sft_loss(pair, make):
    """Compare with each answer alone, which has one noisy target less than clean ones."""
    model, reference = pair
    own, learned = conversation(4, 15, own=True), conversation(4, 8, 1, own=False)
    teacher = Reference(reference, 3.0)
    both = Objective(2.0, teacher)(model, one_per_row(make, [own, learned], reference=True))
    taught = Objective(0.0, teacher)(model, one_per_row(make, [replace(own, own=None)], reference=True))
    plain = Objective(2.0)(model, one_per_row(make, [learned]))
    expected = (15 * 3.0 * taught["reference"] + 8 * 2.0 * plain["clean"]) / 23
    if make is mars:
        expected += (14 * taught["noisy"] + 7 * plain["noisy"]) / 21
    torch.testing.assert_close(both["loss"].detach(), expected)
    torch.testing.assert_close(both["reference"], 15 / 23 * taught["reference"])


@pytest.mark.parametrize(
    ("marks", "own"), [([True], True), ([False], False), ([None], None), ([True, None], None)]
)
def test_a_conversation_is_own_if_all_of_its_answers_are(tokenizer, marks, own):
    talk = []
    for mark in marks:
        answer = {"role": "assistant", "content": "Hello"} | ({} if mark is None else {"own": mark})
        talk += [{"role": "user", "content": "Hi"}, answer]
    [conversation] = corpus.encode(tokenizer, corpus.messages_of({"messages": talk}))
    assert conversation.own is own


# --------------------------------------------------------------------------------- blocks of FlexAttention

LENGTHS = [(40, 300), (9, 12), (400, 131), (1, 3)]  # (prompt, answer) lengths


def conversations() -> list[TokenizedConversation]:
    return [TokenizedConversation([7] * (p + a), [False] * p + [True] * a) for p, a in LENGTHS]


BATCHES = {
    "ar": lambda: one_per_row(ar, conversations()),
    "mars": lambda: one_per_row(mars, conversations()),
    "block diffusion": lambda: one_per_row(diffusion, conversations(), block_size=200),
    "one row": lambda: batch_of([[mars(one) for one in conversations()]], PAD, 2000),
}


def listed(counts, which) -> torch.Tensor:
    """Return a boolean [blocks, blocks] matrix of the blocks in a list."""
    chosen = torch.zeros(which.shape[-2:], dtype=torch.bool)
    for row, (count, columns) in enumerate(zip(counts[0, 0].tolist(), which[0, 0].tolist())):
        chosen[row, columns[:count]] = True
    return chosen


@pytest.mark.parametrize("kind", BATCHES)
def test_blocks_equal_those_of_the_boolean_mask(kind):
    batch = BATCHES[kind]()
    layout, (in_one_row, spans) = batch.layout, batch.positions.in_one_row()
    expected = torch.block_diag(*layout.visible.int()).bool()
    mask = block_mask(spans)
    assert torch.equal(in_one_row.ids[0], layout.ids.flatten())
    assert torch.equal(in_one_row.positions[0], layout.positions.flatten())
    count = len(expected)
    assert torch.equal(create_mask(mask.mask_mod, 1, 1, count, count, "cpu")[0, 0], expected)
    blocks = torch.nn.functional.pad(expected, 2 * (0, -count % SIZE)).unflatten(0, (-1, SIZE))
    blocks = blocks.unflatten(-1, (-1, SIZE)).transpose(1, 2).flatten(2)
    whole = blocks.all(-1)
    assert torch.equal(listed(mask.full_kv_num_blocks, mask.full_kv_indices), whole)
    assert torch.equal(listed(mask.kv_num_blocks, mask.kv_indices), blocks.any(-1) & ~whole)
    assert mask.seq_lengths == (count, count)


# --------------------------------------------------------------------------- the loss of the head in parts

WIDTH, VOCABULARY, COUNT = 12, 50, 23


@pytest.fixture
def data():
    """Return hidden states, hidden states of a teacher, target tokens and their weights."""
    generator = torch.Generator().manual_seed(0)
    hidden, states = torch.randn(2, COUNT, WIDTH, generator=generator, dtype=torch.float64)
    ids = torch.randint(VOCABULARY, (COUNT,), generator=generator)
    weights = torch.rand(COUNT, generator=generator, dtype=torch.float64)
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
def test_loss_and_gradients_in_parts_equal_those_of_all_logits(monkeypatch, data, rows, teaching, bias):
    monkeypatch.setattr(head, "ROWS", rows)
    torch.manual_seed(0)
    output = nn.Linear(WIDTH, VOCABULARY, bias=bias, dtype=torch.float64)
    another = nn.Linear(WIDTH, VOCABULARY, dtype=torch.float64)
    hidden, states, ids, weights = data
    logits = output(hidden).float()  # losses use float32 logits for weights of any dtype
    nats = cross_entropy(logits, ids, reduction="none")
    expected, kl, teacher = (weights * nats).sum(), torch.zeros(()), None
    if teaching:
        teacher = Teacher({"itself": output, "another": another}[teaching], states, torch.tensor(0.3))
        p = teacher.head(states).float().softmax(-1).detach()
        kl = (p * (p.log() - log_softmax(logits, -1))).sum()
        expected = expected + teacher.weight * kl
    result = in_parts(output, hidden, ids, weights, teacher)
    torch.testing.assert_close(result[:2] + result[3:], (expected, nats, kl))
    assert torch.equal(result.right, logits.argmax(-1) == ids)
    inputs = [hidden, *output.parameters()]
    torch.testing.assert_close(  # operations after the loss scale its gradient
        torch.autograd.grad(2 * result.loss, inputs), torch.autograd.grad(2 * expected, inputs)
    )


def test_a_frozen_head_has_no_gradient_but_passes_one_on(data):
    output = nn.Linear(WIDTH, VOCABULARY, bias=False, dtype=torch.float64).requires_grad_(False)
    hidden, _, ids, weights = data
    in_parts(output, hidden, ids, weights).loss.backward()
    assert output.weight.grad is None and hidden.grad.abs().sum() > 0
