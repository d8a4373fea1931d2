"""The Batch tab: who waits for whom in a batch, how fast it is, and what τ does when requests queue up."""

import asyncio
import html
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import gradio as gr

from mars_demo import recordings, schedules
from mars_demo.markdown import table
from mars_demo.ui import models, race
from mars_demo.ui.schedule import Schedules

RESULTS = Path(__file__).parents[2] / "assets" / "results"
CACHE_BLOCKS = (4, 256)  # from the paper's smallest to its largest
LARGEST = 16  # rows of a batch
MAX_NEW_TOKENS = 128
SIZES = (4, 8, 16)  # of the paper's Table 5
MEASURED = 24  # prompts, or two batches if these are more
SECONDS = 9  # of arrivals in a replay
AT_ONCE = 32  # requests whose answering as AR tells what a load of 1 is

WAITS = """
### Who waits

A batch decodes several prompts, all with the same forwards. The paper's **block cache** has one length for
all rows: a row that has filled its block of B_cache positions waits until all have, one more forward
commits the block, and the next prompts come when all rows have ended. The **cursor cache** gives every row
a length of its own: nobody waits for a block, and the next prompt takes a place as soon as it is free. On a
CPU, new prompts first compute a forward of their own, for which the others wait.
"""
DERIVED = f"""
Derived from five recorded runs with B_cache = {recordings.CACHE_BLOCK}. **Run** decodes two batches of
held-out prompts with each cache, here and now.
"""
FAST = """
### How fast

The paper's Table 5, and the same methods on this machine: tokens per second, and how many times as fast as
AR all prompts were answered in the same batch (a ratio of seconds, as in the paper). The paper's AR has a
KV cache; ours, "AR, continuous", also gives a free place to the next prompt at once. Where methods were
measured in several rounds, the median is shown with the smallest and the largest ratio.
"""
LOADED = """
### What τ does under load

Requests arrive in a pattern and queue for a batch of 8. The same arrivals are served three times: as
**AR**, one token per forward; with τ = 0.95; and by a **controller** that lowers τ from 1 to 0.8 as the
queue grows. A load of 1 is what the batch answers as AR when it is never idle.
"""
BATCHES = "python -m benchmarks.batches --output assets/results/batches.json"
NOT_MEASURED = f"Not measured yet; `{BATCHES}` measures what is shown here."
REPLAYS = "python -m benchmarks.load --output assets/results/load.json"


# --------------------------------------------------------------------------------- what is shared


def _warn(error: ValueError) -> None:
    """What cannot be done is said in a sentence, and the page stays as it is."""
    gr.Warning(html.escape(str(error)))


def _checkpoint():
    """The model that knows the prompts' worlds."""
    return models.load(models.TINY)


def _prompts(count: int) -> list[str]:
    """Held-out prompts of all worlds in turn."""
    from mars_demo import tasks

    return [example.prompt for example in tasks.mixed(-(-count // len(tasks.TASKS)))[:count]]


def _machine(checkpoint) -> str:
    from mars_demo import results

    return results.machine(checkpoint)


# ------------------------------------------------------------------------------------- who waits


def decode(block: float, size: float, tau: float, knobs: race.Knobs) -> Iterator[tuple]:
    """The same prompts with the block cache and then with the cursor cache: the growing value of the
    schedules, and at the end what came of it."""
    try:
        from mars_demo.batching import decode_batch

        checkpoint, size = _checkpoint(), int(size)
        prompts = _prompts(2 * size)
        settings = {"size": size, "tau": tau, "max_new_tokens": MAX_NEW_TOKENS}
        both = [
            decode_batch(
                checkpoint, prompts, cache="block", cache_block=int(block), continuous=False, **settings
            ),
            decode_batch(checkpoint, prompts, **settings),
        ]
        with closing(_lines(both, prompts, knobs)) as lines:
            for text in race.growing(lines):
                yield text, gr.skip()
        if knobs.stopped:
            yield gr.skip(), "Stopped."
        else:
            yield gr.skip(), f"{verdict(*both)} {_machine(checkpoint)}, τ = {tau:g}."
    except ValueError as error:
        _warn(error)
        yield gr.skip(), gr.skip()


def _lines(both: Sequence, prompts: Sequence[str], knobs: race.Knobs) -> Iterator[str]:
    """The schedules of decodings as they run, by the places of their batches."""
    for decoding in both:
        schedule, batch, computed = decoding.schedule, decoding.batch, 0
        rows = [f"row {place + 1}" for place in range(len(batch.rows))]
        yield schedules.heading(schedule.title, rows, prompts) + "\n"
        steps = (schedule.steps[-1] for _ in decoding)
        for states, seats in schedules.seated(steps, len(rows)):
            positions, computed = batch.positions - computed, batch.positions
            known = {"positions": positions, "ms": schedule.ms[-1], "prompts": seats}
            yield schedules.step_line(states, **known) + "\n"
            if knobs.stopped:
                return


def verdict(block, cursor) -> str:
    """What two finished decodings of the same prompts have in common, and what not."""
    pairs = list(zip(block.runs, cursor.runs))
    same = sum(one.token_ids == other.token_ids for one, other in pairs)
    return (
        f"{same} of {len(pairs)} answers are the same with both caches, token for token. The cursor cache "
        f"took {cursor.batch.forwards} forwards instead of {block.batch.forwards} and computed "
        f"{cursor.batch.positions:,} positions instead of {block.batch.positions:,}, padding included."
    )


# -------------------------------------------------------------------------------------- how fast


def measure(size: int, knobs: race.Knobs) -> Iterator[str]:
    """The methods of Table 5 in batches of `size`, a row as each has been measured."""
    try:
        from mars_demo import throughput

        checkpoint, prompts = _checkpoint(), _prompts(max(MEASURED, 2 * size))
        source = f"{_machine(checkpoint)}, {len(prompts)} held-out prompts, one run of each method"
        found = []
        yield f"Measuring: {source}."
        for result in throughput.measure(checkpoint, prompts, size):
            found.append(result)
            yield f"{measured(found)}\n\nSource: measured on this page, {source}."
            if knobs.stopped:
                break
    except ValueError as error:
        _warn(error)
        yield gr.skip()


def _compared(found) -> str:
    """A `comparison.Table`."""
    return f"{table(found.columns, found.rows)}\n\nSource: {found.source}." if found else NOT_MEASURED


def measured(found: Sequence) -> str:
    """A table of `throughput.Result`s of one batch size."""
    from mars_demo.throughput import BASELINE

    base = next((result.seconds for result in found if result.method == BASELINE), None)
    columns = [
        f"batch {found[0].size}",
        "tokens per second",
        "faster than AR",
        "forwards",
        "positions",
        "waiting",
    ]
    rows = [
        [
            result.method,
            f"{result.tokens_per_second:.1f}",
            f"{base / result.seconds:.2f}×" if base else "",
            str(result.forwards),
            f"{result.positions:,}",
            f"{result.waiting:.0%}",
        ]
        for result in found
    ]
    return table(columns, rows)


# ------------------------------------------------------------------------------------- under load


def recorded(trace: str) -> tuple:
    """The figure and the table of a trace as the benchmark recorded it."""
    from mars_demo import results

    record = results.read("load.json", RESULTS)
    if record is None:
        return gr.Plot(visible=False), f"No replay is recorded yet; `{REPLAYS}` records what is shown here."
    found = [row for row in record["traces"] if row["trace"] == trace]
    source = (
        f"`{record['command']}`, {record['machine']}, batch {record['size']}, {len(record['seeds'])} seeds"
    )
    return _replayed(found, f"{source}, load 1 is {record['capacity']:.1f} requests per second")


async def replay(trace: str, knobs: race.Knobs) -> AsyncIterator[tuple]:
    """A trace served here in real time with one policy after the other, and drawn after each."""
    try:
        checkpoint = await asyncio.to_thread(_checkpoint)
        from mars_demo import load

        yield gr.skip(), f"Answering {AT_ONCE} requests at once to learn what a load of 1 is."
        full = await asyncio.to_thread(load.capacity, checkpoint, AT_ONCE)
        times = list(load.arrivals(load.loads(SECONDS)[trace], full, seed=1))
        if not times:
            raise ValueError(
                f"{checkpoint.name} answers {full:.2f} requests per second, too few to replay."
            )
        source = f"measured on this page, {_machine(checkpoint)}, batch {load.SIZE}, load 1 is {full:.1f}"
        found = []
        for policy, settings in load.POLICIES.items():
            serving = asyncio.create_task(load.serve(checkpoint, settings, times))
            try:
                while not serving.done():
                    yield gr.skip(), f"Serving {len(times)} requests in {SECONDS} seconds: {policy} …"
                    await asyncio.wait([serving], timeout=0.5)
                    if knobs.stopped:
                        yield gr.skip(), "Stopped."
                        return
            finally:  # also when the visitor has left
                serving.cancel()
            answered, server = serving.result()
            picture = {"picture": load.drawn(answered, server)}
            found.append({"trace": trace, "policy": policy} | load.measured([(answered, server)]) | picture)
            yield _replayed(found, f"{source} requests per second")
    except ValueError as error:
        _warn(error)
        yield gr.skip(), gr.skip()


def _replayed(found: Sequence[dict], source: str) -> tuple:
    from mars_demo import figures

    figure = figures.replays({row["policy"]: row["picture"] for row in found})
    return gr.Plot(figure, visible=True), f"{latencies(found)}\n\nSource: {source}."


def latencies(found: Sequence[dict]) -> str:
    """A table of what `load.measured` found of each policy."""

    def seconds(values: dict) -> str:
        return f"{', '.join(f'{value:.2f}' for value in values.values())} s"

    shares = ", ".join(found[0]["latency"])  # p99 only where there are requests enough for one
    columns = ["policy", "requests", f"latency {shares}", f"first token {shares}"]
    columns += ["tokens per second", "queue: mean, most", "right answers"]
    rows = [
        [
            row["policy"],
            str(row["requests"]),
            seconds(row["latency"]),
            seconds(row["first_token"]),
            f"{row['tokens_per_second']:.0f}",
            f"{row['queue']['mean']:.1f}, {row['queue']['most']}",
            f"{row['accuracy']:.1%}",
        ]
        for row in found
    ]
    return table(columns, rows)


# ------------------------------------------------------------------------------------- the page


def opened(before: bool):
    """When the tab is opened for the first time: what needs the model code to be shown."""
    if before:
        return [gr.skip()] * 6
    models.racers()  # its import of the model code waits for any other that is under way
    from mars_demo import comparison, load

    traces = list(load.loads(SECONDS))
    return (
        True,
        _compared(comparison.paper(5)),
        _compared(comparison.here(5, RESULTS)),
        gr.Radio(traces, value=traces[1]),
        *recorded(traces[1]),
    )


def begin(knobs: race.Knobs):
    """Before something runs: Run off, Stop on."""
    knobs.stopped = False
    return gr.Button(interactive=False), gr.Button(interactive=True)


QUIET = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}


def _runs(name: str, label: str, work: Callable, inputs: list, outputs: list) -> None:
    """A button that starts `work` and one that stops it."""
    knobs = gr.State(race.Knobs())
    with gr.Row():
        run = gr.Button(label, variant="primary", min_width=120, elem_id=f"{name}-run")
        halt = gr.Button("Stop", interactive=False, min_width=80, elem_id=f"{name}-stop")
    run.click(begin, knobs, [run, halt], **QUIET).then(
        work,
        [*inputs, knobs],
        outputs,
        concurrency_id="model",
        concurrency_limit=1,
        show_progress="minimal",
        show_progress_on=run,
        api_visibility="private",
    ).then(race.rest, None, [run, halt], **QUIET)
    halt.click(race.stop, knobs, None, **QUIET)


def tab(page: gr.Tab) -> None:
    """The tab's components and events."""
    with gr.Column(elem_id="batch-page"):
        gr.Markdown(WAITS, elem_classes="intro")
        with gr.Row():
            with gr.Column(scale=2, min_width=280):
                block = gr.Slider(
                    *CACHE_BLOCKS,
                    value=recordings.CACHE_BLOCK,
                    step=4,
                    label="B_cache, positions",
                    elem_id="cache-block",
                )
                size = gr.Slider(1, LARGEST, 6, step=1, label="Batch size", elem_id="batch-size")
                tau = gr.Slider(0, 1, race.TAU, step=0.01, label="Threshold τ", elem_id="batch-tau")
                said = gr.Markdown(DERIVED, render=False, elem_id="batch-said")
                schedule = Schedules(recordings.batched(), elem_id="batch-schedule", render=False)
                _runs("batch", "Run", decode, [block, size, tau], [schedule, said])
                said.render()
            with gr.Column(scale=7, min_width=640):
                schedule.render()
        gr.Markdown(FAST, elem_classes="intro")
        with gr.Row(elem_id="batch-tables"):
            with gr.Column(scale=2, min_width=320):
                gr.Markdown("#### The paper")
                theirs = gr.Markdown(elem_id="batch-paper", elem_classes="numbers")
            with gr.Column(scale=3, min_width=320):
                gr.Markdown("#### Here")
                ours = gr.Markdown(render=False, elem_id="batch-here", elem_classes="numbers")
                sizes = gr.Radio(SIZES, value=SIZES[1], label="Batch size", elem_id="measured-size")
                _runs("measure", "Measure here", measure, [sizes], [ours])
                ours.render()
        gr.Markdown(LOADED, elem_classes="intro")
        with gr.Row(equal_height=True):
            trace = gr.Radio([], label="Arrivals", min_width=320, elem_id="trace")
            plot = gr.Plot(visible=False, show_label=False, render=False, elem_id="load-plot")
            numbers = gr.Markdown(render=False, elem_id="load-numbers", elem_classes="numbers")
            with gr.Column(min_width=280):
                _runs("replay", "Replay here", replay, [trace], [plot, numbers])
        plot.render()
        numbers.render()
    first = gr.State(False)
    page.select(opened, first, [first, theirs, ours, trace, plot, numbers], **QUIET)
    trace.input(recorded, trace, [plot, numbers], **QUIET)
