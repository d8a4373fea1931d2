"""How many copies of a server a load needs: a queueing simulation, fed with measured service times.

Requests arrive at random (Poisson) and belong to visitors. A replica has places, and requests in them share
its forwards, so each goes on more slowly the more there are: its `slowdown`. With one queue for all, a
request takes the first free place of any replica. With sticky sessions a visitor's requests all go to one
replica, and wait there even while others idle.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

# A request's seconds until its first and until its last token on a replica that has nothing else to do.
Draw = Callable[[random.Random], tuple[float, float]]


def sampled(pairs: Sequence[tuple[float, float]]) -> Draw:
    """Service times that were measured."""
    return lambda rng: tuple(rng.choice(pairs))


@dataclass(frozen=True)
class Load:
    """`rate` requests per second from so many visitors, each as often as any other."""

    rate: float
    visitors: int


@dataclass(eq=False)
class Asked:
    """A request, with the seconds at which things happened to it."""

    arrived: float
    visitor: int
    alone: tuple[float, float]
    begun: float = 0.0
    first: float = 0.0
    finished: float = 0.0

    @property
    def waited(self) -> float:
        return self.begun - self.arrived

    @property
    def first_token(self) -> float:
        return self.first - self.arrived


@dataclass
class Replica:
    """Places that share a machine. Its `work` is what a request that was there from the start would have
    got, in seconds of a machine of its own."""

    slowdown: Sequence[float]
    queue: deque[Asked]
    active: int = 0
    now: float = 0.0
    work: float = 0.0
    _due: list[tuple[float, int, bool, Asked]] = field(default_factory=list)
    _count: int = 0

    @property
    def next(self) -> float:
        """When something happens here next."""
        if not self._due:
            return float("inf")
        return self.now + max(0.0, self._due[0][0] - self.work) * self.slowdown[self.active - 1]

    def advance(self, now: float) -> None:
        """Go on until then, which is not after `next`."""
        if self.active:
            self.work += (now - self.now) / self.slowdown[self.active - 1]
        self.now = now

    def admit(self, now: float) -> None:
        """Give free places to those who wait."""
        self.advance(now)
        while self.queue and self.active < len(self.slowdown):
            asked = self.queue.popleft()
            asked.begun, self.active = now, self.active + 1
            for seconds, is_last in zip(asked.alone, (False, True)):
                self._count += 1  # of two at the same time the first one comes first
                heapq.heappush(self._due, (self.work + seconds, self._count, is_last, asked))

    def happen(self) -> None:
        """What is next: a first token, or a last one, which frees a place."""
        self.advance(self.next)
        _, _, is_last, asked = heapq.heappop(self._due)
        if not is_last:
            asked.first = self.now
            return
        asked.finished, self.active = self.now, self.active - 1
        self.admit(self.now)


def arrivals(load: Load, draw: Draw, count: int, rng: random.Random) -> Iterator[Asked]:
    now = 0.0
    for _ in range(count):
        now += rng.expovariate(load.rate)
        yield Asked(now, rng.randrange(load.visitors), draw(rng))


def simulate(
    load: Load,
    draw: Draw,
    slowdown: Sequence[float],
    replicas: int,
    *,
    sticky: bool,
    count: int = 20_000,
    seed: int = 0,
) -> list[Asked]:
    """`count` requests, served.

    slowdown: of a replica with 1, 2, … requests; it has as many places as there are values.
    sticky: whether a visitor's requests all go to one replica; else all replicas share a queue.

    Raises:
        ValueError: if there is nothing to simulate.
    """
    if load.rate <= 0 or load.visitors < 1 or replicas < 1 or count < 1 or not slowdown:
        raise ValueError(
            "A simulation needs arrivals, visitors, replicas and places, at least one of each."
        )
    common: deque[Asked] = deque()
    servers = [Replica(slowdown, deque() if sticky else common) for _ in range(replicas)]
    served = list(arrivals(load, draw, count, random.Random(seed)))
    for asked in served:
        _until(servers, asked.arrived)
        mine = servers[asked.visitor % replicas :][:1] if sticky else servers
        mine[0].queue.append(asked)
        min(mine, key=lambda server: server.active).admit(asked.arrived)
    _until(servers, float("inf"))
    return served


def _until(servers: Sequence[Replica], end: float) -> None:
    """Whatever happens before a time, in its order."""
    while (server := min(servers, key=lambda server: server.next)).next < end:
        server.happen()


def needed(
    simulated: Callable[[int], Sequence[float]], bound: float, share: float, most: int
) -> int | None:
    """The fewest replicas with which `share` of the seconds stay within a bound; None if `most` do not do.

    simulated: from a number of replicas to the seconds that requests took.
    """
    for replicas in range(1, most + 1):
        seconds = sorted(simulated(replicas))
        if seconds[int(share * (len(seconds) - 1))] <= bound:
            return replicas
    return None


def interpolated(measured: dict[int, float]) -> list[float]:
    """The slowdown with 1, 2, … requests at once, of that with some of these numbers."""
    known, found = sorted(measured.items()), []
    for (k, slow), (next_k, next_slow) in zip(known, known[1:]):
        found += [slow + (next_slow - slow) * i / (next_k - k) for i in range(next_k - k)]
    return [*found, known[-1][1]]
