"""Decoding of one prompt or conversation with one model, forward by forward."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from importlib import import_module

from mars_demo.core.messages import Encoded, Message, checked, user
from mars_demo.core.scheduler import SCHEDULER
from mars_demo.core.trace import Pass, Run, Settings
from mars_demo.decoding.answer import Answer, Strategy
from mars_demo.decoding.constrained import ConstrainedReader
from mars_demo.decoding.matcher import Matcher
from mars_demo.decoding.prefill import prefill
from mars_demo.decoding.reading import Reader, compute
from mars_demo.decoding.request import Request
from mars_demo.models.chat import encode_prompt, encode_raw
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.device import gpu_name
from mars_demo.models.runtime.engine import Engine, TextCache


def decode(
    checkpoint: Checkpoint,
    prompt: str | None = None,
    request: Request = Request(),  # noqa: B008
    *,
    messages: Sequence[Message] = (),
    cache: TextCache | None = None,
) -> Run:
    """Begin an answer; iterating it computes one forward per step.

    messages: a conversation, each message with `role` (system, user or assistant) and `content`. The prompt
        is its next message; without a prompt, its last message is the prompt.
    cache: the cache of an earlier text, of which the common prefix is reused. The run takes it over; only
        one run at a time may use it.

    Raises:
        ValueError: if the checkpoint does not support the request, or the prompt or conversation is too
            long.
    """
    request = request.fitted(checkpoint)
    conversation = list(messages) if prompt is None else [*messages, user(prompt)]
    engine = Engine(checkpoint.decoder, cache)
    settings, answer, strategy = prepare(checkpoint, conversation, request, engine)
    return Run(settings, drive(engine, answer, strategy, request))


def prepare(
    checkpoint: Checkpoint,
    prompt: str | Sequence[Message] | Encoded,
    request: Request,
    engine: Engine | None = None,
) -> tuple[Settings, Answer, Strategy]:
    """Return the record's first line for a prompt or conversation, its answer, and the answer's strategy.

    request: already `fitted` to the checkpoint.
    engine: the engine whose cache the strategy begins with; None for an empty cache.

    Raises:
        ValueError: if the prompt is empty or does not fit into the context.
    """
    if isinstance(prompt, Encoded):
        prompt_ids, before, last = prompt.ids, [], user(prompt.text)
    else:
        *before, last = _checked(prompt, request.raw)
        prompt_ids = encoded(checkpoint, [*before, last], request.raw)
    shortest = min((checkpoint, request.draft or checkpoint), key=lambda model: model.context)
    room = shortest.context - len(prompt_ids)
    if room < 1:
        raise ValueError(
            f"The {'conversation' if before else 'prompt'} has {len(prompt_ids)} tokens; "
            f"{shortest.name} can read at most {shortest.context - 1}."
        )
    matcher = Matcher(checkpoint, request.grammar) if request.grammar else None
    limit = min(request.max_new_tokens, room)
    answer = Answer(checkpoint, prompt_ids, limit, request.stop_strings, matcher)
    if engine:
        answer.cached = engine.reuse(prompt_ids if request.rules.causal else ())
    settings = Settings(
        mode=request.mode,
        model=checkpoint.name,
        window=request.window,
        block_size=checkpoint.block_size,
        tau=request.acceptance.threshold(),
        criterion=request.criterion,
        prompt=last["content"],
        prompt_tokens=len(prompt_ids),
        device=checkpoint.device.type,
        dtype=checkpoint.precision,
        max_new_tokens=request.max_new_tokens,
        sampling=request.sampling and asdict(request.sampling),
        raw=request.raw or isinstance(prompt, Encoded) or not checkpoint.has_template,
        gpu=gpu_name(checkpoint.device),
        messages=before,
        cached_tokens=answer.cached,
        costs=checkpoint.costs if request.adaptive else None,
        grammar=request.grammar,
    )
    module = import_module(f"mars_demo.decoding.strategies.{request.rules.strategy}")
    return settings, answer, module.strategy(answer, request)


def _checked(prompt: str | Sequence[Message], raw: bool) -> list[Message]:
    messages = [user(prompt)] if isinstance(prompt, str) else prompt
    if messages and not (messages[-1].get("content") or "").strip():
        raise ValueError("The prompt is empty; write something for the model to answer.")
    if raw and len(messages) > 1:
        raise ValueError("A raw prompt cannot follow other messages, which need the chat template.")
    return checked(messages)


def encoded(checkpoint: Checkpoint, messages: Sequence[Message], raw: bool) -> list[int]:
    """Return the token ids of everything that a model reads before its answer."""
    if raw:
        return encode_raw(checkpoint.tokenizer, messages[0]["content"])
    return encode_prompt(checkpoint.tokenizer, messages)


def drive(engine: Engine, answer: Answer, strategy: Strategy, request: Request) -> Iterator[Pass | None]:
    """Run the strategy of an answer on one engine, with one turn per forward, and yield its passes.

    The time of a pass excludes the wait for its turn. On a CPU, where forwards are synchronous, a pass also
    records the time of the model and the time of reading its logits. The chunks of a long prompt count as
    part of the first pass; None is yielded after each of them.
    """
    read = reader_of(answer, request)
    chunks: Counter[str] = Counter()
    for costs in prefill(engine, answer.prompt_ids):
        answer.cached = engine.length
        chunks.update(costs)
        yield None
    while True:
        with SCHEDULER.turn():
            forward = next(strategy, None)  # starts the clock
            if forward is None:
                return
            readings, times = compute(engine, forward, read)
            outcome = strategy.send(readings)
            engine.commit(outcome.keep)
            answer.cached = engine.length
        step = replace(outcome.step, **times)
        yield replace(step, **{name: getattr(step, name) + cost for name, cost in chunks.items()})
        chunks.clear()


def reader_of(answer: Answer, request: Request) -> Reader:
    if answer.matcher:
        return ConstrainedReader(request.acceptance, request.sampling, answer.matcher)
    return Reader(request.acceptance, request.sampling)


def race(runs: Mapping[Hashable, Run]) -> Iterator[tuple[Hashable, Pass | None]]:
    """Step the run whose clock is behind, until all have ended; None is a chunk of a long prompt."""
    racing = {lane: run.turns() for lane, run in runs.items()}
    while racing:
        lane = min(racing, key=lambda name: runs[name].seconds)
        yield lane, next(racing[lane], None)
        if runs[lane].stop:
            del racing[lane]
