"""The two-stream loss: its targets, what may leak into it, and that training sees what decoding sees."""

import copy
import random
from dataclasses import replace
from functools import partial

import pytest
import torch
from random_models import random_model
from torch.nn.attention import flex_attention
from torch.nn.functional import cross_entropy
from transformers.integrations.flex_attention import WrappedFlexAttention

from mars_demo.training.corpus import Conversation
from mars_demo.training.objective import (
    IGNORE,
    Objective,
    Reference,
    ar_batch,
    diffusion_batch,
    mars_batch,
)

PAD, MASK = 0, 2


def conversation(prompt: int, answer: int, seed: int = 0) -> Conversation:
    rng = random.Random(seed)
    ids = [rng.randrange(10, 300) for _ in range(prompt + answer)]
    return Conversation(ids, [False] * prompt + [True] * answer)


@pytest.fixture(scope="module")
def model(tokenizer):
    return random_model("llama", tokenizer)


def hidden_states(model, layout):
    return model.base_model(
        input_ids=layout.ids, position_ids=layout.positions, attention_mask=layout.visible[:, None]
    ).last_hidden_state


def masks_of(batch, row=0):
    """(index, position, block start) of each real mask: the clean tokens it sees are those before its
    block, so its last visible clean position + 1 is the block's start."""
    layout, clean = batch.layout, batch.clean_length
    for index in range(clean, layout.ids.shape[1]):
        if batch.targets[row, index] != IGNORE:
            sees = layout.visible[row, index, :clean].nonzero().flatten().tolist()
            yield index, layout.positions[row, index].item(), sees[-1] + 1


def test_no_mask_depends_on_its_target_the_future_or_another_block(model):
    """Changing a clean token may change a mask's output only if it lies before the mask's block; changing
    one mask's embedding only masks behind it in the same block."""
    sequence = conversation(4, 20)
    batch = mars_batch([sequence], 4, MASK, PAD, random.Random(3))
    before = hidden_states(model, batch.layout)
    for changed in range(len(sequence.ids)):
        ids = batch.layout.ids.clone()
        ids[0, changed] = 301
        after = hidden_states(model, replace(batch.layout, ids=ids))
        differs = (after - before).abs().amax(-1)[0] > 1e-6
        for index, position, start in masks_of(batch):
            assert differs[index] == (changed < start), (changed, position, start)
        assert not differs[:changed].any()
    masks = list(masks_of(batch))
    for changed, changed_position, changed_start in masks:
        ids = batch.layout.ids.clone()
        ids[0, changed] = 301
        after = hidden_states(model, replace(batch.layout, ids=ids))
        differs = (after - before).abs().amax(-1)[0] > 1e-6
        assert not differs[: batch.clean_length].any()
        for index, position, start in masks:
            assert differs[index] == (start == changed_start and position >= changed_position)


@pytest.mark.parametrize(("block_size", "phase"), [(1, 0), (4, 3), (8, 0), (16, 0), (16, 5), (16, 15)])
def test_the_loss_is_that_of_plain_windows(model, block_size, phase):
    """Block by block: the ordinary model on `[prefix, MASK, …]`, each mask with the token after its own
    place. The clean stream's loss is that of the ordinary model on the text."""
    sequences = [conversation(6, 40), conversation(3, 20, 1)]
    nats: dict[int, list] = {slot: [] for slot in range(1, block_size + 2)}
    for sequence in sequences:
        ids, answer = sequence.ids, sequence.response.index(True)
        clean = model(torch.tensor([ids])).logits[0]
        for target in range(answer, len(ids)):
            nats[1].append(cross_entropy(clean[target - 1], torch.tensor(ids[target])))
        bounds = [answer, *range(answer + block_size - phase, len(ids), block_size), len(ids)]
        for start, end in zip(bounds, bounds[1:]):
            masks = min(end, len(ids) - 1) - start  # the last token of an answer has no successor
            logits = model(torch.tensor([ids[:start] + [MASK] * masks])).logits[0]
            for mask in range(masks):
                target = torch.tensor(ids[start + mask + 1])
                nats[mask + 2].append(cross_entropy(logits[start + mask], target))
    losses = Objective(model)(mars_batch(sequences, block_size, MASK, PAD, _Phases([phase, phase])))
    noisy = [loss for slot, found in nats.items() if slot > 1 for loss in found]
    torch.testing.assert_close(losses["noisy"], torch.stack(noisy).mean())
    torch.testing.assert_close(losses["clean"], torch.stack(nats[1]).mean())
    torch.testing.assert_close(losses["loss"], losses["noisy"] + losses["clean"])
    for slot, found in nats.items():
        count, summed, _ = losses["slots"][slot - 1]
        assert count == len(found)
        torch.testing.assert_close(summed, sum(found, torch.zeros(())))
    assert (losses["slots"][block_size + 1 :] == 0).all()


class _Phases:
    """Draws the given block phases one after the other."""

    def __init__(self, phases):
        self.phases = list(phases)

    def randrange(self, _):
        return self.phases.pop(0)


def test_ar_loss_is_transformers_own_loss_on_the_answer(model):
    sequence = conversation(5, 12)
    labels = torch.tensor([[t if r else -100 for t, r in zip(sequence.ids, sequence.response)]])
    expected = model(input_ids=torch.tensor([sequence.ids]), labels=labels).loss
    losses = Objective(model)(ar_batch([sequence], PAD))
    torch.testing.assert_close(losses["loss"], expected)
    assert "noisy" not in losses


def test_mars_loss_is_noisy_plus_lambda_times_clean(model):
    batch = mars_batch([conversation(5, 12)], 4, MASK, PAD, random.Random(0))
    plain = Objective(model)(batch)
    for weight in (0.5, 0.0):
        losses = Objective(model, sft_weight=weight)(batch)
        torch.testing.assert_close(losses["loss"], plain["noisy"] + weight * plain["clean"])
        torch.testing.assert_close(losses["clean"], plain["clean"])


def test_with_a_decay_a_slot_counts_a_share_of_the_one_before(model):
    sequence = conversation(5, 21)
    plain, batch = (
        mars_batch([sequence], 4, MASK, PAD, random.Random(0), slot_decay=decay) for decay in (1.0, 0.5)
    )
    logits = model.get_output_embeddings()(hidden_states(model, plain.layout))[0]
    nats, counts = 0.0, 0.0
    for index, position, start in masks_of(plain):
        share = 0.5 ** (position - start)
        nats += share * cross_entropy(logits[index], plain.targets[0, index])
        counts += share
    losses = Objective(model)(batch)
    torch.testing.assert_close(losses["noisy"], nats / counts)
    torch.testing.assert_close(losses["loss"], losses["clean"] + nats / counts)
    torch.testing.assert_close(losses["slots"], Objective(model)(plain)["slots"])  # as they were right


def test_block_phase_varies_between_answers():
    sequences = [conversation(4, 24, seed) for seed in range(40)]
    batch = mars_batch(sequences, 8, MASK, PAD, random.Random(0))
    second = {sorted({s for *_, s in masks_of(batch, row)})[1] for row in range(40)}
    assert second == set(range(5, 13))  # the first block, from position 4 on, has one to eight masks


def turns() -> Conversation:
    """Two questions with an answer each, the second answer followed by one more question."""
    rng = random.Random(4)
    response = [False] * 3 + [True] * 5 + [False] * 4 + [True] * 6 + [False] * 2
    return Conversation([rng.randrange(10, 300) for _ in response], response)


@pytest.mark.parametrize("whole_copy", [False, True])
def test_each_answer_of_a_conversation_has_blocks_of_its_own(whole_copy):
    """Nothing is learned across the end of an answer; the paper's whole copy has blocks through it all."""
    sequence = turns()
    phases = _Phases([2] if whole_copy else [1, 2])
    batch = mars_batch([sequence], 4, MASK, PAD, phases, whole_copy=whole_copy)
    assert not phases.phases
    predicting = [3, 4, 5, 6, 12, 13, 14, 15, 16]  # a token of the same answer follows
    starts = [2, 2, 2, 6, 10, 10, 14, 14, 14] if whole_copy else [3, 3, 3, 6, 12, 12, 14, 14, 14]
    assert [(position, start) for _, position, start in masks_of(batch)] == list(zip(predicting, starts))
    for index, position, start in masks_of(batch):
        assert batch.targets[0, index] == sequence.ids[position + 1]
        assert batch.slots[0, index] == position - start + 2
    noisy = batch.layout.ids[0, batch.clean_length :].tolist()
    if whole_copy:
        assert noisy == [MASK if r else t for t, r in zip(sequence.ids, sequence.response)][:-1]
    else:
        assert noisy == [MASK] * len(predicting)
    clean = [t for t in range(batch.clean_length) if batch.targets[0, t] != IGNORE]
    assert clean == [2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16]  # each answer's first token as well


DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [mars_batch, diffusion_batch])
def test_flex_attention_gives_loss_and_gradients_of_the_boolean_mask(tokenizer, make, device, monkeypatch):
    sequences = [conversation(5, 30), conversation(9, 12, 1)]
    model = random_model("llama", tokenizer, head_dim=16).to(device)  # the least that the kernels take
    if device == "cpu":
        # Only the fused kernel has no backward pass there; FlexAttention's own unfused one does.
        monkeypatch.setattr(flex_attention, "_validate_device", lambda *tensors: None)
        monkeypatch.setattr(torch, "compile", lambda function, **options: function)
        monkeypatch.setattr(WrappedFlexAttention, "_instance", None)
    losses, gradients = [], []
    for implementation in ("sdpa", "flex_attention"):
        model.set_attn_implementation(implementation)
        batch = make(sequences, 4, MASK, PAD, random.Random(0)).to(device)
        model.zero_grad()
        losses.append(Objective(model)(batch)["loss"])
        losses[-1].backward()
        gradients.append({name: weights.grad.clone() for name, weights in model.named_parameters()})
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_the_papers_whole_copy_counts_blocks_from_the_start_of_the_text():
    sequence = conversation(6, 14)
    batch = mars_batch([sequence], 4, MASK, PAD, random.Random(0), fixed_blocks=True, whole_copy=True)
    noisy = batch.layout.ids[0, batch.clean_length :].tolist()
    assert noisy == sequence.ids[:6] + [MASK] * 13  # the last token has nothing to predict
    assert {start for *_, start in masks_of(batch)} == {4, 8, 12, 16}
    assert {position for _, position, _ in masks_of(batch)} == set(range(6, 19))
    own = mars_batch([conversation(4, 24)], 8, MASK, PAD, random.Random(0), fixed_blocks=True)
    assert {start for *_, start in masks_of(own)} == {4, 12, 20}  # of the answer alone


def test_right_guesses_are_counted_per_slot(model):
    """With every third target made what the model would say anyway."""
    batch = mars_batch([conversation(5, 30)], 4, MASK, PAD, random.Random(0))
    said = model.get_output_embeddings()(hidden_states(model, batch.layout)).argmax(-1)
    wanted = batch.targets != IGNORE
    third = wanted & (torch.arange(wanted.shape[1])[None] % 3 == 0)
    batch = replace(batch, targets=torch.where(third, said, batch.targets))
    right = Objective(model)(batch)["slots"][:, 2]
    for slot in range(1, 6):
        here = wanted & (batch.slots == slot)
        expected = (said[here] == batch.targets[here]).sum()
        assert 0 < expected < here.sum()
        assert right[slot - 1] == expected


def test_kl_is_from_the_clean_streams_distribution_to_the_masks(model):
    sequence = conversation(5, 12)
    batch = mars_batch([sequence, conversation(3, 9, 1)], 4, MASK, PAD, random.Random(0))
    logits = model.get_output_embeddings()(hidden_states(model, batch.layout)).log_softmax(-1)
    total, count = 0.0, 0
    for row in range(2):
        for index, position, _ in masks_of(batch, row):
            teacher, student = logits[row, position], logits[row, index]
            total += (teacher.exp() * (teacher - student)).sum()
            count += 1
    losses = Objective(model, kl_weight=0.5)(batch)
    torch.testing.assert_close(losses["kl"], total / count)
    torch.testing.assert_close(losses["loss"], losses["noisy"] + losses["clean"] + 0.5 * losses["kl"])


def test_the_clean_stream_teaches_the_masks_and_learns_nothing_from_them(model):
    """The gradient of the KL term is that of a teacher whose logits are constants."""
    batch = mars_batch([conversation(5, 12)], 4, MASK, PAD, random.Random(0))
    weights = model.get_output_embeddings().weight
    states = hidden_states(model, batch.layout).detach()
    logits = states @ weights.T
    kl = 0.0
    masks = list(masks_of(batch))
    for index, position, _ in masks:
        teacher = logits[0, position].detach().log_softmax(-1)
        kl = kl + (teacher.exp() * (teacher - logits[0, index].log_softmax(-1))).sum() / len(masks)
    (expected,) = torch.autograd.grad(kl, weights)
    with_kl, without = (
        torch.autograd.grad(Objective(model, kl_weight=weight)(batch)["loss"], weights)[0]
        for weight in (1.0, 0.0)
    )
    torch.testing.assert_close(with_kl - without, expected)


@pytest.mark.parametrize(
    "batched", [ar_batch, partial(mars_batch, block_size=4, mask_id=MASK, rng=random.Random(0))]
)
def test_a_reference_holds_the_clean_stream_at_its_own_distributions(model, batched):
    """The term and its gradient are those of transformers' own logits, text by text."""
    model, reference = copy.deepcopy(model), copy.deepcopy(model)
    with torch.no_grad():
        for parameter in reference.requires_grad_(False).parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    talks = [conversation(5, 12), conversation(3, 9, 1)]
    total, count = 0.0, 0
    for talk in talks:
        ids = torch.tensor([talk.ids])
        answers = [place for place in range(len(talk.ids) - 1) if talk.response[place + 1]]
        wanted, found = (one(ids).logits[0, answers].log_softmax(-1) for one in (reference, model))
        total = total + (wanted.exp() * (wanted - found)).sum()
        count += len(answers)
    weights = list(model.parameters())
    expected = torch.autograd.grad(3.0 * total / count, weights)
    batch = batched(talks, pad_id=PAD)
    with_it, without = (Objective(model, reference=one)(batch) for one in (Reference(reference, 3.0), None))
    torch.testing.assert_close(with_it["reference"], (total / count).detach())
    torch.testing.assert_close(with_it["loss"], without["loss"] + 3.0 * with_it["reference"])
    gradients = (torch.autograd.grad(one["loss"], weights) for one in (with_it, without))
    for of_both, of_one, wanted in zip(*gradients, expected):
        torch.testing.assert_close(of_both - of_one, wanted, rtol=1e-3, atol=1e-5)


def test_a_reference_is_neither_trained_nor_saved(model):
    objective = Objective(model, reference=Reference(copy.deepcopy(model), 1.0))
    own = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in objective.parameters()} == own
    assert all(name.startswith("model.") for name in objective.state_dict())
    objective(ar_batch([conversation(5, 12)], PAD))["loss"].backward()
    assert all(parameter.grad is None for parameter in objective.reference.model.parameters())


def test_block_diffusion_masks_predict_their_own_token_from_both_sides_of_their_block(model):
    sequence = conversation(4, 14)
    batch = diffusion_batch([sequence], 4, MASK, PAD, random.Random(2))
    clean = batch.clean_length
    assert (batch.targets[0, :clean] == IGNORE).all()
    noisy = batch.layout.positions[0, clean:].tolist()
    assert noisy == list(range(4, 18))
    for index, position in enumerate(noisy, start=clean):
        token = batch.layout.ids[0, index].item()
        if batch.targets[0, index] == IGNORE:
            assert token == sequence.ids[position]
        else:
            assert (token, batch.targets[0, index]) == (MASK, sequence.ids[position])
        start = 4 + (position - 4) // 4 * 4
        sees = batch.layout.visible[0, index].nonzero().flatten().tolist()
        block = [clean + p - 4 for p in range(start, min(start + 4, 18))]
        assert sees == [*range(start), *block]
    for position in range(4, 18):  # the clean stream sees its own block whole, and no further
        end = min(4 + (position - 4) // 4 * 4 + 4, 18)
        assert batch.layout.visible[0, position].nonzero().flatten().tolist() == list(range(end))
    assert batch.layout.visible[0, 2].nonzero().flatten().tolist() == [0, 1, 2]  # the prompt stays causal


def test_the_loss_of_block_diffusion_is_that_of_plain_denoising(model):
    """Block by block, the ordinary model on the text so far and the block with its masks, prompt causal and
    blocks whole; of a block with m masks each counts 1/m of its tokens."""
    sequences = [conversation(4, 14), conversation(7, 9, 1)]
    batch = diffusion_batch(sequences, 4, MASK, PAD, random.Random(2))
    total = 0.0
    for row, sequence in enumerate(sequences):
        ids, prompt = sequence.ids, sequence.response.index(True)
        for start in range(prompt, len(ids), 4):
            end = min(start + 4, len(ids))
            copied = slice(batch.clean_length + start - prompt, batch.clean_length + end - prompt)
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
    losses = Objective(model)(batch)
    torch.testing.assert_close(losses["loss"], total / (14 + 9))
    assert "clean" not in losses


def test_a_block_of_block_diffusion_has_any_number_of_masks_anywhere():
    batch = diffusion_batch(
        [conversation(2, 4, seed) for seed in range(800)], 4, MASK, PAD, random.Random(0)
    )
    masked = batch.layout.ids[:, batch.clean_length :] == MASK
    shares = masked.sum(1).bincount(minlength=5)[1:] / 800
    assert shares.sum() == 1
    assert shares.tolist() == pytest.approx([1 / 4] * 4, abs=0.07)
    assert masked.float().mean(0).tolist() == pytest.approx([5 / 8] * 4, abs=0.07)
