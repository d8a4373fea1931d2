"""Training data: conversations from several sources, and their tokens."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import PreTrainedTokenizerBase

from mars_demo import tasks
from mars_demo.core.names import is_hub_id
from mars_demo.models.chat import Message, encode_rendered, render, with_slots

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

POOL = 256  # conversations sorted by length at a time; few, so that a batch mixes tasks


@dataclass(frozen=True)
class TokenizedConversation:
    """A tokenized conversation; `response` marks the ids of answers, end tokens included."""

    ids: list[int]
    response: list[bool]
    own: bool | None = None  # whether the reference model wrote the answers, if known


def encode(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> list[TokenizedConversation]:
    """Tokenize a conversation with the chat template, as the model reads it when it answers.

    Where the template rewrites the earlier turns for an answer, as Qwen3's does, a further conversation
    begins. The template's text after an end token does not count as an answer. If an answer is truncated
    (`cut`), the conversation ends with its last token.

    Raises:
        ValueError: if the template rejects the messages, or changes the prompt of an answer that follows.
    """
    slotted, texts = with_slots(messages)
    encoded: list[TokenizedConversation] = []
    done = ""
    for turn, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        opening = render(tokenizer, slotted[:turn], reply=True)
        closed = render(tokenizer, slotted[: turn + 1], reply=False)
        if not closed.startswith(opening):
            raise ValueError(
                "The chat template changes the prompt of an answer, so training cannot use it."
            )
        if not (encoded and opening.startswith(done)):
            encoded.append(TokenizedConversation([], [], _own(messages)))
            done = ""
        ids, response = encoded[-1].ids, encoded[-1].response
        prompt_ids = encode_rendered(tokenizer, opening[len(done) :], texts)
        answer_ids = encode_rendered(tokenizer, closed[len(opening) :], texts)
        end = len(answer_ids)
        if has_end := tokenizer.eos_token_id in answer_ids:
            end -= answer_ids[::-1].index(tokenizer.eos_token_id)
        ids += prompt_ids + answer_ids
        response += [False] * len(prompt_ids) + [i < end for i in range(len(answer_ids))]
        done = closed
        if message.get("cut") and has_end:
            unfinished = len(ids) - len(answer_ids) + end - 1
            del ids[unfinished:], response[unfinished:]
            break
    return encoded


def _own(messages: Sequence[Message]) -> bool | None:
    marks = {message.get("own") for message in messages if message["role"] == "assistant"}
    return marks.pop() if len(marks) == 1 else None


Pool = list[list[Message]]
# Returns the pools of one of several workers, which makes no others; endless and reproducible from a seed.
Pools = Callable[[int, int], Iterator[Pool]]


def task_pools(names: Sequence[str] | None, seed: int, worker: int, workers: int) -> Iterator[Pool]:
    """Yield pools from the training split of built-in tasks, whose answers no model wrote."""
    for index in itertools.count(worker, workers):
        drawn = itertools.islice(tasks.examples(names, "train", seed * 1_000_003 + index), POOL)
        answered = (
            [*example.messages, {"role": "assistant", "content": example.answer}] for example in drawn
        )
        yield [[message | {"own": False} for message in messages] for messages in answered]


def mixed_pools(sources: Sequence[Pools], worker: int, workers: int) -> Iterator[Pool]:
    """Yield pools that take conversations from several sources in turn, equally many of each.

    Pools of the sources differ in size, the last of an epoch most of all, so they are joined first.
    """
    rows = [itertools.chain.from_iterable(source(worker, workers)) for source in sources]
    turns = itertools.chain.from_iterable(zip(*rows))
    while pool := list(itertools.islice(turns, POOL * len(sources))):
        yield pool


def file_rows(path: Path) -> list[dict]:
    """Return the rows of a JSONL file with a `messages` list per line.

    Lines without a conversation are skipped with a warning.

    Raises:
        ValueError: if no line has a conversation.
    """
    rows, broken = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                rows.append({"messages": messages_of(json.loads(line))})
            except ValueError as error:
                broken.append(f"line {number}: {error}")
    if not rows:
        raise ValueError(f"{path} has no conversations{f' ({broken[0]})' if broken else ''}.")
    if broken:
        lines = len(broken) + len(rows)
        warnings.warn(f"Skipped {len(broken)} of {lines} lines of {path}; {broken[0]}.", stacklevel=2)
    return rows


def row_pools(rows: Sequence[dict], seed: int | None, worker: int, workers: int) -> Iterator[Pool]:
    """Yield pools from rows with `messages`, shuffled anew in every epoch.

    seed: None for one epoch in order.
    """
    for chosen in itertools.islice(_orders(len(rows), seed), worker, None, workers):
        yield [*_conversations(rows[index] for index in chosen)]


def _orders(count: int, seed: int | None) -> Iterator[list[int]]:
    """Yield the indices of each pool of `count` rows."""
    for epoch in itertools.count():
        order = list(range(count))
        if seed is not None:
            random.Random(f"{seed}-{epoch}").shuffle(order)
        yield from (order[start : start + POOL] for start in range(0, count, POOL))
        if seed is None:
            return


def _conversations(rows: Iterable[dict]) -> Iterator[list[Message]]:
    """Yield the conversations of the rows that have one."""
    for row in rows:
        with contextlib.suppress(ValueError):
            yield messages_of(row)


def messages_of(row: object) -> list[Message]:
    """Return the conversation of one row of a data set.

    Raises:
        ValueError: if it is not a list of messages with role and content, at least one by the assistant.
    """
    messages = row.get("messages") if isinstance(row, dict) else None
    if not isinstance(messages, list) or not messages:
        raise ValueError("no list of messages")
    for message in messages:
        if not isinstance(message, dict) or not all(
            isinstance(message.get(k), str) for k in ("role", "content")
        ):
            raise ValueError("a message without role and text")
    if not any(message["role"] == "assistant" for message in messages):
        raise ValueError("no message by the assistant")
    keys = ("role", "content", "cut", "own")
    return [{key: message[key] for key in keys if key in message} for message in messages]


def streamed_pools(rows: IterableDataset, seed: int, worker: int, workers: int) -> Iterator[Pool]:
    """Yield pools from a streamed data set, shuffled in a buffer; rows without `messages` are skipped."""
    shuffled = rows.shuffle(seed=seed, buffer_size=10_000)

    def endless() -> Iterator[list[Message]]:
        for epoch in itertools.count():
            shuffled.set_epoch(epoch)
            messages = None
            for messages in _conversations(shuffled):
                yield messages
            if messages is None:
                raise ValueError("The data set has no row with a list of messages.")

    stream = endless()
    pools = (list(itertools.islice(stream, POOL)) for _ in itertools.count())
    yield from itertools.islice(pools, worker, None, workers)


def source(data: str | Dataset | IterableDataset, seed: int | None) -> Pools:
    """Return the pools of `data`.

    data: `tasks`, `skills`, `tasks:NAME,NAME`, a JSONL file, the hub id of a data set with messages, or
        several of these joined by `+`, mixed in equal parts; or a loaded data set with messages.
    seed: None for a single epoch in order, which only files and loaded data sets have.

    Raises:
        ValueError: if `data` is none of these or has no conversations, or if it has no end and no seed.
    """
    is_name = isinstance(data, str)
    # pathlib raises where a name is too long
    if is_name and data.partition(":")[0] not in tasks.FAMILIES and os.path.isfile(data):
        return partial(row_pools, file_rows(Path(data)), seed)
    if not is_name and hasattr(data, "__len__"):
        if not len(data) or "messages" not in data.column_names:
            raise ValueError("The data set has no row with a list of messages.")
        return partial(row_pools, data, seed)
    if seed is None:
        name = data if is_name else "A streamed data set"
        raise ValueError(f"{name} has no end. Evaluate on a file or a loaded data set.")
    if not is_name:
        return partial(streamed_pools, data, seed)
    if "+" in data:
        sources = [source(part, seed + number) for number, part in enumerate(data.split("+"))]
        return partial(mixed_pools, sources)
    family, _, names = data.partition(":")
    if family in tasks.FAMILIES:
        return partial(task_pools, tasks.named(names or family), seed)
    if is_hub_id(data):
        return partial(streamed_pools, _from_hub(data), seed)
    raise ValueError(
        f"Unknown training data {data!r}. Choose tasks, skills, tasks:NAME,NAME, the path of a JSONL file "
        "with a list of messages per line, the hub id (owner/name) of a data set with messages, or "
        "several of these joined by +."
    )


def _from_hub(name: str) -> IterableDataset:
    from datasets import load_dataset  # slow to import, and only needed here

    try:
        return load_dataset(name, split="train", streaming=True, trust_remote_code=False)
    except Exception as error:  # the hub's client raises many types
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(
            f"There is no file {name!r}, and the hub returned no such data set: {reason}"
        ) from error
