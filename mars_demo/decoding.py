"""Strategies that read logits and decide what is accepted. Each is a generator of `Pass`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from torch import Tensor

from mars_demo import layout as layouts
from mars_demo.chat import encode_prompt
from mars_demo.checkpoints import Checkpoint
from mars_demo.engine import Engine
from mars_demo.sampling import Sampling
from mars_demo.trace import Pass, Run, Settings, Slot

MODES = ("ar", "mars", "lossless", "jacobi", "block-diffusion", "speculative")
GUESSED_WINDOW = 64  # the largest where drafts need no training of the verifying model
ALTERNATIVES = 5  # candidates recorded for each slot

Tau = float | Callable[[], float]


def decode(checkpoint: Checkpoint, prompt: str, **settings) -> Run:
    """An answer that is computed while it is iterated, one forward per step.

    The keyword arguments are those of `prepare`, which says what they mean.

    Raises:
        ValueError: if one of them is out of its range or the prompt does not fit into the context.
    """
    described, strategy = prepare(checkpoint, prompt, **settings)
    return Run(described, drive(Engine(checkpoint.model), strategy, settings.get("sampling")))


def prepare(
    checkpoint: Checkpoint,
    prompt: str,
    *,
    mode: str = "mars",
    tau: Tau = 0.95,
    window: int | None = None,
    max_new_tokens: int = 256,
    raw: bool = False,
    linear: bool | None = None,
    draft: Checkpoint | None = None,
    sampling: Sampling | None = None,
) -> tuple[Settings, Strategy]:
    """What is about to be decoded, and the strategy that will do it.

    mode: `ar`, one token per forward; `mars`, sliding window (section 3.3); `lossless`, the window's
        unaccepted predictions become drafts that the next forward verifies: the tokens of `ar`, fewer
        forwards; `jacobi`, the baseline without training; `block-diffusion`, the paper's baseline, for
        checkpoints trained for it; `speculative`, a second model drafts (section 4.6).
    tau: accept from the left while the top probability is at least this; read again at every pass if it
        is a callable. At 1 every pass accepts one token. In block diffusion it holds for each mask of the
        block, in speculative decoding for the masks behind the drafts. Unused in the other modes.
    window: slots per pass, at most block size + 1; None for the mode's default. In `lossless`, `jacobi`
        and `speculative` a pass verifies up to window - 1 drafts. In block diffusion it is the block size.
    raw: the prompt as it is, without the chat template.
    linear: in `lossless`, draft only behind a fully verified pass: fewer positions, fewer accepted tokens.
        None for what is faster on the device: on a CPU positions cost time, on a GPU they hardly do.
    draft: the model that drafts in `speculative`; any AR or MARS model with the same tokenizer.
    sampling: draw tokens with it instead of taking the most probable ones, in any mode. The modes whose
        answer is that of `ar` then give the answer that `ar` draws with the same seed.

    Raises:
        ValueError: if one of these is out of its range or the prompt does not fit into the context.
    """
    tau_now = _tau_reader(tau)
    first_tau = tau_now()
    if mode not in MODES:
        raise ValueError(f"No mode called {mode!r}: allowed are {', '.join(MODES)}.")
    if mode not in checkpoint.modes:
        allowed = ", ".join(checkpoint.modes)
        raise ValueError(
            f"{checkpoint.name} was trained for {checkpoint.objective} and cannot run mode {mode}: "
            f"allowed is {allowed}, or another checkpoint."
        )
    if mode == "speculative":
        _check_draft(checkpoint, draft)
    if mode == "ar":
        largest = 1
    elif mode in ("jacobi", "speculative"):
        largest = GUESSED_WINDOW
        window = (9 if mode == "jacobi" else 5) if window is None else window
    elif mode == "block-diffusion":
        largest = checkpoint.block_size
    else:
        largest = checkpoint.largest_window
    window = largest if window is None else window
    if not 1 <= window <= largest:
        raise ValueError(
            f"A window of {window} slots does not fit mode {mode} of {checkpoint.name}: allowed is "
            f"{'1' if largest == 1 else f'1 to {largest}'}."
        )
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens must be at least 1, not {max_new_tokens}.")
    if not prompt.strip():
        raise ValueError("The prompt is empty; write something for the model to answer.")
    if raw:
        prompt_ids = checkpoint.tokenizer(prompt, split_special_tokens=True)["input_ids"]
    else:
        prompt_ids = encode_prompt(checkpoint.tokenizer, prompt)
    shortest = min((checkpoint, draft or checkpoint), key=lambda model: model.context)
    room = shortest.context - len(prompt_ids)
    if room < 1:
        raise ValueError(
            f"The prompt has {len(prompt_ids)} tokens; {shortest.name} can read at most "
            f"{shortest.context - 1}."
        )
    settings = Settings(
        mode=mode,
        model=checkpoint.name,
        window=window,
        block_size=checkpoint.block_size,
        tau=first_tau if mode in ("mars", "block-diffusion", "speculative") else None,
        prompt=prompt,
        prompt_tokens=len(prompt_ids),
        device=checkpoint.model.device.type,
        dtype=str(checkpoint.model.dtype).removeprefix("torch."),
        max_new_tokens=max_new_tokens,
        sampling=sampling and asdict(sampling),
    )
    answer = Answer(checkpoint, min(max_new_tokens, room))
    if mode == "lossless":
        linear = settings.device == "cpu" if linear is None else linear
        strategy = self_verified(answer, prompt_ids, window - 1, linear)
    elif mode == "ar":
        strategy = autoregressive(answer, prompt_ids)
    elif mode == "jacobi":
        strategy = jacobi(answer, prompt_ids, window - 1)
    elif mode == "block-diffusion":
        strategy = block_diffusion(answer, prompt_ids, window, tau_now)
    elif mode == "speculative":
        strategy = speculative(answer, prompt_ids, Drafter(draft, sampling), window - 1, tau_now)
    else:
        strategy = sliding_window(answer, prompt_ids, window, tau_now)
    return settings, strategy


def _check_draft(checkpoint: Checkpoint, draft: Checkpoint | None) -> None:
    if draft is None:
        raise ValueError("Mode speculative needs a second, smaller checkpoint that drafts.")
    if "ar" not in draft.modes:
        raise ValueError(f"{draft.name} was trained for {draft.objective} and cannot draft.")
    if draft.tokenizer.get_vocab() != checkpoint.tokenizer.get_vocab():
        raise ValueError(
            f"{draft.name} cannot draft for {checkpoint.name}: their tokenizers differ, and a draft must "
            "be made of the same tokens."
        )


def _tau_reader(tau: Tau) -> Callable[[], float]:
    def read() -> float:
        value = tau() if callable(tau) else tau
        if not 0 <= value <= 1:
            raise ValueError(f"τ must be between 0 and 1, not {value}.")
        return value

    return read


@dataclass(frozen=True)
class Reading:
    """What one row of logits predicts: a token, and candidates, best first, with their probabilities."""

    token: int
    candidates: list[int]
    probabilities: list[float]

    @property
    def confidence(self) -> float:
        return self.probabilities[0]


def read(logits: Tensor, positions: Sequence[int] = (), sampling: Sampling | None = None) -> list[Reading]:
    """One `Reading` per row of [rows, vocabulary] logits; `positions` are their places, for `sampling`."""
    best = logits.softmax(-1).topk(min(ALTERNATIVES, logits.shape[-1]))
    candidates, probabilities = best.indices.tolist(), best.values.tolist()
    if sampling is None or not candidates:
        tokens = [row[0] for row in candidates]
    else:
        tokens = sampling.choose(logits, positions).tolist()
    return [Reading(*row) for row in zip(tokens, candidates, probabilities)]


def accept(readings: Sequence[Reading], tau: float | None) -> int:
    """How many leading slots are accepted: while confidence ≥ τ, slot 1 always (section 3.3).

    At τ = 1, and without a τ, it is slot 1 alone: a float softmax can reach 1.0, so that is no comparison.
    """
    if tau is None or tau >= 1:
        return 1
    confident = itertools.takewhile(lambda reading: reading.confidence >= tau, readings[1:])
    return 1 + sum(1 for _ in confident)


@dataclass
class Answer:
    """The answer so far: its tokens, why it stopped, and the text that is ready to be shown."""

    checkpoint: Checkpoint
    limit: int  # tokens it may have
    ids: list[int] = field(default_factory=list)
    stop: str | None = None
    passes: int = 0
    _shown: int = 0  # ids whose text has been shown
    _start: int = 0  # where the context of the next text begins,
    _context: str = ""  # and the text from there that has been shown

    @property
    def room(self) -> int:
        return self.limit - len(self.ids)

    def step(
        self,
        readings: Sequence[Reading],
        wanted: int,
        *,
        started: float,
        positions: int,
        tau: float | None = None,
        drafts: int | None = None,
        verified: int | None = None,
        groups: int | None = None,
        draft_forwards: int | None = None,
    ) -> Pass:
        """Accept the first `wanted` readings, fewer if the answer ends within them, and record the pass."""
        texts = []
        for reading in readings[:wanted]:
            self.ids.append(reading.token)
            if reading.token in self.checkpoint.end_ids:
                self.stop = "eos"
            elif not self.room:
                self.stop = "length"
            texts.append(self._next_text())
            if self.stop:
                break
        self.passes += 1
        name = self.checkpoint.token_name
        slots = tuple(
            Slot(
                id=reading.token,
                text=texts[i] if i < len(texts) else name(reading.token),
                confidence=reading.confidence,
                top=tuple(zip(map(name, reading.candidates), reading.probabilities)),
            )
            for i, reading in enumerate(readings)
        )
        return Pass(
            number=self.passes,
            tau=tau,
            positions=positions,
            ms=(time.perf_counter() - started) * 1000,
            accepted=len(texts),
            slots=slots,
            stop=self.stop,
            drafts=drafts,
            verified=verified,
            groups=groups,
            draft_forwards=draft_forwards,
        )

    def _next_text(self) -> str:
        """The text that the newest token finishes. Bytes of an unfinished character wait for the rest,
        which is all there will be once the answer has stopped."""
        # With a few ids of context: some tokenizers write a token differently at the start of a text.
        if self._shown - self._start > 16:
            self._start = self._shown - 4
            self._context = self._decode(self.ids[self._start : self._shown])
        text = self._decode(self.ids[self._start :])
        if text.endswith("\ufffd") and not self.stop:
            return ""
        new, self._context = text[len(self._context) :], text
        self._shown = len(self.ids)
        return new

    def _decode(self, ids: list[int]) -> str:
        return self.checkpoint.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )


@dataclass(frozen=True)
class Forward:
    """What a strategy wants: a layout of one row, and what its positions from `first` on predict."""

    layout: layouts.Layout
    first: int = 0

    @property
    def positions(self) -> list[int]:
        """Where in the text those positions stand."""
        return self.layout.positions[0, self.first :].tolist()


@dataclass(frozen=True)
class Outcome:
    """What a strategy made of the readings: the pass, and how many positions of the forward stay cached."""

    step: Pass
    keep: int


# Strategies yield a `Forward`, are sent its readings, and answer with an `Outcome`; again and again.
# Whoever drives them has the model: alone with an engine below, many at a time in `batching`.
Strategy = Generator[Forward | Outcome, list[Reading] | None, None]


def drive(engine: Engine, strategy: Strategy, sampling: Sampling | None = None) -> Iterator[Pass]:
    """Run one strategy on one engine."""
    for wanted in strategy:
        logits = engine.forward(wanted.layout, wanted.first)
        outcome = strategy.send(read(logits, wanted.positions, sampling))
        engine.commit(outcome.keep)
        yield outcome.step


def autoregressive(answer: Answer, prompt_ids: list[int]) -> Strategy:
    """Greedy decoding, one token per forward: a window of one slot."""
    return sliding_window(answer, prompt_ids, slots=1, tau=lambda: None)


def sliding_window(
    answer: Answer, prompt_ids: list[int], slots: int, tau: Callable[[], float | None]
) -> Strategy:
    """Section 3.3. Each forward carries the newly accepted tokens and slots - 1 masks; the masks leave the
    cache at once. Slot 1 is predicted by the last real token and always accepted. At τ = 1 nothing else
    can be, so there are no masks, and a forward costs what one of `ar` costs."""
    mask_id = answer.checkpoint.mask_id
    new, past = prompt_ids, 0
    while not answer.stop:
        started = time.perf_counter()
        threshold = tau()
        # Slots that could never be accepted are not computed.
        masks = 0 if threshold is None or threshold >= 1 else min(slots, answer.room) - 1
        layout = layouts.window(new, masks, mask_id, past)
        readings = yield Forward(layout, first=len(new) - 1)
        step = answer.step(
            readings,
            accept(readings, threshold),
            started=started,
            positions=layout.ids.shape[1],
            tau=threshold,
        )
        yield Outcome(step, keep=len(new))
        past += len(new)
        new = answer.ids[-step.accepted :]


def self_verified(answer: Answer, prompt_ids: list[int], drafts: int, linear: bool) -> Strategy:
    """The window's predictions as drafts that the next forward verifies: the tokens of greedy decoding.

    A pass over `[token, d1 … dK | g0 | … | gK]` (see `layout.verification`) compares each draft with the
    model's own choice before it. If a drafts hold, they and the model's next token are accepted, and the
    next drafts are read from group ga, whose prefix is exactly what was accepted. A pass records the
    accepted slots and, behind them, the drafts for the pass to come.
    """
    mask_id = answer.checkpoint.mask_id
    started = time.perf_counter()
    masks = min(drafts, answer.room - 1)
    layout = layouts.window(prompt_ids, masks, mask_id)
    readings = yield Forward(layout, first=len(prompt_ids) - 1)
    step = answer.step(
        readings, 1, started=started, positions=layout.ids.shape[1], drafts=0, verified=0, groups=1
    )
    yield Outcome(step, keep=len(prompt_ids))
    draft, past = readings[1:], len(prompt_ids)
    while not answer.stop:
        started = time.perf_counter()
        draft = draft[: answer.room - 1]
        masks = min(drafts, answer.room - 1)
        layout = layouts.verification(
            answer.ids[-1:], [d.token for d in draft], masks, mask_id, past, linear
        )
        readings = yield Forward(layout)
        checked = len(draft)
        own = readings[: checked + 1]
        verified = holding([d.token for d in draft], own)
        if linear and verified < checked:
            draft = []
        else:
            group = checked + 1 + (0 if linear else verified * masks)
            draft = readings[group : group + masks]
        step = answer.step(
            [*own[: verified + 1], *draft],
            verified + 1,
            started=started,
            positions=layout.ids.shape[1],
            drafts=checked,
            verified=verified,
            groups=1 if linear else checked + 1,
        )
        yield Outcome(step, keep=1 + verified)
        past += 1 + verified


def holding(drafts: Sequence[int], own: Sequence[Reading]) -> int:
    """How many leading drafts are what the model itself reads in their places."""
    pairs = zip(drafts, own)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1].token, pairs))


def jacobi(answer: Answer, prompt_ids: list[int], drafts: int) -> Strategy:
    """Fixed-point iteration: the model's own choices behind wrong guesses are the next guesses.

    It needs no training and gives the tokens of greedy decoding. Where a guess is missing, the last known
    token stands in. A pass records what it accepted and, behind that, the guesses for the next.
    """
    new, guesses, past = prompt_ids, [], 0
    while not answer.stop:
        started = time.perf_counter()
        room = min(drafts, answer.room - 1)
        guesses = (guesses + [new[-1]] * room)[:room]
        layout = layouts.causal([*new, *guesses], past)
        own = yield Forward(layout, first=len(new) - 1)
        verified = holding(guesses, own)
        step = answer.step(
            own,
            verified + 1,
            started=started,
            positions=layout.ids.shape[1],
            drafts=len(guesses),
            verified=verified,
        )
        yield Outcome(step, keep=len(new) + verified)
        past += len(new) + verified
        guesses = [reading.token for reading in own[verified + 1 :]]
        new = [own[verified].token]


def block_diffusion(
    answer: Answer, prompt_ids: list[int], block_size: int, tau: Callable[[], float]
) -> Strategy:
    """Fill a block of masks in the order of confidence, then go on to the next (the paper's baseline).

    Every forward fills the masks whose confidence is at least τ, and always the surest one. A pass lists
    the block from the first token not yet read; those that it accepts are filled without a gap. The
    finished block joins the cache with the first forward of the next one, where it sees itself from both
    sides, as in training.
    """
    mask_id = answer.checkpoint.mask_id
    pending, causal_until, past = prompt_ids, len(prompt_ids), 0
    while not answer.stop:
        block: list[Reading | None] = [None] * min(block_size, answer.room)
        read_so_far = 0
        while read_so_far < len(block) and not answer.stop:
            started = time.perf_counter()
            threshold = tau()
            ids = [mask_id if reading is None else reading.token for reading in block]
            layout = layouts.denoising(pending, ids, past, causal_until)
            readings = yield Forward(layout, first=len(pending))
            masked = [i for i, reading in enumerate(block) if reading is None]
            surest = max(masked, key=lambda i: readings[i].confidence)
            for i in masked:
                if i == surest or readings[i].confidence >= threshold < 1:
                    block[i] = readings[i]
            filled = itertools.takewhile(lambda reading: reading is not None, block)
            step = answer.step(
                [was or now for was, now in zip(block, readings)][read_so_far:],
                sum(1 for _ in filled) - read_so_far,
                started=started,
                positions=layout.ids.shape[1],
                tau=threshold,
            )
            yield Outcome(step, keep=len(pending))
            past += len(pending)
            pending, causal_until = [], 0
            read_so_far += step.accepted
        pending = [reading.token for reading in block if reading is not None]


DRAFT_TAU = 0.5  # a draft is verified anyway, so what it needs is a fair chance


class Drafter:
    """A second model that goes on from a text, several tokens per forward if it was trained for MARS."""

    def __init__(self, checkpoint: Checkpoint, sampling: Sampling | None):
        self.checkpoint, self.sampling = checkpoint, sampling
        self.engine = Engine(checkpoint.model)
        self.ids: list[int] = []  # what the cache holds
        self.forwards = 0

    def draft(self, text: Sequence[int], count: int) -> list[int]:
        """The `count` tokens that it expects behind `text`."""
        pairs = zip(self.ids, text[:-1])  # the last one is read again, to predict what follows
        shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        self.engine.rewind(shared)
        self.ids = list(text[:shared])
        new, drafted = list(text[shared:]), []
        while len(drafted) < count:
            slots = min(self.checkpoint.largest_window, count - len(drafted))
            layout = layouts.window(new, slots - 1, self.checkpoint.mask_id, len(self.ids))
            wanted = Forward(layout, first=len(new) - 1)
            logits = self.engine.forward(layout, wanted.first)
            readings = read(logits, wanted.positions, self.sampling)
            self.engine.commit(len(new))
            self.forwards += 1
            self.ids += new
            new = [reading.token for reading in readings[: accept(readings, DRAFT_TAU)]]
            drafted += new
        return drafted


def speculative(
    answer: Answer, prompt_ids: list[int], drafter: Drafter, drafts: int, tau: Callable[[], float]
) -> Strategy:
    """Speculative decoding with a MARS model as the target (section 4.6).

    A pass over `[tokens, d1 … dK | g0 | … | gK]` verifies the drafts, as in `self_verified`. What the group
    behind the last one that holds predicts is accepted while its confidence is at least τ. At τ = 1, and
    with an AR model as the target, there are no groups, and the tokens are those of `ar`.
    """
    mask_id = answer.checkpoint.mask_id
    new, past = prompt_ids, 0
    while not answer.stop:
        started = time.perf_counter()
        threshold = tau()
        before = drafter.forwards
        guesses = drafter.draft([*prompt_ids, *answer.ids], min(drafts, answer.room - 1))
        masks = 0 if mask_id is None or threshold >= 1 else min(drafts, answer.room - 1)
        layout = layouts.verification(new, guesses, masks, mask_id, past)
        readings = yield Forward(layout, first=len(new) - 1)
        own = readings[: len(guesses) + 1]
        verified = holding(guesses, own)
        behind = len(own) + verified * masks
        slots = [*own[: verified + 1], *readings[behind : behind + masks]]
        step = answer.step(
            slots,
            verified + accept(slots[verified:], threshold),
            started=started,
            positions=layout.ids.shape[1],
            tau=threshold,
            drafts=len(guesses),
            verified=verified,
            groups=len(own) if masks else 0,
            draft_forwards=drafter.forwards - before,
        )
        yield Outcome(step, keep=len(new) + verified)
        past += len(new) + verified
        new = answer.ids[verified - step.accepted :]
