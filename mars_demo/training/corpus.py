"""Training data: conversations from several sources, tokenized and batched by length."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import PreTrainedTokenizerBase

from mars_demo import tasks
from mars_demo.models.chat import Message, encode_rendered, render, with_slots

if TYPE_CHECKING:
    from datasets import IterableDataset

POOL = 256  # conversations sorted by length at a time; few, so that a batch mixes tasks


@dataclass(frozen=True)
class Conversation:
    """A tokenized conversation; `response` marks the ids of answers, end tokens included."""

    ids: list[int]
    response: list[bool]
    own: bool | None = None  # whether the reference model wrote the answers, if known


def encode(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> Conversation:
    """Tokenize a conversation with the chat template.

    The template's text after an end token does not count as an answer. If an answer is truncated (`cut`),
    the conversation ends with its last token.

    Raises:
        ValueError: if the template rewrites earlier turns, so that answers cannot be located.
    """
    slotted, texts = with_slots(messages)
    ids: list[int] = []
    response: list[bool] = []
    done, own = "", _own(messages)
    for turn, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        opening = render(tokenizer, slotted[:turn], reply=True)
        closed = render(tokenizer, slotted[: turn + 1], reply=False)
        if not (opening.startswith(done) and closed.startswith(opening)):
            raise ValueError("This chat template rewrites earlier turns, so training cannot use it.")
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
            return Conversation(ids[:unfinished], response[:unfinished], own)
    return Conversation(ids, response, own)


def _own(messages: Sequence[Message]) -> bool | None:
    marks = {message.get("own") for message in messages if message["role"] == "assistant"}
    return marks.pop() if len(marks) == 1 else None


# Endless pools of conversations, reproducible from a seed.
Pools = Iterator[list[list[Message]]]


def task_pools(names: Sequence[str] | None, seed: int) -> Pools:
    """Yield pools from the training split of built-in tasks, whose answers no model wrote."""
    for index in itertools.count():
        sample = itertools.islice(tasks.examples(names, "train", seed=seed * 1_000_003 + index), POOL)
        yield [
            [
                {"role": "user", "content": example.prompt},
                {"role": "assistant", "content": example.answer, "own": False},
            ]
            for example in sample
        ]


def mixed_pools(pools: Sequence[Pools]) -> Pools:
    """Yield pools that take conversations from several sources in turn, equally many of each."""
    for parts in zip(*pools):
        yield list(itertools.chain(*zip(*parts)))


def file_pools(path: Path, seed: int) -> Pools:
    """Return pools from a JSONL file with a `messages` list per line, shuffled anew in every epoch.

    Lines without a conversation are skipped with a warning.

    Raises:
        ValueError: if no line has a conversation.
    """
    conversations, broken = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            conversations.append(messages_of(json.loads(line)))
        except ValueError as error:
            broken.append(f"line {number}: {error}")
    if not conversations:
        raise ValueError(f"{path} has no conversations{f' ({broken[0]})' if broken else ''}.")
    if broken:
        lines = len(broken) + len(conversations)
        warnings.warn(f"Skipped {len(broken)} of {lines} lines of {path}; {broken[0]}.", stacklevel=2)
    return _shuffled(conversations, seed)


def _shuffled(conversations: list[list[Message]], seed: int) -> Pools:
    for epoch in itertools.count():
        order = list(range(len(conversations)))
        random.Random(f"{seed}-{epoch}").shuffle(order)
        for start in range(0, len(order), POOL):
            yield [conversations[i] for i in order[start : start + POOL]]


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


def dataset_pools(rows: IterableDataset, seed: int) -> Pools:
    """Yield pools from a streamed data set, shuffled in a buffer; rows without `messages` are skipped."""
    shuffled = rows.shuffle(seed=seed, buffer_size=10_000)

    def endless() -> Iterator[list[Message]]:
        for epoch in itertools.count():
            shuffled.set_epoch(epoch)
            is_empty = True
            for row in shuffled:
                with contextlib.suppress(ValueError):
                    yield messages_of(row)
                    is_empty = False
            if is_empty:
                raise ValueError("The data set has no row with a list of messages.")

    stream = endless()
    while True:
        yield list(itertools.islice(stream, POOL))


def source(data: str, seed: int) -> Pools:
    """Return the pools that `data` names.

    data: `tasks`, `skills`, `tasks:NAME,NAME`, a JSONL file, the hub id of a data set with messages, or
        several of these joined by `+`, mixed in equal parts.

    Raises:
        ValueError: if `data` is none of these.
    """
    if "+" in data and not os.path.exists(data):  # pathlib raises where a name is too long
        return mixed_pools([source(part, seed + number) for number, part in enumerate(data.split("+"))])
    family, _, names = data.partition(":")
    if family in tasks.FAMILIES:
        return task_pools(tasks.named(names or family), seed)
    if Path(data).is_file():
        return file_pools(Path(data), seed)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", data) and not Path(data).exists():
        return dataset_pools(_from_hub(data), seed)
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


def batches(
    pools: Pools,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    max_length: int,
    seed: int,
) -> Iterator[list[Conversation]]:
    """Yield endless batches of at most `max_tokens` positions, padding included.

    Each pool is sorted by length before it is split, which keeps padding low, and the batches of a pool
    come in random order. One batch may therefore come from one source: with mixed data, accumulate several
    per step. Conversations longer than `max_length` are left out.
    """
    for index, pool in enumerate(pools):
        rng = random.Random(f"{seed}-{index}")
        encoded = [encode(tokenizer, messages) for messages in pool]
        fitting = [c for c in encoded if len(c.ids) <= max_length and any(c.response)]
        if not fitting:
            raise ValueError(f"No conversation in the data fits into {max_length} tokens.")
        fitting.sort(key=lambda conversation: (len(conversation.ids), rng.random()))
        groups: list[list[Conversation]] = [[]]
        for conversation in fitting:
            longest = max(len(c.ids) for c in (*groups[-1], conversation))
            if groups[-1] and (len(groups[-1]) + 1) * longest > max_tokens:
                groups.append([])
            groups[-1].append(conversation)
        rng.shuffle(groups)
        yield from groups
