"""Run records: one `Pass` per forward, one `Run` per answer, and their JSON lines.

A record consists of the settings, a line per forward, and a closing line. Everything that this project
draws, grades, saves or times comes from these records. The type of a field defines its valid values, which
are checked when a record is read.
"""

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, with_config
from pydantic_core import from_json, to_json

from mars_demo.core import fields
from mars_demo.core.fields import NO_RECORD, UNLESS_EMPTY, UNLESS_NONE
from mars_demo.core.grammar import Grammar
from mars_demo.core.limits import LIMITS
from mars_demo.core.messages import Message, user


@with_config(fields.STRICT)
@dataclass(frozen=True, slots=True)
class Slot:
    """A position that a forward predicted.

    `text` is the text of the slot. The joined texts of the accepted slots of a run are exactly the answer:
    an incomplete character belongs to the slot that completes it, and an accepted end token has the text
    "". `score` is the token's score by the run's criterion, from 0 to 1. `top` holds the most probable
    (text, probability) pairs, best first, and `candidates` their ids; old records have no candidates.

    `source` is one of `fields.SOURCES`, or None in old records. An n-gram draft that is not verified yet
    has no `top`, and its score is its estimated chance of acceptance. Verified slots have the model's own
    score and `top`.
    """

    id: fields.Id
    text: fields.Name
    score: fields.Score
    top: fields.Candidates = ()
    source: Annotated[fields.Source | None, UNLESS_NONE] = None
    candidates: Annotated[fields.Ids, UNLESS_EMPTY] = ()


@with_config(fields.STRICT)
@dataclass(frozen=True, slots=True)
class Pass:
    """One forward of the model and its accepted slots.

    `positions` is the number of computed positions, `ms` the wall-clock milliseconds, and `accepted` the
    number of leading `slots` that joined the answer. In verifying modes, `drafts` is the number of drafts
    that the forward checked, `verified` the number of accepted ones, and `groups` the number of mask
    groups: one for each possible number of accepted drafts, or one after all drafts. In speculative
    decoding `draft_forwards` is the number of the second model's forwards; `positions` excludes them.

    `model_ms` and `read_ms` are the parts of `ms` for the model and for reading its logits. They are None
    on a GPU, which computes asynchronously, in batches, and in old records.
    """

    number: Annotated[fields.Tokens, Field(alias="pass", ge=1)]
    tau: fields.Share | None
    positions: fields.Tokens
    ms: fields.Ms
    accepted: fields.Count
    slots: Annotated[tuple[Slot, ...], fields.at_most(2 * fields.WIDEST)]
    stop: fields.Name | None = None
    drafts: Annotated[fields.Count | None, UNLESS_NONE] = None
    verified: Annotated[fields.Count | None, UNLESS_NONE] = None
    groups: Annotated[fields.Count | None, UNLESS_NONE] = None
    draft_forwards: Annotated[fields.Count | None, UNLESS_NONE] = None
    model_ms: Annotated[fields.Ms | None, UNLESS_NONE] = None
    read_ms: Annotated[fields.Ms | None, UNLESS_NONE] = None

    def __post_init__(self):
        if self.accepted > len(self.slots):
            raise ValueError("accepted is larger than the number of its slots")
        if (self.drafts is None) != (self.verified is None) or (self.verified or 0) > (self.drafts or 0):
            raise ValueError("verified must count some of its drafts")

    @property
    def text(self) -> str:
        """Return the text of the accepted slots."""
        return "".join(slot.text for slot in self.slots[: self.accepted])

    def line(self, lane: str | None = None) -> str:
        """Return the JSON line of this pass; in a race it includes the lane."""
        return _written(self, lane)


@with_config(fields.STRICT)
@dataclass(frozen=True)
class Settings:
    """The first line of a record: the model, the request and the prompt.

    `prompt_tokens` is the number of tokens of the whole conversation, which ends with the prompt.
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
    schema: fields.Schema = fields.SCHEMA
    sampling: Annotated[fields.RecordedSampling | None, UNLESS_EMPTY] = None
    raw: Annotated[bool, UNLESS_EMPTY] = False  # whether the prompt was used without a chat template
    gpu: Annotated[fields.Name | None, UNLESS_EMPTY] = None  # the name of the GPU, if any
    # The messages before the prompt.
    messages: Annotated[fields.Messages, UNLESS_EMPTY] = field(default_factory=list)
    # The number of prompt tokens that were already in the cache.
    cached_tokens: Annotated[fields.Tokens, UNLESS_EMPTY] = 0
    # The [positions, milliseconds] of measured forwards, if the run's windows followed them.
    costs: Annotated[fields.Costs | None, UNLESS_EMPTY] = None
    grammar: Annotated[Grammar | None, UNLESS_NONE] = None  # the shape of the answer

    @property
    def conversation(self) -> list[Message]:
        """Return the messages and the prompt."""
        return [*self.messages, user(self.prompt)]


class Run:
    """A running or finished answer. Each step of its iteration runs a forward and yields its `Pass`.

    `run.turns()` also yields None after each chunk of a long prompt, when a caller can stop the run.

    `run.close()` stops it and frees its resources. `commits` is the number of forwards that only put a
    block into the block-level cache and accepted no token.
    """

    def __init__(self, settings: Settings, source: Iterable[Pass | None] = ()):
        self.settings = settings
        self.passes: list[Pass] = []
        self.stop: str | None = None
        self.commits = 0
        self._source = iter(source)

    def __iter__(self) -> Iterator[Pass]:
        return self

    def __next__(self) -> Pass:
        return next(filter(None, self.turns()))

    def turns(self) -> Iterator[Pass | None]:
        """Continue the answer turn by turn: yield passes, and None after a chunk of the prompt."""
        for step in self._source:
            if step:
                self.add(step)
            yield step
        self.close()

    def add(self, step: Pass) -> None:
        """Record a pass that was computed elsewhere, such as in a batch."""
        self.passes.append(step)
        self.stop = step.stop or self.stop

    def close(self) -> None:
        """Stop the run and free its resources."""
        if hasattr(self._source, "close"):
            self._source.close()
        self._source = iter(())
        self.stop = self.stop or "stopped"

    def finish(self) -> Self:
        """Compute the rest of the answer and return the run."""
        for _ in self:
            pass
        return self

    @property
    def text(self) -> str:
        """Return the answer."""
        return "".join(step.text for step in self.passes)

    @property
    def messages(self) -> list[Message]:
        """Return the conversation with this answer at its end."""
        answer = {"role": "assistant", "content": self.text, "mode": self.settings.mode}
        return [*self.settings.conversation, answer]

    @property
    def token_ids(self) -> list[int]:
        """Return the token ids of the answer."""
        return [slot.id for step in self.passes for slot in step.slots[: step.accepted]]

    @property
    def tokens(self) -> int:
        """Return the number of accepted tokens, including the end token."""
        return sum(step.accepted for step in self.passes)

    @property
    def sources(self) -> Counter[str]:
        """Return the number of accepted tokens by source; empty for old records."""
        slots = (slot for step in self.passes for slot in step.slots[: step.accepted])
        return Counter(slot.source for slot in slots if slot.source)

    @property
    def forwards(self) -> int:
        """Return the number of forwards, including the prefill and commits of a block-level cache."""
        return len(self.passes) + self.commits

    @property
    def tokens_per_forward(self) -> float:
        return self.tokens / self.forwards if self.forwards else 0.0

    @property
    def seconds(self) -> float:
        """Return the total time of the run's own forwards."""
        return sum(step.ms for step in self.passes) / 1000

    def first_line(self, lane: str | None = None) -> str:
        return _written(self.settings, lane)

    def last_line(self, lane: str | None = None) -> str:
        # The sum of the rounded times, so that reading and writing a record does not change it.
        seconds = round(sum(round(step.ms, 3) for step in self.passes) / 1000, 4)
        return _written(Done(self.tokens, self.forwards, seconds, self.stop, self.commits), lane)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the record so far, and the closing line once the run has stopped."""
        yield self.first_line()
        yield from (step.line() for step in self.passes)
        if self.stop:
            yield self.last_line()

    @classmethod
    def read(cls, lines: Iterable[str]) -> Self:
        """Return the run of a record.

        Raises:
            ValueError: as `read_runs`, or if the record does not hold exactly one run.
        """
        runs = read_runs(lines)
        if len(runs) != 1:
            raise ValueError(f"{NO_RECORD}: it holds {len(runs)} runs, not one.")
        return runs[0]


# ----------------------------------------------------------------------------------------------- lines


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


# The lines by the field that only lines of this kind have.
KINDS = {"recording": Recording, "run": Settings, "pass": Pass, "done": Done}
_TYPES = {kind: TypeAdapter(kind) for kind in KINDS.values()}


def rules() -> dict[str, Any]:
    """Return what a page without a server needs to check records: limits, and the JSON schemas of lines."""
    return {
        "kinds": {name: _TYPES[kind].json_schema() for name, kind in KINDS.items()},
        "no_record": NO_RECORD,
        "lines": fields.MOST_LINES,
        "longest": fields.LONGEST_LINE,
        "slots": fields.MOST_SLOTS,
    }


def _written(line: Settings | Pass | Done, lane: str | None) -> str:
    # No warnings, because a threshold may be the integer 1.
    record = _TYPES[type(line)].dump_python(line, mode="json", by_alias=True, warnings=False)
    return to_json(record if lane is None else {"lane": lane} | record).decode()


def read_text(text: Any) -> list[Run]:
    """Return the runs of an untrusted record.

    Raises:
        ValueError: as `read_runs`, or if it is larger than `LIMITS.record`.
    """
    if not isinstance(text, str) or len(text) > LIMITS.record << 20:
        raise ValueError(f"A run record must be a text of at most {LIMITS.record} MiB.")
    return read_runs(text.split("\n"))


def read_runs(lines: Iterable[str]) -> list[Run]:
    """Return the runs of a file of concatenated records.

    Raises:
        ValueError: if the lines are not run records of a known schema; the message names line and field.
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
            runs.append(Run(line))
        elif isinstance(line, Pass):
            runs[-1].add(line)
        elif isinstance(line, Done):
            runs[-1].stop, runs[-1].commits = line.stop, line.commits
    return runs


def _read(text: str) -> Recording | Settings | Pass | Done:
    try:
        line = from_json(text)
    except ValueError:
        raise ValueError("it is not JSON") from None
    kind = next((kind for kind in KINDS if kind in line), None) if isinstance(line, dict) else None
    if kind is None:
        raise ValueError("it is neither the settings, a forward nor the end of a run")
    try:
        return _TYPES[KINDS[kind]].validate_json(text)
    except ValidationError as error:
        raise ValueError(fields.problem(error)[1]) from None
