"""Forwards of few shapes on fixed buffers, as CUDA graphs need them: against the plain engine, on a CPU."""

from collections.abc import Iterable
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest
import torch
from greedy import check_same_passes
from random_models import ARCHITECTURES, random_model

from mars_demo.decoding import layout as layouts
from mars_demo.decoding.conversation import Conversation
from mars_demo.decoding.decode import decode
from mars_demo.decoding.denoising import denoising
from mars_demo.decoding.engine import Engine
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models import step
from mars_demo.models.captured import CapturedModel, captured
from mars_demo.models.checkpoint import wrap

BLOCK = 32  # positions of the first store, which all of these texts outgrow
PROMPT = "Can you show me the 7 times table up to 10?"
PROMPTS = [PROMPT, "Hello", "Write a story about a fox."]
WAYS = {
    "ar": {"mode": "ar"},
    "mars 0.6": {"mode": "mars", "tau": 0.6},
    "mars 0.9": {"mode": "mars", "tau": 0.9},
    "mars 0.9, window 5": {"mode": "mars", "tau": 0.9, "window": 5},
    "mars 0.9, margin": {"mode": "mars", "tau": 0.9, "criterion": "margin"},
    "mars 1": {"mode": "mars", "tau": 1.0},
    "mars, drawn": {"mode": "mars", "tau": 0.5, "sampling": Sampling(0.9, seed=3)},
    "lossless, grouped": {"mode": "lossless", "linear": False},
    "lossless, linear": {"mode": "lossless", "linear": True},
    "jacobi": {"mode": "jacobi"},
}


def in_place_of(checkpoint, block: int = BLOCK):
    """Return the same checkpoint, decoded as on a GPU."""
    return replace(checkpoint, captured=CapturedModel(checkpoint.model, block))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def pair(request, tokenizer):
    """A random checkpoint, decoded the plain way and as on a GPU."""
    plain = wrap(request.param, random_model(request.param, tokenizer, context=256), tokenizer)
    return plain, in_place_of(plain)


def forwards() -> Iterable[tuple[layouts.Layout, int, int]]:
    """Layouts of a text that outgrows two stores, each with the first position whose logits are wanted and
    how many positions stay."""
    draw = torch.Generator().manual_seed(1)
    tokens = lambda count: torch.randint(5, 200, (count,), generator=draw).tolist()  # noqa: E731
    past = 0
    for new, drafts, masks, linear, keep in [
        (13, 0, 4, True, 13),  # a prompt and its window
        (1, 0, 0, True, 1),
        (3, 0, 8, True, 3),
        (1, 3, 3, False, 3),  # groups of masks that share position ids
        (2, 4, 4, True, 2),
        (140, 0, 0, True, 140),  # longer than any captured forward
        (1, 8, 8, False, 9),
        (1, 0, 0, True, 1),
        (5, 0, 2, True, 0),  # nothing stays
        (5, 0, 2, True, 5),
    ]:
        layout = layouts.verification(tokens(new), tokens(drafts), masks, 3, past, linear)
        yield layout, new - 1, keep
        past += keep
    yield denoising(tokens(3), tokens(6), past, 3, 3), 3, 3  # a block that sees itself from both sides


def test_logits_are_those_of_the_plain_engine_whatever_is_rolled_back(pair):
    plain, fast = (Engine(checkpoint.decoder) for checkpoint in pair)
    for layout, first, keep in forwards():
        wanted, found = plain.forward(layout, first), fast.forward(layout, first)
        torch.testing.assert_close(found, wanted, atol=2e-5, rtol=2e-5)
        plain.commit(keep)
        fast.commit(keep)
        assert plain.length == fast.length == fast.cache.keys.length


def test_answers_are_the_same_in_every_mode(pair):
    """Each architecture decodes in two thirds of the ways."""
    plain, fast = pair
    first = list(ARCHITECTURES).index(plain.name)
    for number, way in enumerate(WAYS):
        if number % 3 != first:
            prompt, request = PROMPTS[number % 2], Request(**WAYS[way], max_new_tokens=40)
            check_same_passes(
                decode(fast, prompt, request).finish(), decode(plain, prompt, request).finish()
            )


def test_follow_up_turns_compute_only_what_is_new(mars_tiny):
    fast, requests = in_place_of(mars_tiny), [Request("mars", 0.9), Request("lossless"), Request("ar")]
    conversations = [Conversation(checkpoint) for checkpoint in (mars_tiny, fast)]
    for prompt, request in zip(PROMPTS, requests):
        runs = []
        for conversation in conversations:
            conversation.request = replace(request, max_new_tokens=24)
            runs.append(conversation.ask(prompt).finish())
        wanted, found = runs
        check_same_passes(found, wanted)
        assert found.settings.cached_tokens == wanted.settings.cached_tokens
        assert [step.positions for step in found.passes] == [step.positions for step in wanted.passes]


def test_texts_that_take_turns_keep_their_keys_and_values(pair):
    plain, fast = pair
    requests = [Request("ar", max_new_tokens=24), Request("mars", 0.6, max_new_tokens=24)]
    wanted = [decode(plain, prompt, request).finish() for request in requests for prompt in PROMPTS[:2]]
    runs = [decode(fast, prompt, request) for request in requests for prompt in PROMPTS[:2]]
    going = list(runs)
    while going:
        going = [run for run in going if next(run, None) is not None]
    for run, alone in zip(runs, wanted):
        check_same_passes(run, alone)


def test_there_are_few_shapes_and_the_store_stays_where_it_is(mars_tiny):
    fast = in_place_of(mars_tiny, 256)
    for prompt in PROMPTS:
        decode(fast, prompt, Request("mars", 0.9, max_new_tokens=32)).finish()
    model = fast.captured
    steps, address = dict(model._steps), model._store.tensor.data_ptr()
    assert len(steps) <= 10
    buffers = {key: step._inputs.bytes.data_ptr() for key, step in steps.items()}
    for prompt in PROMPTS:
        decode(fast, prompt, Request("mars", 0.9, max_new_tokens=32)).finish()
    assert model._steps == steps and model._store.tensor.data_ptr() == address
    assert {key: step._inputs.bytes.data_ptr() for key, step in model._steps.items()} == buffers


def test_if_a_capture_fails_the_log_says_so_once_and_the_answer_is_the_same(mars_tiny, caplog):
    fast, request = in_place_of(mars_tiny), Request("mars", 0.9, max_new_tokens=32)
    fast.captured._captures = True  # on a CPU every capture fails
    check_same_passes(decode(fast, PROMPT, request).finish(), decode(mars_tiny, PROMPT, request).finish())
    [record] = [record for record in caplog.records if record.name.startswith("mars_demo")]
    assert "CUDA graph" in record.message


def test_on_a_cpu_it_is_never_used_unasked(mars_tiny):
    assert captured(mars_tiny.model) is None
    assert mars_tiny.captured is None and mars_tiny.decoder is mars_tiny.model


class FakeCuda:
    """Stands for torch's streams and graphs: a capture computes, a replay computes again, and a capture
    fails where it is told to."""

    def __init__(self, monkeypatch, where: str | None, error: Exception):
        self.where, self.error, self.stream = where, error, "own"
        self.pools, self.replays = [], 0
        cuda = self

        class Stream:
            def __init__(self, device):
                pass

            def wait_stream(self, other):
                pass

        class Graph:
            def replay(self):
                cuda.replays += 1
                self.step._output = compute(self.step)

        @contextmanager
        def graph(graph, pool, stream, capture_error_mode):
            cuda.pools.append(pool)
            cuda.fail("begin")
            cuda.stream, cuda.graph = stream, graph
            yield
            cuda.fail("end")
            cuda.stream = "own"

        own = Stream(None)
        for name, value in {
            "device": lambda device: nullcontext(),
            "current_stream": lambda: own,
            "Stream": Stream,
            "stream": lambda stream: nullcontext(),
            "CUDAGraph": Graph,
            "graph": graph,
            "set_stream": lambda stream: setattr(cuda, "stream", "own" if stream is own else stream),
            "graph_pool_handle": lambda: (len(cuda.pools), 0),
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
        monkeypatch.setattr(step, "_side_stream", Stream)
        compute = step.Step._compute

        def computed(one):
            if cuda.stream != "own":
                cuda.fail("body")
                cuda.graph.step = one
            return compute(one)

        monkeypatch.setattr(step.Step, "_compute", computed)

    def fail(self, where: str) -> None:
        if where == self.where:
            self.where = None  # once
            raise self.error


@pytest.mark.parametrize("where", ["begin", "body", "end"])
@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), RuntimeError("invalid capture")])
def test_a_capture_that_fails_leaves_the_forward_as_it_is(mars_tiny, monkeypatch, where, error):
    """After memory was short other shapes are captured, into another pool; after anything else none is."""
    cuda = FakeCuda(monkeypatch, where, error)
    broken, attempts = len(step._BROKEN), 0
    fast = CapturedModel(mars_tiny.model, 256)
    fast._captures = True
    plain, captured_one = Engine(mars_tiny.model), Engine(fast)
    for new, masks in [(3, 4), (1, 0), (2, 0)] * 3:  # a shape that has come back is captured, then replayed
        layout = layouts.verification(list(range(9, 9 + new)), [], masks, 3, plain.length, True)
        wanted, found = (engine.forward(layout, new - 1) for engine in (plain, captured_one))
        torch.testing.assert_close(found, wanted, atol=2e-5, rtol=2e-5)
        assert len(cuda.pools) == attempts  # within a forward nothing is captured: it would count
        for engine in (plain, captured_one):
            engine.commit(new)
        attempts = len(cuda.pools)
        assert cuda.stream == "own"
    is_short = isinstance(error, torch.OutOfMemoryError)
    assert [one.is_captured for one in fast._steps.values()] == [False, is_short, is_short]
    assert cuda.replays == 2 * is_short  # the third time
    assert len(set(cuda.pools)) == (2 if is_short else 1) and len(step._BROKEN) == broken + 1
