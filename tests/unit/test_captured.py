"""CUDA-graph decoding (few shapes, fixed buffers) on a CPU, compared with the plain engine."""

from collections.abc import Iterable
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from greedy import check_same_passes
from random_models import ARCHITECTURES, random_model, with_decoder

from mars_demo import tasks
from mars_demo.core import layout as layouts
from mars_demo.decoding import answer
from mars_demo.decoding.conversation import Conversation
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.decoding.strategies.diffusion import denoising
from mars_demo.models.checkpoint import wrap
from mars_demo.models.runtime import step
from mars_demo.models.runtime.captured import WIDTH, CapturedModel, captured
from mars_demo.models.runtime.decoder import TransformersDecoder
from mars_demo.models.runtime.engine import Engine
from mars_demo.ui import options
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.warm_up import warm_up

NARROW = 8  # columns of the first store, which all texts here outgrow
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


def as_on_gpu(checkpoint, width: int = NARROW):
    """Return the checkpoint with the decoder that a GPU uses."""
    return with_decoder(checkpoint, CapturedModel(checkpoint.model, width))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def pair(request, tokenizer):
    """Return a random checkpoint with the plain decoder and with the one that a GPU uses."""
    plain = wrap(request.param, random_model(request.param, tokenizer, context=256), tokenizer)
    return plain, as_on_gpu(plain)


def forwards() -> Iterable[tuple[layouts.Layout, int, int]]:
    """Yield the layouts of a text that outgrows two stores.

    Each comes with its first position that needs logits and the number of positions to keep.
    """
    draw = torch.Generator().manual_seed(1)
    tokens = lambda count: torch.randint(5, 200, (count,), generator=draw).tolist()  # noqa: E731
    past = 0
    for new, drafts, masks, linear, keep in [
        (13, 0, 4, True, 13),  # a prompt with its window
        (1, 0, 0, True, 1),
        (3, 0, 8, True, 3),
        (1, 3, 3, False, 3),  # groups of masks that share position ids
        (2, 4, 4, True, 2),
        (140, 0, 0, True, 140),  # longer than the largest captured forward
        (1, 8, 8, False, 9),
        (1, 0, 0, True, 1),
        (5, 0, 2, True, 0),  # no position is kept
        (5, 0, 2, True, 5),
    ]:
        layout = layouts.verification(tokens(new), tokens(drafts), masks, 3, past, linear)
        yield layout, new - 1, keep
        past += keep
    yield denoising(tokens(3), tokens(6), past, 3, 3), 3, 3  # a bidirectional block


def test_logits_equal_the_plain_engine_after_any_rollback(pair):
    plain, fast = (Engine(checkpoint.decoder) for checkpoint in pair)
    for layout, first, keep in forwards():
        expected, logits = plain.forward(layout, first), fast.forward(layout, first)
        torch.testing.assert_close(logits, expected, atol=2e-5, rtol=2e-5)
        plain.commit(keep)
        fast.commit(keep)
        assert plain.length == fast.length == fast.cache.keys.length


def test_answers_are_the_same_in_every_mode(pair):
    """Decode with each architecture in two thirds of the modes."""
    plain, fast = pair
    first = list(ARCHITECTURES).index(plain.name)
    for number, way in enumerate(WAYS):
        if number % 3 != first:
            prompt, request = PROMPTS[number % 2], Request(**WAYS[way], max_new_tokens=40)
            check_same_passes(
                decode(fast, prompt, request).finish(), decode(plain, prompt, request).finish()
            )


def test_follow_up_turns_compute_only_new_tokens(mars_tiny):
    fast, requests = as_on_gpu(mars_tiny), [Request("mars", 0.9), Request("lossless"), Request("ar")]
    conversations = [Conversation(checkpoint) for checkpoint in (mars_tiny, fast)]
    for prompt, request in zip(PROMPTS, requests):
        runs = []
        for conversation in conversations:
            conversation.request = replace(request, max_new_tokens=24)
            runs.append(conversation.ask(prompt).finish())
        expected, run = runs
        check_same_passes(run, expected)
        assert run.settings.cached_tokens == expected.settings.cached_tokens
        assert [step.positions for step in run.passes] == [step.positions for step in expected.passes]


def test_alternating_texts_keep_their_keys_and_values(pair):
    plain, fast = pair
    requests = [Request("ar", max_new_tokens=24), Request("mars", 0.6, max_new_tokens=24)]
    expected = [decode(plain, prompt, request).finish() for request in requests for prompt in PROMPTS[:2]]
    runs = [decode(fast, prompt, request) for request in requests for prompt in PROMPTS[:2]]
    going = list(runs)
    while going:
        going = [run for run in going if next(run, None) is not None]
    for run, alone in zip(runs, expected):
        check_same_passes(run, alone)


def test_the_exchange_of_texts_is_not_measured(mars_tiny, monkeypatch):
    fast, exchanges, bring = as_on_gpu(mars_tiny), 0, CapturedModel._bring

    def counted(*arguments):
        nonlocal exchanges
        is_moved = bring(*arguments)
        exchanges += is_moved
        return is_moved

    monkeypatch.setattr(CapturedModel, "_bring", counted)
    monkeypatch.setattr(answer, "time", SimpleNamespace(perf_counter=lambda: exchanges))
    runs = [decode(fast, prompt, Request("ar", max_new_tokens=24)) for prompt in PROMPTS[::2]]
    passes = [one for pair in zip(*runs) for one in pair]
    assert exchanges >= len(passes) > 8
    assert {one.ms for one in passes} == {0}  # of a clock that only exchanges move


def test_the_shapes_of_a_race_run_twice_before_the_first_visitor(mars_tiny):
    """Race with the default settings; the answers end before their masks become fewer."""
    fast = as_on_gpu(mars_tiny, WIDTH)
    MODELS.serve(options.read(["--only", "--model", "mars-tiny"]))
    MODELS.member("mars-tiny").checkpoint = fast
    warm_up()
    steps = fast.decoder._steps
    warm = {shape for (shape, _), one in steps.items() if one.runs > 1}
    for prompt in [tasks.held_out(name, 1)[0].prompt for name in ("notes", "letters", "sorting", "tables")]:
        for mode in ("ar", "mars"):
            run = decode(fast, prompt, Request(mode))
            next(run)  # the prompt
            before = {key: one.runs for key, one in steps.items()}
            run.finish()
            assert {key[0] for key, one in steps.items() if one.runs > before.get(key, 0)} <= warm


def test_it_is_off_by_default_on_a_cpu(mars_tiny):
    assert captured(mars_tiny.model) is None
    assert mars_tiny.decoder.model is mars_tiny.model


class FakeCuda:
    """A stand-in for torch's streams and graphs: capture and replay compute; the first capture fails."""

    def __init__(self, monkeypatch, error: Exception):
        self.stream, self.pools, self.replays = "own", [], 0
        cuda, compute = self, step.Step._compute

        class Graph:
            def replay(self):
                cuda.replays += 1
                self.step._output = compute(self.step)

        @contextmanager
        def graph(graph, pool, stream, capture_error_mode):
            cuda.pools.append(pool)
            cuda.stream, cuda.graph = stream, graph
            yield
            cuda.stream = "own"

        def computed(one):
            if cuda.stream != "own":
                cuda.graph.step = one
                if len(cuda.pools) == 1:
                    raise error
            return compute(one)

        current = SimpleNamespace(wait_stream=lambda other: None)
        for name, value in {
            "device": lambda device: nullcontext(),
            "current_stream": lambda: current,
            "stream": lambda stream: nullcontext(),
            "CUDAGraph": Graph,
            "graph": graph,
            "set_stream": lambda stream: setattr(cuda, "stream", "own" if stream is current else stream),
            "graph_pool_handle": lambda: (len(cuda.pools), 0),
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
        side = SimpleNamespace(wait_stream=lambda other: None)
        monkeypatch.setattr(step, "_side_stream", lambda device: side)
        monkeypatch.setattr(step.Step, "_compute", computed)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), RuntimeError("invalid capture")])
def test_a_failed_capture_is_logged_once_and_changes_no_logits(mars_tiny, monkeypatch, caplog, error):
    """Return the right logits after a failed capture.

    After an out-of-memory error, other shapes are captured into another pool; after any other error, none
    is.
    """
    cuda = FakeCuda(monkeypatch, error)
    broken, attempts = len(step._BROKEN), 0
    fast = CapturedModel(mars_tiny.model, 256)
    fast._captures = True
    plain, captured_one = Engine(mars_tiny.decoder), Engine(fast)
    for new, masks in [(3, 4), (1, 0), (2, 0)] * 3:  # a repeated shape is captured, then replayed
        layout = layouts.verification(list(range(9, 9 + new)), [], masks, 3, plain.length, True)
        expected, logits = (engine.forward(layout, new - 1) for engine in (plain, captured_one))
        torch.testing.assert_close(logits, expected, atol=2e-5, rtol=2e-5)
        assert len(cuda.pools) == attempts  # captures happen outside forwards: their time would count
        for engine in (plain, captured_one):
            engine.commit(new)
        attempts = len(cuda.pools)
        assert cuda.stream == "own"
    is_short = isinstance(error, torch.OutOfMemoryError)
    assert [one.is_captured for one in fast._steps.values()] == [False, is_short, is_short]
    assert cuda.replays == 2 * is_short  # in the third round
    assert len(set(cuda.pools)) == (2 if is_short else 1) and len(step._BROKEN) == broken + 1
    [record] = [record for record in caplog.records if record.name.startswith("mars_demo")]
    assert "CUDA graph" in record.message


def test_training_changes_the_weights_of_both(tokenizer):
    model = random_model("qwen2", tokenizer)
    fast, layout = CapturedModel(model), layouts.window([5, 6, 7], 4, 3)
    before = Engine(fast).forward(layout)
    with torch.no_grad():
        model.model.layers[0].self_attn.k_proj.weight += 0.5
        model.model.layers[0].mlp.up_proj.weight *= 2
    expected, logits = (Engine(one).forward(layout) for one in (TransformersDecoder(model), fast))
    torch.testing.assert_close(logits, expected, atol=2e-5, rtol=2e-5)
    assert not torch.allclose(before, logits)
