"""Replicas: the endpoint's models in processes of Ray Serve, on one machine or several.

The process that has the HTTP endpoint is the ingress. It computes no forward: it sends each request to a
replica of its model, and the replica's passes to the client. Each model is a Ray Serve application, whose
replicas hold the model and a `Server`. Serve chooses the replica with the shorter queue, replaces dead
replicas, and changes their number if it may.

A `Controller` acts on the whole deployment. All requests go through the ingress, so it has the number of
requests in flight to all replicas; those beyond the batch slots of the running replicas wait. It computes τ
from the number that waits and sends τ with each request and, when it has changed, to all replicas. A
replica's server reads τ at each forward, so τ also changes during an answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

# Set before ray is imported. Calls between ingress and replicas are gRPC's, on the loop of the endpoint: on
# two cores this halves the cost of a streamed pass.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_SERVE_USE_GRPC_BY_DEFAULT", "1")
os.environ.setdefault("RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP", "0")
os.environ.setdefault("RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD", "0")
os.environ.setdefault("RAY_SERVE_CONTROL_LOOP_INTERVAL_S", "0.5")
if not os.environ.get("RAY_ADDRESS"):  # a Ray of this command alone, for this machine and this command
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # off, Ray listens on 127.0.0.1
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)

import grpc
import ray
import torch
from ray import serve
from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import RayServeException, RequestCancelledError

from mars_demo.decoding.trace import Pass, Run, Settings
from mars_demo.models.pool import Pool
from mars_demo.serving.chat_body import ChatBody
from mars_demo.serving.metrics import Metrics
from mars_demo.serving.refusal import Refusal
from mars_demo.serving.server import Controller, Job, Server
from mars_demo.serving.servers import check_name, check_queue, limited, submit

TRIES = 5  # replicas that may die on a request before it fails: it may be the cause
PART_SECONDS = 0.1  # passes that end sooner after a message wait for the next forward's, in one message
TAU_SECONDS = 0.2  # the shortest time between two messages of τ to all replicas
COUNT_SECONDS = 2.0  # the time between two counts of the running replicas
DRAIN_SECONDS = 30  # the longest time that a replica finishes its answers before it ends
APPLICATION = "mars-demo-"  # and a number: the names of the models may not be names of applications
ENVIRONMENT = ("MARS_DEMO_", "HF_")  # variables that replicas take over from the ingress
FAILURES = (RayError, RayServeException, grpc.aio.AioRpcError)  # of a replica, not of a request
# A Ray of this command alone; its object store, which small messages do not use, has about the least size.
OWN = {
    "address": "local",
    "include_dashboard": False,
    "object_store_memory": 128 << 20,
    "_node_ip_address": "127.0.0.1",
}
QUIET = {"log_level": "WARNING", "enable_access_log": False}


class Part(NamedTuple):
    """Passes of an answer that are sent together.

    `started` and `first` are the seconds from the request's arrival at the replica to its first forward's
    begin and end.
    """

    passes: list[Pass]
    started: float
    first: float

    @classmethod
    def of(cls, job: Job, passes: list[Pass]) -> Part:
        return cls(passes, job.started - job.arrived, job.first - job.arrived)


@dataclass(frozen=True)
class Plan:
    """The settings of all replicas.

    sources, device, dtype, block_size: as in `Pool`.
    size: the batch slots of a replica.
    tau: τ of requests that name none.
    replicas: the number of replicas of each model, or with `autoscale` the number to begin with.
    autoscale: the fewest and the most replicas of each model, if their number follows the requests.
    """

    sources: Sequence[str]
    device: str | None = None
    dtype: str = "auto"
    block_size: int | None = None
    size: int = 8
    tau: float | Controller = 0.95
    replicas: int = 1
    autoscale: tuple[int, int] | None = None

    @property
    def pool(self) -> Pool:
        return Pool(self.sources, self.device, self.dtype, self.block_size)

    @property
    def most(self) -> int:
        """Return the largest number of replicas of all models together."""
        return len(self.sources) * (self.autoscale[1] if self.autoscale else self.replicas)


class Replica:
    """A replica: a model and its server, in a process of its own."""

    async def __init__(self, name: str, plan: Plan, threads: int, environment: dict[str, str]):
        os.environ.update(environment)
        torch.set_num_threads(threads)
        tau = plan.tau.high if isinstance(plan.tau, Controller) else plan.tau
        self._server = Server(limited(plan.pool.load(name)), plan.size, tau)
        await self._server.__aenter__()

    async def answer(self, body: ChatBody, tau: float) -> AsyncIterator[Settings | Part]:
        """Yield the settings of an answer and its passes.

        Streamed, the first pass is sent at once and later ones a few at a time; otherwise all are sent
        together. The job is cancelled when the iteration is.

        Raises:
            Refusal: if the model does not support the request.
        """
        self.set_tau(tau)
        job = submit(self._server, body)
        try:
            yield job.run.settings
            if not body.stream:
                await job.finish()
                yield Part.of(job, job.run.passes)
                return
            passes, due = [], 0.0
            async for step in job:
                passes.append(step)
                if step.stop or time.monotonic() >= due:
                    yield Part.of(job, passes)
                    passes, due = [], time.monotonic() + PART_SECONDS
        finally:
            job.cancel()

    def set_tau(self, tau: float) -> None:
        """Set τ of requests that name none, also of those being decoded."""
        self._server.tau = tau

    def check_health(self) -> None:
        """Raise an error if the server has ended; Serve then replaces this replica."""
        if not self._server.alive:
            raise RuntimeError("The server of this replica has ended.")


class Deployment:
    """All replicas of a model, as the ingress sees them. It has the attributes that `Metrics` watches."""

    def __init__(self, name: str, handle: Any, plan: Plan):
        self.name, self._handle, self._answer = name, handle, None
        self._tau, self._size = plan.tau, plan.size
        self._jobs: set[RemoteJob] = set()
        self._replicas = plan.autoscale[0] if plan.autoscale else plan.replicas
        self._changed = asyncio.Event()
        self._steering: asyncio.Task | None = None

    @property
    def active(self) -> int:
        """Return the number of requests in a batch, if each replica has as many as the others."""
        return len(self._jobs) - self.waiting

    @property
    def waiting(self) -> int:
        """Return the number of requests in flight beyond the batch slots of all running replicas."""
        return max(0, len(self._jobs) - self._replicas * self._size)

    @property
    def idle(self) -> bool:
        return not self._jobs

    @property
    def tau(self) -> float:
        """Return the current τ of requests that name none."""
        return self._tau.tau(self.waiting) if isinstance(self._tau, Controller) else self._tau

    def send(self, body: ChatBody) -> Any:
        """Send a request to a replica; return the iterator of its settings and parts."""
        # Created here, because Serve's router belongs to the event loop that creates it.
        self._answer = self._answer or self._handle.options(method_name="answer", stream=True)
        return self._answer.remote(body, self.tau)

    def add(self, job: RemoteJob) -> None:
        self._steering = self._steering or asyncio.create_task(self._steer())
        self._jobs.add(job)
        self._changed.set()

    def remove(self, job: RemoteJob) -> None:
        self._jobs.discard(job)
        self._changed.set()

    async def _steer(self) -> None:
        """Send τ to all replicas when it has changed, and every `COUNT_SECONDS` to count them."""
        sent, last = None, 0.0
        while True:
            if (tau := self.tau) != sent or time.monotonic() > last + COUNT_SECONDS:
                sent, last = tau, time.monotonic()
                with suppress(*FAILURES, TimeoutError):
                    replies = await self._handle.broadcast("set_tau", tau).results_async(timeout_s=1)
                    self._replicas = len(replies)
            await asyncio.sleep(TAU_SECONDS)
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), COUNT_SECONDS)

    async def close(self) -> None:
        """Wait until all answers are finished, at most `DRAIN_SECONDS`, and end the rest."""
        end = time.monotonic() + DRAIN_SECONDS
        while self._jobs and time.monotonic() < end:
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), 1)
        for job in list(self._jobs):
            job.cancel()
        if self._steering:
            self._steering.cancel()


class RemoteJob:
    """A request at a replica, like a `Job` at a server; iterating yields its passes as they arrive.

    If its replica dies before the first pass has arrived, another one gets the request.

    Times are seconds on the ingress's clock.
    """

    def __init__(self, deployment: Deployment, body: ChatBody, ended):
        self._deployment, self._body, self._ended = deployment, body, ended
        self.run: Run | None = None
        self.arrived = time.perf_counter()
        self.started = self.first = self.finished = None
        self.cancelled, self.ready, self._tries, self._parts = False, False, 0, None

    async def begin(self) -> None:
        """Send the request and wait until a replica has accepted it.

        Raises:
            Refusal: if the model does not support the request, or several replicas have died on it.
        """
        self._deployment.add(self)
        try:
            self.run = Run(await self._next())
        except BaseException:
            self._end()
            raise

    async def __aiter__(self) -> AsyncIterator[Pass]:
        try:
            while not self.run.stop and (part := await self._next()):
                if isinstance(part, Settings):  # again, from another replica
                    continue
                self.started, self.first = self.arrived + part.started, self.arrived + part.first
                for count, step in enumerate(part.passes, 1):
                    self.run.add(step)
                    self.ready = count < len(part.passes) or self.run.stop is not None
                    yield step
            self.run.close()  # does nothing to an answer that has ended
        except (asyncio.CancelledError, GeneratorExit):  # the client has left
            self.cancel()
            raise
        finally:
            self._end()

    async def _next(self) -> Settings | Part | None:
        """Return what comes next from a replica, from another one if this one has died; None at the end."""
        while not self.cancelled:
            if self._parts is None:
                self._parts = self._deployment.send(self._body)
            try:
                return await anext(self._parts, None)
            except RayTaskError as error:
                raise error.cause from None
            except (RequestCancelledError, asyncio.CancelledError):
                if not self.cancelled:
                    raise
            except FAILURES as error:
                self._parts, self._tries = None, self._tries + 1
                if self.run and self.run.passes:
                    raise Refusal(503, "The replica failed before the answer was finished.") from error
                if self._tries == TRIES:
                    raise Refusal(503, f"{TRIES} replicas have failed on this request.") from error
        return None

    def cancel(self) -> None:
        """Remove the job from its replica before the next forward."""
        self.cancelled = True
        if self._parts is not None and not self.finished:
            self._parts.cancel()
        self._end()

    def _end(self) -> None:
        if not self.finished:
            self.finished = time.perf_counter()
            if self.run:
                if self.cancelled:
                    self.run.close()
                self._ended(self)
            self._deployment.remove(self)


class Replicas:
    """The models of an endpoint on replicas, with the methods of `Servers`."""

    def __init__(self, deployments: Sequence[Deployment]):
        self.metrics = Metrics()
        self._deployments = {deployment.name: deployment for deployment in deployments}
        self._closed = False
        for name, deployment in self._deployments.items():
            self.metrics.watch(name, deployment)

    def names(self) -> list[str]:
        """Return the names of the models."""
        return list(self._deployments)

    def check(self, name: str) -> None:
        """Check that a model is served.

        Raises:
            Refusal: if it is not.
        """
        check_name(name, self.names())

    async def submit(self, body: ChatBody) -> RemoteJob:
        """Send a request to a replica of its model.

        Raises:
            Refusal: if there is no such model, the queue of all its replicas is full, the model does not
                support the request, or the replicas are closing.
        """
        self.check(body.model)
        if self._closed:
            raise Refusal(503, "The server is shutting down.")
        deployment = self._deployments[body.model]
        check_queue(deployment.waiting)
        job = RemoteJob(deployment, body, lambda job: self.metrics.job_ended(body.model, job))
        await job.begin()
        return job

    async def close(self) -> None:
        """Accept no more requests, and wait until all answers are finished."""
        self._closed = True
        await asyncio.gather(*(deployment.close() for deployment in self._deployments.values()))


@contextmanager
def started(plan: Plan) -> Iterator[Replicas]:
    """Run the replicas of all models within a `with` block.

    They run on the cluster whose address is in the variable `RAY_ADDRESS`, or else in a Ray of their own,
    which listens on this machine alone.

    Raises:
        ValueError: if a model cannot be served.
    """
    own = not os.environ.get("RAY_ADDRESS")
    ray.init(**OWN if own else {}, log_to_driver=False, logging_level=logging.ERROR)
    logging.getLogger("ray.serve").setLevel(logging.CRITICAL)
    applications = [f"{APPLICATION}{index}" for index in range(len(plan.sources))]
    try:
        serve.start(proxy_location="Disabled", logging_config=QUIET)
        yield Replicas(_deploy(plan, applications))
    finally:
        if not own:  # the end of an own Ray ends its applications
            for application in applications:
                serve.delete(application)
        ray.shutdown()


def _deploy(plan: Plan, applications: list[str]) -> list[Deployment]:
    options, threads = _resources(plan)
    environment = {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT)}
    number = {"num_replicas": plan.replicas}
    if plan.autoscale:
        least, most = plan.autoscale
        number = {
            "autoscaling_config": {
                "min_replicas": least,
                "initial_replicas": min(max(least, plan.replicas), most),
                "max_replicas": most,
                "target_ongoing_requests": plan.size,
            }
        }
    replica = serve.deployment(
        Replica,
        name="Replica",
        ray_actor_options=options,
        max_ongoing_requests=100_000,  # the ingress limits the queue
        health_check_period_s=1,
        graceful_shutdown_timeout_s=DRAIN_SECONDS,
        graceful_shutdown_wait_loop_s=0.5,
        max_constructor_retry_count=2,
        logging_config=QUIET,
        **number,
    )
    deployments = []
    for name, application in zip(plan.pool.names(), applications):
        try:
            bound = replica.bind(name, plan, threads, environment)
            handle = serve.run(bound, name=application, route_prefix=None)
        except RuntimeError as error:
            raise ValueError(f"The replicas of {name} do not start: {_reason(application)}") from error
        deployments.append(Deployment(name, handle, plan))
    return deployments


def _reason(application: str) -> str:
    """Return the last line of Serve's message on an application."""
    (state,) = serve.status().applications[application].deployments.values()
    return (state.message.strip().splitlines() or ["unknown"])[-1]


def _resources(plan: Plan) -> tuple[dict[str, float], int]:
    """Return Ray's options for a replica, and its number of threads.

    All replicas share the CPUs and, unless `--device cpu` is chosen, the GPUs of the cluster equally. The
    variable OMP_NUM_THREADS sets other numbers of threads.
    """
    cluster = ray.cluster_resources()
    share = cluster.get("CPU", 1) / plan.most
    threads = int(os.environ.get("OMP_NUM_THREADS") or max(1, int(share)))
    options = {"num_cpus": round(min(threads, share) - 0.0005, 3)}
    if (gpus := cluster.get("GPU", 0)) and plan.device != "cpu":
        options["num_gpus"] = round(min(1, gpus / plan.most) - 0.0005, 3) if gpus < plan.most else 1
    return options, threads
