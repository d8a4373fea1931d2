"""A stand-in for the package `spaces` on ZeroGPU, whose `GPU` really forks.

As on ZeroGPU, the first call of a function forks a process from the app, and later calls reuse it.
Arguments are pickled, and results come back one by one. The child process has the app's sockets closed. A
generator that the app closes is closed in the child after its next `yield`. Events go to the file named by
`FORKING_SPACES_LOG`, one JSON line each.
"""

import contextlib
import functools
import inspect
import json
import multiprocessing
import os
import stat
import sys
import threading
import traceback

_fork = multiprocessing.get_context("fork")
_forked = False


def GPU(task=None, *, duration=60, size=None):  # noqa: N802
    if task is None:
        return functools.partial(GPU, duration=duration, size=size)
    stream = inspect.isgeneratorfunction(task)
    workers = []

    def run(*arguments):
        if callable(duration):
            duration(*arguments)
        worker = workers.pop() if workers else _Worker(task, stream)
        _log("call", task, worker.process.pid)
        worker.arguments.put(arguments)
        try:
            while (message := worker.results.get())[0] == "result":
                yield message[1]
        except GeneratorExit:
            worker.stop.set()
            while worker.results.get()[0] == "result":
                pass
            raise
        finally:
            workers.append(worker)
            _log("end", task, worker.process.pid)
        if message[0] == "problem":
            raise RuntimeError(f"ZeroGPU worker error: {message[1]}")

    def call(*arguments):
        return next(run(*arguments))

    return functools.wraps(task)(run if stream else call)


def gradio_auto_wrap(task):
    """Return the function unchanged; Gradio calls this on a Space, but only decorated functions fork."""
    return task


class _Worker:
    def __init__(self, task, stream):
        self.arguments, self.results, self.stop = _fork.SimpleQueue(), _fork.SimpleQueue(), _fork.Event()
        self.process = _fork.Process(target=self.serve, args=[task, stream], daemon=True)
        self.process.start()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        """Report the death of the process to a caller that waits for results."""
        self.process.join()
        self.results.put(("problem", "GPU task aborted"))

    def serve(self, task, stream):
        for number in map(int, os.listdir("/proc/self/fd")):
            with contextlib.suppress(OSError):  # the listing includes the descriptor of the folder itself
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    os.close(number)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)  # a fork does not copy the app's threads
        while True:
            arguments = self.arguments.get()
            self.stop.clear()
            thread = threading.Thread(target=self.work, args=[task, stream, arguments])
            thread.start()
            thread.join()

    def work(self, task, stream, arguments):
        last = ("end", None)
        try:
            results = task(*arguments) if stream else iter([task(*arguments)])
            for result in results:
                if self.stop.is_set():
                    results.close()
                    break
                self.results.put(("result", result))
        except Exception as error:
            traceback.print_exc()
            last = ("problem", type(error).__name__)
        self.results.put(last)


def _log(event, task, pid):
    if path := os.environ.get("FORKING_SPACES_LOG"):
        line = {"event": event, "task": task.__name__, "worker": pid, "app": os.getpid()}
        with open(path, "a") as log:
            log.write(json.dumps(line) + "\n")
