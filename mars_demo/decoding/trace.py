"""The record of a run: one `Pass` per forward, one `Run` per answer, and their JSONL form.

A run is written as JSON lines: the settings first, then a line per forward, then a closing line.
Whatever this project draws, grades, saves or times is read from these records. What a field may hold is
part of its type; it is checked where a record is read.
"""

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    with_config,
)
from pydantic_core import to_json

from mars_demo.decoding import fields
from mars_demo.decoding.fields import NO_RECORD, UNLESS_EMPTY, UNLESS_NONE
from mars_demo.limits import LIMITS
from mars_demo.models.messages import Message, user


@with_config(fields.STRICT)
@dataclass(frozen=True, slots=True)
class Slot:
    """One position a forward predicted.

    `text` is what the slot shows. For accepted slots the texts, joined over the run, are the answer
    exactly: bytes of an unfinished character wait for the slot that finishes it, and an accepted end
    token has the text "". `score` is what the run's criterion gave the token, from 0 to 1. `top` holds the
    most probable (text, probability) pairs, best first, and `candidates` their ids; records that were made
    before branches have none.

    `source` is one of `fields.SOURCES`, None in records that were made before there were any. A copy
    that is still to be verified has no `top`, and its score is the chance that copies have held so far.
    Verified slots have the model's own score and `top`.
    """

    id: fields.Id
    text: fields.Name
    score: Annotated[fields.Score, Field(validation_alias=AliasChoices("score", "confidence"))]
    top: fields.Candidates = ()
    source: Annotated[fields.Source | None, UNLESS_NONE] = None
    candidates: Annotated[fields.Ids, UNLESS_EMPTY] = ()


@with_config(fields.STRICT)
@dataclass(frozen=True, slots=True)
class Pass:
    """One forward of the model and what was accepted of it.

    `positions` counts the positions this forward computed, `ms` its wall-clock milliseconds,
    `accepted` the leading `slots` that joined the answer. In a self-verifying run `drafts` were
    checked by this pass and the first `verified` of them held; it carried `groups` groups of masks, one
    for each number of drafts that might hold, or a single one after all of them. In speculative decoding
    the drafts took `draft_forwards` forwards of the second model, which `positions` does not count.

    Of `ms`, `model_ms` went into the model and `read_ms` into reading its logits. They are None where the
    host cannot tell them apart: on a GPU, which computes while the host goes on, in a batch, and in records
    that were made before there were any.
    """

    number: Annotated[fields.Tokens, Field(alias="pass", ge=1)]
    tau: fields.Share | None
    positions: fields.Tokens
    ms: fields.Ms
    accepted: fields.Count
    slots: Annotated[tuple[Slot, ...], fields.several(2 * fields.WIDEST)]
    stop: fields.Name | None = None
    drafts: Annotated[fields.Count | None, UNLESS_NONE] = None
    verified: Annotated[fields.Count | None, UNLESS_NONE] = None
    groups: Annotated[fields.Count | None, UNLESS_NONE] = None
    draft_forwards: Annotated[fields.Count | None, UNLESS_NONE] = None
    model_ms: Annotated[fields.Ms | None, UNLESS_NONE] = None
    read_ms: Annotated[fields.Ms | None, UNLESS_NONE] = None

    @property
    def text(self) -> str:
        return "".join(slot.text for slot in self.slots[: self.accepted])

    def line(self, lane: str | None = None) -> str:
        """Return the line of this pass, in a race with its lane."""
        return _written(self, lane)


@with_config(fields.STRICT)
@dataclass(frozen=True)
class Settings:
    """The first line of a record: what was asked of whom.

    `prompt_tokens` counts the tokens of the whole conversation, which ends with the prompt.
    """

    mode: fields.Mode
    model: fields.Name
    window: fields.Width
    block_size: fields.Width | None
    tau: fields.Share | None
    prompt: fields.Text
    prompt_tokens: fields.Tokens
    device: fields.Name
    dtype: fields.Name
    max_new_tokens: fields.Tokens
    criterion: fields.Criterion = "probability"
    run: fields.Name = field(default_factory=lambda: secrets.token_hex(4))
    schema: fields.Readable = fields.SCHEMA
    sampling: Annotated[fields.Drawn | None, UNLESS_EMPTY] = None
    raw: Annotated[bool, UNLESS_EMPTY] = False  # the prompt was continued as it is, without a template
    gpu: Annotated[fields.Name | None, UNLESS_EMPTY] = None  # what the GPU is called, if it was one
    # Of the conversation, before the prompt.
    messages: Annotated[fields.Messages, UNLESS_EMPTY] = field(default_factory=list)
    # Tokens of the prompt that were in the cache of an earlier text.
    cached_tokens: Annotated[fields.Tokens, UNLESS_EMPTY] = 0
    # [positions, milliseconds] by which windows were chosen, if they were.
    costs: Annotated[fields.Costs | None, UNLESS_EMPTY] = None
    branch: Annotated[fields.Begun | None, UNLESS_EMPTY] = None

    @property
    def conversation(self) -> list[Message]:
        """Return all that the model was asked: the messages and, after them, the prompt."""
        return [*self.messages, user(self.prompt)]

    @property
    def given(self) -> list[list]:
        """Return the [id, text] of the tokens that the answer begins with."""
        return self.branch["given"] if self.branch else []


class Run:
    """An answer while it is made and afterwards. Iterating runs the next forward and yields its Pass.

    `run.close()` stops it: nothing more is computed and everything held for it is freed.
    `commits` counts the forwards that accepted nothing and only put a block into the block-level cache.
    """

    def __init__(self, settings: Settings, source: Iterable[Pass] = ()):
        self.settings = settings
        self.passes: list[Pass] = []
        self.stop: str | None = None
        self.commits = 0
        self._source = iter(source)

    def __iter__(self) -> Iterator[Pass]:
        return self

    def __next__(self) -> Pass:
        try:
            step = next(self._source)
        except StopIteration:
            self.close()
            raise
        self.add(step)
        return step

    def add(self, step: Pass) -> None:
        """Record a pass that was run elsewhere, in a batch say."""
        self.passes.append(step)
        self.stop = step.stop or self.stop

    def close(self) -> None:
        if hasattr(self._source, "close"):
            self._source.close()
        self._source = iter(())
        self.stop = self.stop or "stopped"

    def finish(self) -> Self:
        for _ in self:
            pass
        return self

    @property
    def text(self) -> str:
        """Return the whole answer, with what it was given."""
        return "".join([text for _, text in self.settings.given] + [step.text for step in self.passes])

    @property
    def messages(self) -> list[Message]:
        """Return the conversation with this answer, which a follow-up continues."""
        answer = {"role": "assistant", "content": self.text, "mode": self.settings.mode}
        return [*self.settings.conversation, answer]

    @property
    def token_ids(self) -> list[int]:
        """Return the token ids of the whole answer, with what it was given."""
        accepted = [slot.id for step in self.passes for slot in step.slots[: step.accepted]]
        return [id for id, _ in self.settings.given] + accepted

    @property
    def tau(self) -> float | None:
        """Return what its last forward had; None in a mode without a threshold."""
        return next((step.tau for step in reversed(self.passes) if step.tau is not None), None)

    @property
    def tokens(self) -> int:
        """Accepted tokens, the end token included."""
        return sum(step.accepted for step in self.passes)

    @property
    def sources(self) -> Counter[str]:
        """Return how many accepted tokens came from where; empty for records that do not say."""
        slots = (slot for step in self.passes for slot in step.slots[: step.accepted])
        return Counter(slot.source for slot in slots if slot.source)

    @property
    def forwards(self) -> int:
        """Count every forward: the prefill too, and the commits of a block-level cache."""
        return len(self.passes) + self.commits

    @property
    def tokens_per_forward(self) -> float:
        return self.tokens / self.forwards if self.forwards else 0.0

    @property
    def seconds(self) -> float:
        """Return the run's own clock: the time of its own forwards and of nothing else."""
        return sum(step.ms for step in self.passes) / 1000

    def first_line(self, lane: str | None = None) -> str:
        return _written(self.settings, lane)

    def last_line(self, lane: str | None = None) -> str:
        # The sum of the times as their lines have them, so that a record that was read is written alike.
        seconds = round(sum(round(step.ms, 3) for step in self.passes) / 1000, 4)
        return _written(Done(self.tokens, self.forwards, seconds, self.stop, self.commits), lane)

    def lines(self) -> Iterator[str]:
        """Yield the record so far; the closing line only once the run has stopped."""
        yield self.first_line()
        yield from (step.line() for step in self.passes)
        if self.stop:
            yield self.last_line()

    @classmethod
    def read(cls, lines: Iterable[str]) -> Self:
        """Return a finished run from its record.

        Raises:
            ValueError: as `read_runs`, or if the record holds no run or several.
        """
        runs = read_runs(lines)
        if len(runs) != 1:
            raise ValueError(f"{NO_RECORD}: it holds {len(runs)} runs, not one.")
        return runs[0]


# ------------------------------------------------------------------------------------------- its lines


@with_config(fields.STRICT)
@dataclass(frozen=True)
class Recording:
    """The line before a recorded run: its id, title and note."""

    recording: fields.Name
    title: fields.Name
    note: fields.Text


@with_config(fields.STRICT)
@dataclass(frozen=True)
class Done:
    """The last line of a run."""

    tokens: fields.Tokens
    forwards: fields.Tokens
    seconds: fields.Duration
    stop: fields.Name | None
    commits: Annotated[fields.Tokens, UNLESS_EMPTY] = 0
    done: Literal[True] = True


def _consistent(step: Pass) -> Pass:
    if step.accepted > len(step.slots):
        raise ValueError("accepted is larger than the number of its slots")
    if (step.drafts is None) != (step.verified is None) or (step.verified or 0) > (step.drafts or 0):
        raise ValueError("verified must count some of its drafts")
    return step


def _kind(line: Any) -> str | None:
    """Return the field that only lines of this kind have."""
    return next((kind for kind in KINDS if kind in line), None) if isinstance(line, dict) else None


KINDS = ("recording", "run", "pass", "done")
_LINE = TypeAdapter(
    Annotated[
        Annotated[Recording, Tag("recording")]
        | Annotated[Settings, Tag("run")]
        | Annotated[Pass, AfterValidator(_consistent), Tag("pass")]
        | Annotated[Done, Tag("done")],
        Discriminator(
            _kind,
            custom_error_type="line",
            custom_error_message="it is neither settings nor forward nor end of a run",
        ),
    ]
)
_WRITTEN = {kind: TypeAdapter(kind) for kind in (Settings, Pass, Done)}


def _written(line: Settings | Pass | Done, lane: str | None) -> str:
    # Without warnings: a threshold may be the whole number 1.
    record = _WRITTEN[type(line)].dump_python(line, mode="json", by_alias=True, warnings=False)
    return to_json(record if lane is None else {"lane": lane} | record).decode()


def read_text(text: Any) -> list[Run]:
    """Return the runs of a record that somebody sends.

    Raises:
        ValueError: as `read_runs`, or if it is larger than `LIMITS.record`.
    """
    if not isinstance(text, str) or len(text) > LIMITS.record << 20:
        raise ValueError(f"The record of a run is a text of at most {LIMITS.record} MiB.")
    return read_runs(text.split("\n"))


def read_runs(lines: Iterable[str]) -> list[Run]:
    """Return the runs of a file that holds their records one after the other.

    Raises:
        ValueError: if the lines are not run records of a known schema; it names the line and the field.
    """
    runs: list[Run] = []
    slots = 0
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            if number > fields.MOST_LINES:
                raise ValueError(f"a record has at most {fields.MOST_LINES} lines")
            if len(text) > fields.LONGEST_LINE:
                raise ValueError(f"a line has at most {fields.LONGEST_LINE} characters")
            line = _read(text)
            slots += len(line.slots) if isinstance(line, Pass) else 0
            if slots > fields.MOST_SLOTS:
                raise ValueError(f"the forwards of a record have at most {fields.MOST_SLOTS} slots")
            if isinstance(line, Pass | Done) and not runs:
                raise ValueError("a record begins with the settings of a run")
        except ValueError as error:
            raise ValueError(f"{NO_RECORD}: line {number}, {error}.") from None
        if isinstance(line, Settings):
            runs.append(Run(replace(line, schema=fields.SCHEMA)))
        elif isinstance(line, Pass):
            runs[-1].add(line)
        elif isinstance(line, Done):
            runs[-1].stop, runs[-1].commits = line.stop, line.commits
    return runs


def _read(text: str) -> Recording | Settings | Pass | Done:
    try:
        return _LINE.validate_json(text)
    except ValidationError as error:
        raise ValueError(fields.problem(error, below=1)[1]) from None
