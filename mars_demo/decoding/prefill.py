"""Prefill: long texts are computed in chunks, so that other threads take turns meanwhile."""

import time
from collections.abc import Iterator, Sequence

from mars_demo.core.layout import causal
from mars_demo.core.scheduler import SCHEDULER
from mars_demo.decoding.reading import Forward, Reader, compute
from mars_demo.models.runtime.engine import Engine

CHUNK = 256  # positions per turn; an even number, which quantized models compute without padding


def prefill(engine: Engine, ids: Sequence[int]) -> Iterator[dict[str, float]]:
    """Extend the cache to all but the last `CHUNK` tokens of a text, or fewer, with one turn per chunk.

    Yield the costs of each chunk, named as fields of `Pass`.
    """
    while len(ids) - engine.length > CHUNK:
        with SCHEDULER.turn():
            started = time.perf_counter()
            chunk = ids[engine.length : engine.length + CHUNK]
            # Reading a position waits for the forward on a GPU.
            forward = Forward(causal(chunk, engine.length), first=CHUNK - 1)
            _, times = compute(engine, forward, Reader())
            engine.commit(CHUNK)
            ms = 1000 * (time.perf_counter() - started)
        yield {"positions": CHUNK, "ms": ms, **times}
