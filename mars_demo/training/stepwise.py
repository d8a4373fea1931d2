"""A training as an iterator of its steps, for whoever looks at the model between two of them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

from mars_demo.training.metrics import Metrics
from mars_demo.training.trainer import MarsTrainer


def stepwise(trainer: MarsTrainer) -> Iterator[Metrics]:
    """Train in another thread, which waits after each step until the next metrics are requested.

    Closing the iterator stops the training. Errors of the training are raised here.
    """
    ready, wanted = queue.SimpleQueue(), threading.Semaphore(0)

    def hand_over(metrics: Metrics) -> None:
        ready.put(metrics)
        wanted.acquire()

    def work() -> None:
        try:
            trainer.train()
            ready.put(None)
        except BaseException as error:  # raised in the thread that reads
            ready.put(error)

    trainer.steps.watchers.append(hand_over)
    thread = threading.Thread(target=work, name="training", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
            wanted.release()
    finally:
        trainer.stop()
        wanted.release()
        thread.join()
        trainer.steps.watchers.remove(hand_over)
