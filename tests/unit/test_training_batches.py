"""Which conversations share a training batch, in one process, in several and in data-loader workers."""

import copy
import itertools
import random

import datasets
import pytest
import torch
from random_models import random_model
from torch.utils.data import DataLoader
from training_batches import PAD, conversation, diffusion, mars

from mars_demo.training import corpus
from mars_demo.training.batch import batch_of
from mars_demo.training.batching import Batches, OneLength, Packed
from mars_demo.training.config import MarsConfig
from mars_demo.training.trainer import MarsTrainer
from mars_demo.training.two_streams import ar

MAKE = {"ar": ar, "mars": mars, "block-diffusion": diffusion}
LENGTH = 200


def conversations() -> list[corpus.TokenizedConversation]:
    rng = random.Random(0)
    marks = (None, True, False)
    return [
        conversation(rng.randint(1, 60), rng.randint(1, 70), seed, rng.choice(marks)) for seed in range(300)
    ]


@pytest.mark.parametrize(
    ("objective", "reference"),
    [("ar", False), ("ar", True), ("mars", False), ("mars", True), ("block-diffusion", False)],
)
def test_packed_batches_have_one_shape_and_each_conversation_once(objective, reference):
    packed = Packed(3, LENGTH, objective, reference)
    talks = [one for one in conversations() if packed.fits(one)]
    left_out = [one for one in conversations() if not packed.fits(one)]
    pools = [talks[:100], talks[100:]]
    batches = list(packed.rows(pools, random.Random(0)))
    assert sorted(map(id, itertools.chain(*itertools.chain(*batches)))) == sorted(map(id, talks))
    for rows in batches:
        made = batch_of([[MAKE[objective](one) for one in row] for row in rows], PAD, LENGTH, reference)
        assert made.targets.shape == (3, LENGTH)
        if reference and made.reference:
            assert made.reference.ids.shape == (3, LENGTH // 2)

    def sizes(row: list[corpus.TokenizedConversation]) -> tuple[int, int]:
        noisy = [one for one in row if objective != "ar"]
        taught = [one for one in row if reference and one.own is not False]
        both = sum(len(one.ids) for one in row) + sum(sum(one.response) for one in noisy)
        return both, sum(len(one.ids) for one in taught)

    for one in left_out:
        both, taught = sizes([one])
        assert both > LENGTH or taught > LENGTH // 2
    for rows, following in itertools.pairwise(batches):  # no row had room for the next conversation
        for row in rows:
            both, taught = sizes([*row, following[0][0]])
            assert both > LENGTH or taught > LENGTH // 2


def data_set(count: int) -> datasets.Dataset:
    rng = random.Random(1)
    talks = [
        [{"role": "user", "content": f"{i}?"}, {"role": "assistant", "content": "x" * rng.randint(1, 40)}]
        for i in range(count)
    ]
    return datasets.Dataset.from_list([{"messages": talk} for talk in talks])


def batches(tokenizer, data, grouping, share=(0, 1), max_length=512, seed=None) -> Batches:
    config = MarsConfig("unused", max_length=max_length, seed=3)
    return Batches(corpus.source(data, seed), tokenizer, config, grouping, share)


def ids(rows) -> list[list[int]]:
    return [one.ids for row in rows for one in row]


def test_rows_of_one_length_stay_within_their_budget_and_repeat_for_a_seed(tokenizer):
    data = batches(tokenizer, "tasks:units,letters", OneLength(1024), seed=3)
    first = list(itertools.islice(data.rows(), 12))
    for rows in first:
        assert {len(row) for row in rows} == {1}
        assert len(rows) * max(map(len, ids(rows))) <= 1024
    assert list(itertools.islice(data.rows(), 12)) == first


GROUPINGS = [OneLength(1024), Packed(2, LENGTH, "mars", False)]


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_long_conversations_are_left_out(tokenizer, grouping):
    """Leave out also the only conversation of the last pool."""
    data = data_set(corpus.POOL)
    long = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "x" * 300}]
    data = datasets.concatenate_datasets([data, datasets.Dataset.from_list([{"messages": long}])])
    expected = [one.ids for row in data for one in corpus.encode(tokenizer, row["messages"])]
    made = itertools.chain(*map(ids, batches(tokenizer, data, grouping, max_length=150).rows()))
    assert sorted(made) == sorted(expected[:-1])
    with pytest.raises(ValueError, match="fits into 4 tokens"):
        next(iter(batches(tokenizer, data, grouping, max_length=4)))


def test_conversations_that_the_template_rejects_are_skipped_and_counted(tokenizer):
    """Use the rule of Gemma's template, which has no system prompt."""
    rule = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    strict = copy.deepcopy(tokenizer)
    strict.chat_template = rule + tokenizer.chat_template
    data = data_set(20)
    talk = [{"role": "system", "content": "Be brief."}, *data[0]["messages"]]
    rejected = datasets.Dataset.from_list([{"messages": talk}])
    both = datasets.concatenate_datasets([rejected, data])
    with pytest.warns(UserWarning, match="1 of 21 .*no system role"):
        made = [*itertools.chain(*map(ids, batches(strict, both, GROUPINGS[0]).rows()))]
    assert sorted(made) == sorted(itertools.chain(*map(ids, batches(tokenizer, data, GROUPINGS[0]).rows())))
    with pytest.raises(ValueError, match="no system role"):
        next(iter(batches(strict, rejected, GROUPINGS[0])))


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_two_workers_make_the_batches_of_two_processes(tokenizer, grouping):
    """Compare streams, whose block phases are random, and the order of the batches."""
    data = data_set(700)

    def made(share: tuple[int, int], workers: int) -> list[tuple]:
        data_of_share = batches(tokenizer, data, grouping, share)
        loader = DataLoader(data_of_share, batch_size=None, num_workers=workers)
        return [(one.positions.ids.tolist(), one.slots.tolist()) for one in loader]

    workers = made((0, 1), 2)
    in_turn = itertools.chain(*itertools.zip_longest(*(made((number, 2), 0) for number in range(2))))
    assert workers == [one for one in in_turn if one] == made((0, 1), 2)
    each = itertools.chain(*(map(ids, batches(tokenizer, data, grouping, (n, 2)).rows()) for n in range(2)))
    assert sorted(itertools.chain(*each)) == sorted(
        one.ids for row in data for one in corpus.encode(tokenizer, row["messages"])
    )


def test_block_phases_differ_between_processes(tokenizer, monkeypatch):
    monkeypatch.setattr(Batches, "rows", lambda _: iter([[[conversation(4, 60)] for _ in range(5)]]))
    first, again, second = (
        next(iter(batches(tokenizer, data_set(1), GROUPINGS[0], share))).slots.tolist()
        for share in ((0, 2), (0, 2), (1, 2))
    )
    assert first == again != second


@pytest.mark.parametrize("packed", [None, 400])
def test_the_evaluation_loss_is_the_mean_over_all_targets(tokenizer, tmp_path, packed):
    """Compare with transformers' loss of each conversation, though batches have different sizes."""
    model, data = random_model("llama", tokenizer), data_set(90)
    config = MarsConfig(
        str(tmp_path), objective="ar", batch_tokens=512, packed=packed, use_cpu=True, bf16=False
    )
    trainer = MarsTrainer(model, config, eval_dataset=data, processing_class=tokenizer)
    nats, count = 0.0, 0
    for row in data:
        [one] = corpus.encode(tokenizer, row["messages"])
        labels = [token if is_answer else -100 for token, is_answer in zip(one.ids, one.response)]
        with torch.no_grad():
            loss = model(input_ids=torch.tensor([one.ids]), labels=torch.tensor([labels])).loss
        nats, count = nats + loss * sum(one.response), count + sum(one.response)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(float(nats / count), rel=1e-5)
