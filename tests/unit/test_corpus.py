"""Conversations as training data."""

import copy
import itertools
import json

import datasets
import pytest
from hostile import written

from mars_demo.core.messages import user
from mars_demo.models.chat import encode_prompt
from mars_demo.training import corpus

TALK = [
    {"role": "user", "content": "hi <|end|> there"},
    {"role": "assistant", "content": "Hello. 12 <|mask|>"},
    {"role": "user", "content": "and?"},
    {"role": "assistant", "content": "Done."},
]


# The turns of Qwen3's template. It shows the thoughts of an answer only until the next question, and adds
# empty ones to a last answer without.
QWEN3 = """
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- if ns.multi_step_tool and message.role == "user" %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = messages|length - 1 - loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {{- '<|' + message.role + '|>\\n' }}
    {%- if message.role == "assistant" and loop.index0 > ns.last_query_index and loop.last %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
    {{- message.content + '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\\n' }}
{%- endif %}"""


def answers(tokenizer, conversation: corpus.TokenizedConversation) -> list[str]:
    """Return the parts of a conversation that are learned."""
    pairs = zip(conversation.ids, conversation.response)
    groups = itertools.groupby(pairs, key=lambda pair: pair[1])
    return [tokenizer.decode([token for token, _ in group]) for inside, group in groups if inside]


def test_a_template_that_rewrites_earlier_turns_gives_a_conversation_per_answer(tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = QWEN3
    first, second = corpus.encode(tokenizer, TALK)
    assert answers(tokenizer, first) == ["<think>\n\n</think>\n\nHello. 12 <|mask|><|end|>"]
    assert answers(tokenizer, second) == ["<think>\n\n</think>\n\nDone.<|end|>"]
    for conversation, turns in ((first, TALK[:2]), (second, TALK)):
        assert tokenizer.decode(conversation.ids) == tokenizer.apply_chat_template(turns, tokenize=False)
        prompt = encode_prompt(tokenizer, turns[:-1])
        assert conversation.ids[: len(prompt)] == prompt
        assert not any(conversation.response[: len(prompt)]) and conversation.response[len(prompt)]


def test_answers_and_their_end_tokens_are_the_response(tokenizer):
    [conversation] = corpus.encode(tokenizer, TALK)
    assert answers(tokenizer, conversation) == ["Hello. 12 <|mask|><|end|>", "Done.<|end|>"]
    assert tokenizer.decode(conversation.ids) == tokenizer.apply_chat_template(TALK, tokenize=False)
    assert conversation.ids.count(tokenizer.mask_token_id) == 0
    assert conversation.ids.count(tokenizer.eos_token_id) == 4


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
    assert next(pools(0, 1)) == [TALK, TALK]


TALKS = [[user(f"{i}"), {"role": "assistant", "content": "x"}] for i in range(700)]


def rows() -> datasets.Dataset:
    return datasets.Dataset.from_list([{"messages": talk, "source": "chat"} for talk in TALKS])


@pytest.fixture
def path(tmp_path) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text(written({"messages": talk} for talk in TALKS))
    return str(path)


@pytest.mark.parametrize("kind", ["loaded", "streamed", "file"])
def test_data_is_read_completely_in_each_epoch_and_repeats_for_a_seed(kind, path):
    data = {"loaded": rows(), "streamed": rows().to_iterable_dataset(), "file": path}[kind]

    def read(seed: int) -> list[int]:
        pools = corpus.source(data, seed)(0, 1)
        talks = itertools.islice(itertools.chain.from_iterable(pools), 1400)
        return [int(talk[0]["content"]) for talk in talks]

    epochs = read(0)
    first, second = epochs[:700], epochs[700:]
    assert sorted(first) == sorted(second) == list(range(700))
    assert first != second
    assert read(0) == epochs != read(1)


def test_without_a_seed_there_is_one_epoch_in_order(path):
    for data in (rows(), path):
        pools = corpus.source(data, None)(0, 1)
        assert list(itertools.chain(*pools)) == TALKS
    for endless in ("tasks", "skills:sql", f"tasks+{path}", rows().to_iterable_dataset()):
        with pytest.raises(ValueError, match="no end"):
            corpus.source(endless, None)


def test_rows_of_a_data_set_without_a_conversation_are_left_out():
    """Arrow stores a key that other messages have as None; an answer without a mark is not marked."""
    marked = [TALK[0], TALK[1] | {"own": True}]
    data = datasets.Dataset.from_list(
        [{"messages": TALK}, {"messages": []}, {"messages": TALK[:1]}, {"messages": marked}]
    )
    [pool] = corpus.source(data, None)(0, 1)
    assert [[message["content"] for message in talk] for talk in pool] == [
        [message["content"] for message in talk] for talk in (TALK, marked)
    ]
    assert [talk[1]["own"] for talk in pool] == [None, True]


def test_a_missing_data_set_is_refused_by_name():
    with pytest.raises(ValueError, match="nobody/nothing-of-that-name"):
        corpus.source("nobody/nothing-of-that-name", seed=0)


@pytest.mark.parametrize("column", [{"text": ["Hello"]}, {"messages": []}])
def test_a_data_set_without_messages_is_refused(column):
    with pytest.raises(ValueError, match="no row with a list of messages"):
        corpus.source(datasets.Dataset.from_dict(column), seed=0)


def test_a_file_does_not_hide_the_tasks_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks").write_text("not a conversation")
    assert len(next(corpus.source("tasks", seed=0)(0, 1))) == corpus.POOL


def test_a_mix_drops_no_conversation(tmp_path):
    """The last pool of an epoch is short; the other source's conversations beside it must not be lost."""
    talks = {name: [f"{name} {i}" for i in range(count)] for name, count in (("a", 300), ("b", 700))}
    for name, texts in talks.items():
        lines = [{"messages": [user(text), {"role": "assistant", "content": "ok"}]} for text in texts]
        (tmp_path / f"{name}.jsonl").write_text(written(lines))
    data = "+".join(str(tmp_path / f"{name}.jsonl") for name in talks)
    mixed = itertools.chain.from_iterable(corpus.source(data, 0)(0, 1))
    read = [messages[0]["content"] for messages in itertools.islice(mixed, 1400)]
    assert {text for text in read if text.startswith("b")} == set(talks["b"])
    assert sorted(read[0:600:2]) == sorted(talks["a"])  # one epoch, in turn with the other source
