"""Thousands of bad inputs against the app: does each get a value or a sentence, and does all else go on?

    python -m benchmarks.hostile --cases 10000 --seed 1

starts the app as a process of its own and prints a summary. It ends with 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from benchmarks.hostile.attack import Attack, cases
from benchmarks.hostile.server import Server

TALK = [{"role": "user", "content": "Sort 3, 1 and 2"}, {"role": "assistant", "content": "1, 2, 3"}]
TRACES = re.compile(r"^(Traceback \(most|FORGED).*", re.MULTILINE)  # of code, and of a line that was sent
STAYS = "who-stays"  # a visitor whose conversation must outlive everything


def attacked(attack: Attack, seed: int, count: int) -> list[str]:
    """Send so many cases; all that went wrong."""
    before, memory = attack.known_answer(), attack.server.memory()
    attack.talk(STAYS, TALK)
    report = attack.run(cases(seed, count, attack.page))
    faults = [*report.faults]
    if attack.known_answer() != before:
        faults.append("the next visitor's answer is another one")
    if attack.messages_of(STAYS) != TALK:
        faults.append("a visitor's conversation is lost")
    faults += [f"a file was touched: {path}" for path in attack.server.touched()]
    log = attack.server.log.read_text("utf-8", errors="replace")
    faults += [f"the log has {found[0]!r}" for found in TRACES.finditer(log)]
    print(f"{sum(report.sent.values())} requests of {count} cases in {report.seconds:.0f} s, seed {seed}")
    print("sent:    ", ", ".join(f"{kind} {number}" for kind, number in report.sent.most_common()))
    print("answered:", ", ".join(f"{kind} {number}" for kind, number in report.outcomes.most_common()))
    means = {kind: took / report.sent[kind] for kind, took in report.took.most_common()}
    print("seconds: ", ", ".join(f"{kind} {mean:.2f}" for kind, mean in means.items()))
    print(f"slowest {report.slowest:.1f} s; memory {memory} MiB before, {attack.server.memory()} MiB after")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hostile", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--cases", type=int, default=10_000, metavar="N", help="default: 10000")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the same cases again; default: 1")
    parser.add_argument("--log", type=Path, metavar="FILE", help="keep what the app has printed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, Server(Path(folder)) as server:
        faults = attacked(Attack(server), options.seed, options.cases)
        if options.log:
            options.log.write_bytes(server.log.read_bytes())
    print(f"{len(faults)} faults")
    print(*faults[:20], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
