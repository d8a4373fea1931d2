"""A stand-in for Hugging Face's package `spaces` on ZeroGPU: `GPU` really forks.

As there, the process is forked from the app when a function is first called, serves later calls too, gets
its arguments pickled and sends its results back one by one; sockets of the app are closed in it; a
generator that is closed in the app is closed in the process when it has yielded the next time. What happens
is written, a line of JSON each, to the file that `FORKING_SPACES_LOG` names.
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
import time
import traceback

_fork = multiprocessing.get_context("fork")
_forked = False


def GPU(task=None, *, duration=60, size=None):  # noqa: N802
    if task is None:
        return functools.partial(GPU, duration=duration, size=size)
    stream = inspect.isgeneratorfunction(task)
    workers = []

    def run(*arguments):
        granted = duration(*arguments) if callable(duration) else duration
        worker = workers.pop() if workers else _Worker(task, stream)
        _log("call", task, worker.process.pid, seconds=granted)
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
    """Return the function as it is. Gradio calls this on a Space; only decorated functions are wrapped."""
    return task


class _Worker:
    def __init__(self, task, stream):
        self.arguments, self.results, self.stop = _fork.SimpleQueue(), _fork.SimpleQueue(), _fork.Event()
        self.process = _fork.Process(target=self.serve, args=[task, stream], daemon=True)
        self.process.start()
        threading.Thread(target=self.watch, daemon=True).start()
        _log("fork", task, self.process.pid)

    def watch(self):
        """Tell those who wait for a process that it has died."""
        self.process.join()
        self.results.put(("problem", "GPU task aborted"))

    def serve(self, task, stream):
        for number in map(int, os.listdir("/proc/self/fd")):
            with contextlib.suppress(OSError):  # the folder itself was one of them
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    os.close(number)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)  # those of the app were not forked
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


def _log(event, task, pid, **more):
    if path := os.environ.get("FORKING_SPACES_LOG"):
        line = {"event": event, "task": task.__name__, "worker": pid, "app": os.getpid()} | more
        with open(path, "a") as log:
            log.write(json.dumps(line | {"at": time.monotonic()}) + "\n")
