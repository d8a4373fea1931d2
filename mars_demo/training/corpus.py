"""Where training text comes from, tokenized and grouped into batches of similar length."""

from __future__ import annotations

import contextlib
import itertools
import json
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

POOL = 256  # conversations drawn at a time and sorted by length: few, so that a batch mixes tasks


@dataclass(frozen=True)
class Conversation:
    """The `ids` of a conversation and, for each, whether it belongs to an answer with its end token."""

    ids: list[int]
    response: list[bool]
    own: bool | None = None  # whether a reference model wrote the answers itself, if that is said


def encode(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> Conversation:
    """Return a conversation in the chat template. The template's text after an end token belongs to no
    answer, and if an answer is `cut`, the conversation ends with its text.

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
            raise ValueError("This chat template rewrites earlier turns; it cannot be trained on.")
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


# Endless pools of conversations, the same for a seed.
Pools = Iterator[list[list[Message]]]


def task_pools(names: Sequence[str] | None, seed: int) -> Pools:
    """Draw from the training split of built-in tasks, whose answers no model wrote."""
    for index in itertools.count():
        drawn = itertools.islice(tasks.examples(names, "train", seed=seed * 1_000_003 + index), POOL)
        yield [
            [
                {"role": "user", "content": example.prompt},
                {"role": "assistant", "content": example.answer, "own": False},
            ]
            for example in drawn
        ]


def mixed_pools(pools: Sequence[Pools]) -> Pools:
    """Take the conversations of several sources in turn, as many of each."""
    for parts in zip(*pools):
        yield list(itertools.chain(*zip(*parts)))


def file_pools(path: Path, seed: int) -> Pools:
    """Read a JSONL file with a `messages` list per line, shuffled again in every epoch.

    Warns of lines without a conversation, which are skipped.

    Raises:
        ValueError: if no line holds one.
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
        raise ValueError(f"{path} holds no conversation{f' ({broken[0]})' if broken else ''}.")
    if broken:
        lines = len(broken) + len(conversations)
        warnings.warn(f"{len(broken)} of {lines} lines of {path} are skipped; {broken[0]}.", stacklevel=2)
    return _shuffled(conversations, seed)


def _shuffled(conversations: list[list[Message]], seed: int) -> Pools:
    for epoch in itertools.count():
        order = list(range(len(conversations)))
        random.Random(f"{seed}-{epoch}").shuffle(order)
        for start in range(0, len(order), POOL):
            yield [conversations[i] for i in order[start : start + POOL]]


def messages_of(row: object) -> list[Message]:
    """Return the conversation of one row of data.

    Raises:
        ValueError: if it has no list of messages with a role and a text, or none by the assistant.
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
    known = ("role", "content", "cut", "own")
    return [{key: message[key] for key in known if key in message} for message in messages]


def dataset_pools(rows: IterableDataset, seed: int) -> Pools:
    """Stream a data set with a `messages` column, shuffled in a buffer; other rows are skipped."""
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
    """Return the pools of `tasks`, `skills`, `tasks:NAME,NAME`, a JSONL file, a data set with messages on
    the hub, or several of these with a plus between them, mixed in equal parts.

    Raises:
        ValueError: if `data` is none of these.
    """
    family, _, names = data.partition(":")
    if family in tasks.FAMILIES:
        return task_pools(tasks.named(names or family), seed)
    if "+" in data and not Path(data).exists():
        return mixed_pools([source(part, seed + number) for number, part in enumerate(data.split("+"))])
    if Path(data).is_file():
        return file_pools(Path(data), seed)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", data) and not Path(data).exists():
        return dataset_pools(_from_hub(data), seed)
    raise ValueError(
        f"Unknown training data {data!r}. Choose tasks, skills, tasks:NAME,NAME, the path of a JSONL file "
        "with a list of messages per line, the hub id (owner/name) of a data set with messages, or "
        "several of these with a plus between them."
    )


def _from_hub(name: str) -> IterableDataset:
    from datasets import load_dataset  # slow to import, and only needed here

    try:
        return load_dataset(name, split="train", streaming=True, trust_remote_code=False)
    except Exception as error:  # whatever the hub's client raises, the answer is the same
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(
            f"There is no file {name!r}, and no such data set came from the hub: {reason}"
        ) from error


def batches(
    pools: Pools,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    max_length: int,
    seed: int,
) -> Iterator[list[Conversation]]:
    """Yield endless batches of at most `max_tokens` positions, padding included.

    Each pool is sorted by length before it is divided, which keeps padding low, and the batches of a pool
    come in random order. A batch may so be of one kind: of a mixture, a step should accumulate several.
    Conversations longer than `max_length` are left out.
    """
    for index, pool in enumerate(pools):
        rng = random.Random(f"{seed}-{index}")
        encoded = [encode(tokenizer, messages) for messages in pool]
        fitting = [c for c in encoded if len(c.ids) <= max_length and any(c.response)]
        if not fitting:
            raise ValueError(f"No conversation in the data fits into {max_length} tokens.")
        fitting.sort(key=lambda conversation: (len(conversation.ids), rng.random()))
        cut: list[list[Conversation]] = [[]]
        for conversation in fitting:
            longest = max(len(c.ids) for c in (*cut[-1], conversation))
            if cut[-1] and (len(cut[-1]) + 1) * longest > max_tokens:
                cut.append([])
            cut[-1].append(conversation)
        rng.shuffle(cut)
        yield from cut
