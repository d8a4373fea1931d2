"""Training data from the model itself: its own questions, or given ones, and its own greedy answers.

A model that learns from its own answers has nothing new to learn except the masks, and text that it would
write anyway is accepted in longer runs.
"""

import itertools
import json
import os
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from mars_demo import tasks
from mars_demo.assets import read_json
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.chat import Message, encode_prompt, left_padded, pad_id, render, with_slots
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.messages import Encoded
from mars_demo.serving.decode_batch import finished

MAX_PROMPT = 128  # tokens of a question
_LOOP = re.compile(r"(.{24,}?)\1\1", re.DOTALL)


def prompts_from(source: str, seed: int = 0) -> Iterator[str]:
    """Yield `tasks`, endless, or the lines of a text file, or the first user turns of a JSONL file.

    Raises:
        ValueError: if the file holds no prompt.
    """
    if source == "tasks":
        return (example.prompt for example in tasks.examples(None, "train", seed))
    lines = [line for line in Path(source).read_text(encoding="utf-8").splitlines() if line.strip()]
    if source.endswith(".jsonl"):
        lines = [_first_user_turn(line) for line in lines]
    lines = [line for line in lines if line]
    if not lines:
        raise ValueError(f"{source} holds no prompt.")
    return iter(lines)


def _first_user_turn(line: str) -> str | None:
    try:
        return next(m["content"] for m in json.loads(line)["messages"] if m["role"] == "user")
    except (ValueError, KeyError, TypeError, StopIteration):
        return None


def made_prompts(seed: int = 0) -> Iterator[str]:
    """Yield prompts made from the templates in `assets/distillation.json`. Endless."""
    made = read_json("distillation.json")
    kinds, shares = list(made["shares"]), list(made["shares"].values())
    rng = random.Random(seed)
    while True:
        kind = rng.choices(kinds, shares)[0]
        fields = {name: rng.choice(choices) for name, choices in made["fields"].items()}
        numbers = {
            "a": rng.randint(10, 200),
            "b": rng.randint(10, 200),
            "c": rng.randint(6, 12),
            "d": rng.randint(2, 5),
        }
        yield rng.choice(made["templates"][kind]).format(**fields, **numbers)


def follow_ups(conversations: Iterable[dict], seed: int = 0) -> Iterator[list[Message]]:
    """Yield each conversation with a complete answer, with one more turn by the user."""
    asks = read_json("distillation.json")["follow_ups"]
    rng = random.Random(seed)
    for conversation in conversations:
        if conversation["messages"][-1].get("cut"):
            continue
        yield [*conversation["messages"], {"role": "user", "content": rng.choice(asks)}]


def self_prompts(checkpoint: Checkpoint, batch: int, seed: int = 0) -> Iterator[str]:
    """Yield questions that the model itself writes after its chat template's opening of a user turn,
    sampled at temperature 1 and top-p 0.95. Endless; those longer than `MAX_PROMPT` tokens are dropped."""
    tokenizer = checkpoint.tokenizer
    slotted, _ = with_slots([{"role": "user", "content": "x"}])
    opening = render(tokenizer, slotted, reply=False).partition("\ue000")[0]
    ids = tokenizer(opening, add_special_tokens=False)["input_ids"]
    seeds = random.Random(seed)
    while True:
        sampling = Sampling(top_p=0.95, seed=seeds.getrandbits(63))
        written = generate(checkpoint, [ids] * batch, MAX_PROMPT, batch, sampling)
        yield from (text.strip() for text, ended in written if ended and text.strip())


def answered(
    checkpoint: Checkpoint,
    talks: Iterable[str | list[Message]],
    batch: int = 32,
    max_new_tokens: int = 256,
    known: Iterable[str] = (),
    pool: int | None = None,
    skip: int = 0,
) -> Iterator[dict]:
    """Yield a conversation per prompt with the model's greedy answer; a prompt is a text or a whole
    conversation that ends in a user's turn.

    Left out are prompts that are among the `known` ones, came before or do not fit, and answers that go
    round in a loop. An answer that does not end within `max_new_tokens` is marked as `cut`. Prompts are
    taken `pool` at a time, eight batches if None, after those to `skip`; `asked` of a conversation counts
    them from 0.
    """
    seen = {_key(prompt) for prompt in known}

    def fresh() -> Iterator[tuple[list[Message], list[int]]]:
        for talk in talks:
            messages = [{"role": "user", "content": talk}] if isinstance(talk, str) else talk
            key = _key("\n".join(message["content"] for message in messages))
            if not messages[-1]["content"].strip() or key in seen:
                continue
            seen.add(key)
            ids = encode_prompt(checkpoint.tokenizer, messages)
            if len(ids) + max_new_tokens <= checkpoint.context:
                yield messages, ids

    pending = itertools.islice(fresh(), skip, None)
    # Many at a time, sorted by length: less padding, and finished rows make room for the next.
    pool = pool or 8 * batch
    for first in itertools.count(skip, pool):
        if not (asked := list(itertools.islice(pending, pool))):
            return
        shortest_first = sorted(range(len(asked)), key=lambda i: len(asked[i][1]))
        written = generate(checkpoint, [asked[i][1] for i in shortest_first], max_new_tokens, batch)
        answers = dict(zip(shortest_first, written))
        # In the order asked: whoever stops early has not only short ones.
        for i, (messages, _) in enumerate(asked):
            text, ended = answers[i]
            if text.strip() and not is_loop(text):
                answer = {"role": "assistant", "content": text, "own": True} | (
                    {} if ended else {"cut": True}
                )
                yield {"messages": [*messages, answer], "asked": first + i}


def _key(prompt: str) -> str:
    return " ".join(prompt.lower().split())


def is_loop(text: str) -> bool:
    """Return whether the text says the same thing three times in a row."""
    return _LOOP.search(text) is not None


def write(
    path: Path,
    checkpoint: Checkpoint,
    talks: Iterable[str | list[Message]],
    count: int,
    batch: int = 32,
    max_new_tokens: int = 256,
    avoid: Path | None = None,
) -> Iterator[int]:
    """Answer prompts into a JSONL file until it holds `count` conversations; yields how many it holds.

    Called again with the same prompts it goes on with the file. Each line says in `asked` which of the
    prompts it answers. Prompts are answered in pools, and an interrupted pool is answered again as a whole:
    its batches, on whose rows an answer may depend, are those of a run that was never interrupted.
    Prompts of the file to `avoid`, held out, are not answered.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    held = _whole_lines(path) if path.exists() else []
    if len(held) >= count:
        return
    avoided = avoid.read_text(encoding="utf-8").splitlines() if avoid else []
    known = ["\n".join(m["content"] for m in json.loads(line)["messages"][:-1]) for line in avoided]
    last = json.loads(held[-1]).get("asked", len(held) - 1) if held else -1
    pool = min(8 * batch, count + count // 4 + 1)  # some will be dropped
    number = len(held)
    with path.open("ab") as file:
        for conversation in answered(
            checkpoint, talks, batch, max_new_tokens, known, pool, skip=(last + 1) // pool * pool
        ):
            if conversation["asked"] <= last:
                continue
            file.write(json.dumps(conversation, ensure_ascii=False).encode() + b"\n")
            file.flush()
            number += 1
            yield number
            if number == count:
                return


def _whole_lines(path: Path) -> list[str]:
    """Return the lines of a file, from which a last, unfinished one is removed."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        os.truncate(path, len(whole))
    return whole.decode().splitlines()


def generate(
    checkpoint: Checkpoint,
    prompts: Sequence[list[int]],
    max_new_tokens: int,
    batch: int,
    sampling: Sampling | None = None,
) -> list[tuple[str, bool]]:
    """Return, for each prompt, the text that the model writes after it, and whether it ended by itself.

    sampling: how tokens are drawn, each prompt's with a seed of its own; None for the most probable ones.
    """
    if checkpoint.device.type == "cuda":
        return [
            answer
            for start in range(0, len(prompts), batch)
            for answer in _compiled(checkpoint, prompts[start : start + batch], max_new_tokens, sampling)
        ]
    seeds = random.Random(sampling.seed if sampling else 0)
    request = Request("ar", max_new_tokens=max_new_tokens)
    asked = [
        (
            Encoded(ids, ""),
            replace(request, sampling=sampling and replace(sampling, seed=seeds.getrandbits(63))),
        )
        for ids in prompts
    ]
    answers = {number: (run.text, run.stop == "eos") for number, run in finished(checkpoint, asked, batch)}
    return [answers[number] for number in range(len(prompts))]


@torch.inference_mode()
def _compiled(
    checkpoint: Checkpoint, prompts: Sequence[list[int]], max_new_tokens: int, sampling: Sampling | None
) -> list[tuple[str, bool]]:
    """Answer one batch by transformers' compiled forward: thousands of rows cost it nothing in Python."""
    tokenizer = checkpoint.tokenizer
    settings = {"do_sample": sampling is not None}
    if sampling:
        torch.manual_seed(sampling.seed)
        settings |= {name: getattr(sampling, name) for name in ("temperature", "top_p", "top_k")}
    # Compiled for its shapes, so there should be few of them.
    ids, real = left_padded(prompts, pad_id(tokenizer), checkpoint.model.device, multiple=64)
    output = checkpoint.model.generate(
        ids,
        attention_mask=real,
        max_new_tokens=max_new_tokens,
        pad_token_id=pad_id(tokenizer),
        eos_token_id=sorted(checkpoint.end_ids),
        cache_implementation="static",
        **settings,
    )
    texts = []
    for row in output[:, ids.shape[1] :].tolist():
        length = next((i for i, token in enumerate(row) if token in checkpoint.end_ids), None)
        text = tokenizer.decode(row[:length], skip_special_tokens=True, clean_up_tokenization_spaces=False)
        texts.append((text, length is not None))
    return texts
