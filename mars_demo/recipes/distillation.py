"""Self-distillation data: a model's greedy answers to given prompts, or to prompts it samples itself.

A model that trains on its own answers only has to learn the masks, and it accepts longer runs of text that
it would write anyway.
"""

import itertools
import json
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from mars_demo import tasks
from mars_demo.core.assets import read_json
from mars_demo.core.loops import is_loop
from mars_demo.core.messages import Encoded
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.chat import Message, encode_prompt, render, with_slots
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.serving.decode_batch import finished

MAX_PROMPT = 128  # tokens of a question


def prompts_from(source: str, seed: int = 0) -> Iterator[str]:
    """Return prompts: those of `tasks`, endless, the lines of a text file, or first user turns from JSONL.

    Raises:
        ValueError: if the file has no prompts.
    """
    if source == "tasks":
        return (example.prompt for example in tasks.examples(tasks.TASKS, "train", seed))
    lines = [line for line in Path(source).read_text(encoding="utf-8").splitlines() if line.strip()]
    if source.endswith(".jsonl"):
        lines = [_first_user_turn(line) for line in lines]
    lines = [line for line in lines if line]
    if not lines:
        raise ValueError(f"{source} has no prompts.")
    return iter(lines)


def _first_user_turn(line: str) -> str | None:
    try:
        return next(m["content"] for m in json.loads(line)["messages"] if m["role"] == "user")
    except (ValueError, KeyError, TypeError, StopIteration):
        return None


def made_prompts(seed: int = 0) -> Iterator[str]:
    """Yield endless prompts from the templates in `assets/distillation.json`."""
    data = read_json("distillation.json")
    kinds, shares = list(data["shares"]), list(data["shares"].values())
    rng = random.Random(seed)
    while True:
        kind = rng.choices(kinds, shares)[0]
        fields = {name: rng.choice(choices) for name, choices in data["fields"].items()}
        numbers = {
            "a": rng.randint(10, 200),
            "b": rng.randint(10, 200),
            "c": rng.randint(6, 12),
            "d": rng.randint(2, 5),
        }
        yield rng.choice(data["templates"][kind]).format(**fields, **numbers)


def follow_ups(conversations: Iterable[dict], seed: int = 0) -> Iterator[list[Message]]:
    """Yield each conversation with a complete answer, followed by one more user turn."""
    turns = read_json("distillation.json")["follow_ups"]
    rng = random.Random(seed)
    for conversation in conversations:
        if not conversation["messages"][-1].get("cut"):
            yield [*conversation["messages"], {"role": "user", "content": rng.choice(turns)}]


def self_prompts(checkpoint: Checkpoint, batch: int, seed: int = 0) -> Iterator[str]:
    """Yield endless prompts sampled from the model itself, at temperature 1 and top-p 0.95.

    The model continues its chat template's opening of a user turn. Prompts longer than `MAX_PROMPT` tokens
    are dropped.
    """
    tokenizer = checkpoint.tokenizer
    slotted, _ = with_slots([{"role": "user", "content": "x"}])
    opening = render(tokenizer, slotted, reply=False).partition("\ue000")[0]
    ids = tokenizer(opening, add_special_tokens=False)["input_ids"]
    seeds = random.Random(seed)
    while True:
        sampling = Sampling(top_p=0.95, seed=seeds.getrandbits(63))
        written = continuations(checkpoint, [ids] * batch, MAX_PROMPT, batch, sampling)
        yield from (text.strip() for text, ended in written if ended and text.strip())


def answered(
    checkpoint: Checkpoint,
    talks: Iterable[str | list[Message]],
    batch: int = 32,
    max_new_tokens: int = 256,
    excluded: Iterable[str | list[Message]] = (),
    pool: int | None = None,
) -> Iterator[dict]:
    """Yield a conversation with the model's greedy answer for each prompt.

    talks: the prompts, each a text or a conversation that ends with a user turn.
    excluded: prompts or conversations to leave out.
    pool: prompts taken at a time; eight batches if None.

    Repeated prompts, prompts that do not fit the context, and looping answers are left out. An answer
    longer than `max_new_tokens` is truncated and marked `cut`.
    """
    keys = {_key(talk) for talk in excluded}

    def fresh() -> Iterator[tuple[list[Message], list[int]]]:
        for talk in talks:
            messages = [{"role": "user", "content": talk}] if isinstance(talk, str) else talk
            key = _key(talk)
            if not messages[-1]["content"].strip() or key in keys:
                continue
            keys.add(key)
            ids = encode_prompt(checkpoint.tokenizer, messages)
            if len(ids) + max_new_tokens <= checkpoint.context:
                yield messages, ids

    pending = fresh()
    # Many at a time, so that slots of finished sequences fill up again.
    while prompts := list(itertools.islice(pending, pool or 8 * batch)):
        written = continuations(checkpoint, [ids for _, ids in prompts], max_new_tokens, batch)
        for (messages, _), (text, ended) in zip(prompts, written):
            if text.strip() and not is_loop(text):
                answer = {"role": "assistant", "content": text, "own": True}
                yield {"messages": [*messages, answer if ended else answer | {"cut": True}]}


def _key(talk: str | list[Message]) -> str:
    """Return the words of a prompt or conversation in lower case, by which it is recognized."""
    text = talk if isinstance(talk, str) else "\n".join(message["content"] for message in talk)
    return " ".join(text.lower().split())


def write_answers(
    path: Path,
    checkpoint: Checkpoint,
    talks: Iterable[str | list[Message]],
    count: int,
    batch: int = 32,
    max_new_tokens: int = 256,
    avoid: Path | None = None,
) -> None:
    """Answer prompts into a JSONL file until it has `count` conversations, with a progress bar.

    Another call with the same prompts resumes the file. Prompts in the file `avoid` are left out.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = _whole_lines(path) if path.exists() else []
    left = count - len(lines)
    if left <= 0:
        return
    avoided = lines + (avoid.read_text(encoding="utf-8").splitlines() if avoid else [])
    excluded = [json.loads(line)["messages"][:-1] for line in avoided]
    pool = min(8 * batch, left + left // 4 + 1)  # some answers are dropped
    conversations = answered(checkpoint, talks, batch, max_new_tokens, excluded, pool)
    first = itertools.islice(conversations, left)
    with path.open("ab") as file:
        # With a delay, an error before the first answer is printed without a bar.
        for conversation in tqdm(first, path.name, left, unit="answer", mininterval=1, delay=1):
            file.write(json.dumps(conversation, ensure_ascii=False).encode() + b"\n")
            file.flush()


def _whole_lines(path: Path) -> list[str]:
    """Return the lines of a file, after removing an unfinished last one."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        os.truncate(path, len(whole))
    return whole.decode().splitlines()


def continuations(
    checkpoint: Checkpoint,
    prompts: Sequence[list[int]],
    max_new_tokens: int,
    batch: int,
    sampling: Sampling | None = None,
) -> list[tuple[str, bool]]:
    """Return the model's continuation of each prompt, and whether it ended with an end token.

    sampling: the sampling settings, from whose seed each prompt gets its own; None for greedy decoding.
    """
    seeds = random.Random(sampling.seed if sampling else 0)
    requests = []
    for ids in prompts:
        own = sampling and replace(sampling, seed=seeds.getrandbits(63))
        requests.append((Encoded(ids, ""), Request("ar", max_new_tokens=max_new_tokens, sampling=own)))
    runs = finished(checkpoint, requests, batch)
    answers = {number: (run.text, run.stop == "eos") for number, run in runs}
    return [answers[number] for number in range(len(prompts))]
