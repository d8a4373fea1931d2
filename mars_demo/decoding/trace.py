"""The record of a run: one `Pass` per forward, one `Run` per answer, and their JSONL form.

A run is written as JSON lines: the settings first, then a line per forward, then a closing line.
Whatever this project draws, grades, saves or times is read from these records.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from mars_demo.decoding.record_schema import MOST_LINES, MOST_SLOTS, READABLE, SCHEMA, checked
from mars_demo.models.messages import Message, user

# Fields of a pass that only some records have.
OPTIONAL = ("drafts", "verified", "groups", "draft_forwards", "model_ms", "read_ms")


@dataclass(frozen=True, slots=True)
class Slot:
    """One position a forward predicted.

    `text` is what the slot shows. For accepted slots the texts, joined over the run, are the answer
    exactly: bytes of an unfinished character wait for the slot that finishes it, and an accepted end
    token has the text "". `score` is what the run's criterion gave the token, from 0 to 1. `top` holds the
    most probable (text, probability) pairs, best first, and `candidates` their ids; records that were made
    before branches have none.

    `source` is one of `record_schema.SOURCES`, None in records that were made before there were any. A copy
    that is still to be verified has no `top`, and its score is the chance that copies have held so far.
    Verified slots have the model's own score and `top`.
    """

    id: int
    text: str
    score: float
    top: tuple[tuple[str, float], ...] = ()
    source: str | None = None
    candidates: tuple[int, ...] = ()

    def record(self) -> dict[str, Any]:
        record = {
            "id": self.id,
            "text": self.text,
            "score": round(self.score, 6),
            "top": [[text, round(probability, 6)] for text, probability in self.top],
        }
        if self.candidates:
            record["candidates"] = list(self.candidates)
        return record | ({"source": self.source} if self.source else {})

    @classmethod
    def read(cls, record: dict[str, Any]) -> Slot:
        score = record.get("score", record.get("confidence"))
        top = tuple((text, probability) for text, probability in record["top"])
        candidates = tuple(record.get("candidates", ()))
        return cls(record["id"], record["text"], score, top, record.get("source"), candidates)


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

    number: int
    tau: float | None
    positions: int
    ms: float
    accepted: int
    slots: tuple[Slot, ...]
    stop: str | None = None
    drafts: int | None = None
    verified: int | None = None
    groups: int | None = None
    draft_forwards: int | None = None
    model_ms: float | None = None
    read_ms: float | None = None

    @property
    def text(self) -> str:
        """What this pass added to the answer."""
        return "".join(slot.text for slot in self.slots[: self.accepted])

    def line(self) -> str:
        record: dict[str, Any] = {
            "pass": self.number,
            "tau": self.tau,
            "positions": self.positions,
            "ms": round(self.ms, 3),
            "accepted": self.accepted,
            "stop": self.stop,
        }
        if self.drafts is not None:
            record |= {"drafts": self.drafts, "verified": self.verified, "groups": self.groups}
        if self.draft_forwards is not None:
            record["draft_forwards"] = self.draft_forwards
        if self.model_ms is not None:
            record |= {"model_ms": round(self.model_ms, 3), "read_ms": round(self.read_ms, 3)}
        record["slots"] = [slot.record() for slot in self.slots]
        return json.dumps(record, ensure_ascii=False)

    @classmethod
    def read(cls, record: dict[str, Any]) -> Pass:
        return cls(
            number=record["pass"],
            slots=tuple(map(Slot.read, record["slots"])),
            **{key: record[key] for key in ("tau", "positions", "ms", "accepted", "stop")},
            **{key: record.get(key) for key in OPTIONAL},
        )


@dataclass(frozen=True)
class Settings:
    """The first line of a record: what was asked of whom.

    `prompt_tokens` counts the tokens of the whole conversation, which ends with the prompt.
    """

    mode: str
    model: str
    window: int
    block_size: int | None
    tau: float | None
    prompt: str
    prompt_tokens: int
    device: str
    dtype: str
    max_new_tokens: int
    criterion: str = "probability"
    run: str = field(default_factory=lambda: secrets.token_hex(4))
    schema: int = SCHEMA
    sampling: dict[str, float] | None = None  # the fields of `sampling.Sampling`
    raw: bool = False  # the prompt was continued as it is, without a chat template
    gpu: str | None = None  # what the GPU is called, if it was one
    messages: list[Message] = field(default_factory=list)  # of the conversation, before the prompt
    cached_tokens: int = 0  # of the prompt's tokens, those that an earlier turn had left in the cache
    # [positions, milliseconds] pairs of `costs.Costs`, where these decided how many slots each forward had
    costs: list[list[float]] | None = None
    # Where an answer was given a beginning: the `run` that it leaves (or None), the tokens that it keeps of
    # that (`at`), and `given`, the [id, text] of all that no forward of this run has accepted.
    branch: dict[str, Any] | None = None

    @property
    def conversation(self) -> list[Message]:
        """All that the model was asked: the messages and, after them, the prompt."""
        return [*self.messages, user(self.prompt)]

    @property
    def given(self) -> list[list]:
        """The [id, text] of the tokens that the answer was given."""
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

    def finish(self) -> Run:
        """Run to the end."""
        for _ in self:
            pass
        return self

    @property
    def text(self) -> str:
        """The whole answer, with what it was given."""
        return "".join([text for _, text in self.settings.given] + [step.text for step in self.passes])

    @property
    def messages(self) -> list[Message]:
        """The conversation with this answer, which a follow-up continues."""
        answer = {"role": "assistant", "content": self.text, "mode": self.settings.mode}
        return [*self.settings.conversation, answer]

    @property
    def token_ids(self) -> list[int]:
        """Of the whole answer, with what it was given."""
        accepted = [slot.id for step in self.passes for slot in step.slots[: step.accepted]]
        return [id for id, _ in self.settings.given] + accepted

    @property
    def tau(self) -> float | None:
        """What its last forward had; None in a mode without a threshold."""
        return next((step.tau for step in reversed(self.passes) if step.tau is not None), None)

    @property
    def tokens(self) -> int:
        """Accepted tokens, the end token included."""
        return sum(step.accepted for step in self.passes)

    @property
    def sources(self) -> Counter[str]:
        """How many accepted tokens came from where; empty for records that do not say."""
        slots = (slot for step in self.passes for slot in step.slots[: step.accepted])
        return Counter(slot.source for slot in slots if slot.source)

    @property
    def forwards(self) -> int:
        """Every forward counts: the prefill too, and the commits of a block-level cache."""
        return len(self.passes) + self.commits

    @property
    def tokens_per_forward(self) -> float:
        return self.tokens / self.forwards if self.forwards else 0.0

    @property
    def seconds(self) -> float:
        """The run's own clock: the time of its own forwards and of nothing else."""
        return sum(step.ms for step in self.passes) / 1000

    def first_line(self) -> str:
        settings = asdict(self.settings)
        # Said only where there is something to say:
        for name in ("sampling", "gpu", "raw", "messages", "cached_tokens", "costs", "branch"):
            if not settings[name]:
                del settings[name]
        return json.dumps(
            {key: settings.pop(key) for key in ("run", "schema")} | settings, ensure_ascii=False
        )

    def last_line(self) -> str:
        record = {
            "done": True,
            "tokens": self.tokens,
            "forwards": self.forwards,
            # Of the times as their lines have them, so that a record that was read is written alike.
            "seconds": round(sum(round(step.ms, 3) for step in self.passes) / 1000, 4),
            "stop": self.stop,
        }
        return json.dumps(record | ({"commits": self.commits} if self.commits else {}))

    def lines(self) -> Iterator[str]:
        """The record so far; the closing line only once the run has stopped."""
        yield self.first_line()
        yield from (step.line() for step in self.passes)
        if self.stop:
            yield self.last_line()

    @classmethod
    def read(cls, lines: Iterable[str]) -> Run:
        """A finished run from its record.

        Raises:
            ValueError: as `read_runs`, or if the record holds no run or several.
        """
        runs = read_runs(lines)
        if len(runs) != 1:
            raise ValueError(f"{NO_RECORD}: it holds {len(runs)} runs, not one.")
        return runs[0]


NO_RECORD = f"This is not a run record of schema {' or '.join(map(str, READABLE))}"


def read_runs(lines: Iterable[str]) -> list[Run]:
    """The runs of a file that holds their records one after the other.

    Raises:
        ValueError: if the lines are not run records of a known schema; it names the line and the field.
    """
    runs: list[Run] = []
    slots = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            if number > MOST_LINES:
                raise ValueError(f"a record has at most {MOST_LINES} lines")
            record = json.loads(line, parse_constant=_refuse)
            kind = checked(record)
            slots += len(record.get("slots", ()))
            if slots > MOST_SLOTS:
                raise ValueError(f"the forwards of a record have at most {MOST_SLOTS} slots")
            if kind in ("pass", "done") and not runs:
                raise ValueError("a record begins with the settings of a run")
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"{NO_RECORD}: line {number}, it is not JSON.") from error
        except ValueError as error:
            raise ValueError(f"{NO_RECORD}: line {number}, {error}.") from error
        if kind == "run":
            runs.append(Run(Settings(**record | {"schema": SCHEMA})))
        elif kind == "pass":
            runs[-1].add(Pass.read(record))
        elif kind == "done":
            runs[-1].stop, runs[-1].commits = record["stop"], record.get("commits", 0)
    return runs


def _refuse(constant: str) -> None:
    """NaN and the infinities are no JSON, though Python reads them."""
    raise json.JSONDecodeError(constant, constant, 0)
