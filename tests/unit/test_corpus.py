"""Conversations as training data."""

import itertools
import json

import datasets
import pytest

from mars_demo.training import corpus

TALK = [
    {"role": "user", "content": "hi <|end|> there"},
    {"role": "assistant", "content": "Hello. 12 <|mask|>"},
    {"role": "user", "content": "and?"},
    {"role": "assistant", "content": "Done."},
]


def test_answers_and_their_end_tokens_are_the_response(tokenizer):
    conversation = corpus.encode(tokenizer, TALK)
    answers = [
        tokenizer.decode([t for t, _ in group])
        for inside, group in itertools.groupby(
            zip(conversation.ids, conversation.response), key=lambda pair: pair[1]
        )
        if inside
    ]
    assert answers == ["Hello. 12 <|mask|><|end|>", "Done.<|end|>"]
    assert tokenizer.decode(conversation.ids) == tokenizer.apply_chat_template(TALK, tokenize=False)
    assert conversation.ids.count(tokenizer.mask_token_id) == 0
    assert conversation.ids.count(tokenizer.eos_token_id) == 4


def test_batches_stay_within_their_budget_and_repeat_for_a_seed(tokenizer):
    def draw():
        pools = corpus.source("tasks:units,letters", seed=3)
        return list(itertools.islice(corpus.batches(pools, tokenizer, 1024, 512, seed=3), 12))

    batches = draw()
    for batch in batches:
        assert len(batch) * max(len(c.ids) for c in batch) <= 1024
    assert batches == draw()


def test_a_jsonl_file_is_read_and_shuffled_each_round(tmp_path, tokenizer):
    lines = [
        json.dumps(
            {"messages": [{"role": "user", "content": f"{i}"}, {"role": "assistant", "content": "x"}]}
        )
        for i in range(50)
    ]
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(lines))
    pools = corpus.source(str(path), seed=0)
    first, second = ([m[0]["content"] for m in next(pools)] for _ in range(2))
    assert sorted(first) == sorted(second) == sorted(str(i) for i in range(50))
    assert first != second


@pytest.mark.parametrize(
    "content", ["", "nonsense\n", '{"messages": 3}\n', '{"messages": [{"role": "user"}]}']
)
def test_a_broken_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "data.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match="data.jsonl"):
        corpus.source(str(path), seed=0)


def test_broken_lines_are_skipped_with_a_warning(tmp_path):
    path = tmp_path / "data.jsonl"
    good = json.dumps({"messages": TALK})
    path.write_text("\n".join([good, "{", '{"messages": [{"role": "user"}]}', "", good]))
    with pytest.warns(UserWarning, match="2 of 4 .*data.jsonl.* 2"):
        pools = corpus.source(str(path), seed=0)
    assert next(pools) == [TALK, TALK]


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    talks = [
        [{"role": "user", "content": str(i)}, {"role": "assistant", "content": "x"}] for i in range(700)
    ]
    path.write_text("\n".join(json.dumps({"messages": talk}) for talk in talks))
    return datasets.load_dataset(
        "json",
        data_files=str(path),
        split="train",
        streaming=True,
        cache_dir=tmp_path / "cache",
        trust_remote_code=False,
    )


def test_a_streamed_data_set_is_read_completely_and_repeats(rows):
    first, again = (list(itertools.islice(corpus.dataset_pools(rows, seed=0), 5)) for _ in range(2))
    first_round = [talk[0]["content"] for talk in itertools.chain(*first)][:700]
    assert sorted(map(int, first_round)) == list(range(700))
    assert first == again


def test_a_missing_data_set_is_refused_by_name():
    with pytest.raises(ValueError, match="nobody/nothing-of-that-name"):
        corpus.source("nobody/nothing-of-that-name", seed=0)
