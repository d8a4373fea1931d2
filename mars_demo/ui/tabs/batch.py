"""The Batch tab: waiting in batches, their throughput, and vLLM for many users."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import gradio as gr
from pandas import DataFrame

from mars_demo import tasks
from mars_demo.core.markdown import table
from mars_demo.core.names import TINY
from mars_demo.decoding.request import Request
from mars_demo.evaluation import paper_tables, results, served, throughput
from mars_demo.evaluation.throughput import BASELINE
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.show import recordings, schedules
from mars_demo.ui.controls import QUIET, RunButtons, in_queue, tau_slider
from mars_demo.ui.drawing import Drawing
from mars_demo.ui.hosting.gpu import LONGEST, on_gpu, seconds
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import Knobs
from mars_demo.ui.racing import growing
from mars_demo.ui.tabs import Page

TITLE = "Batch"

LARGEST = 16  # batch slots
MAX_NEW_TOKENS = 128
SIZES = (4, 8, 16)  # of the paper's Table 5
MEASURED = 24  # prompts; two batches if these have more
EVERY = 0.2  # seconds between two progress messages

WAITS = """
### Waiting in a batch

A batch decodes several sequences at once: each **forward** (a pass through the model) computes the next
tokens of all sequences. The paper's **block cache** has one length for the whole batch. A sequence that has
filled its block of B_cache positions waits for the others; then one more forward **commits** the block
(adds it to the cache). The next prompts start when all sequences have ended. A **per-sequence cache**
has a length for each sequence: no sequence waits for a block, and the next prompt
takes a batch slot as soon as it is free. On a CPU, a new prompt gets a forward of its own (the
**prefill**), for which the others wait.
"""
DERIVED = f"""
Derived from five recorded runs with B_cache = {recordings.CACHE_BLOCK}. **Run** decodes two batches of
held-out prompts with each cache on this machine.
"""
FAST = """
### Throughput

The paper's Table 5, and the same methods on this machine: tokens per second, and the speed-up over AR (one
token per forward) at the same batch size. As in the paper, the speed-up is a ratio of the seconds for all
prompts. The paper's AR uses a KV cache; ours, “AR, continuous”, also fills a free batch slot with the next
prompt at once. Methods measured in several rounds show the median, with the smallest and the largest ratio.
"""
SERVED = """
### Many users

[vLLM](https://docs.vllm.ai) with this project's plugin, and stock vLLM beside it: tokens per second with a
number of requests at once, each sent when another is answered, by vLLM's own load generator. In brackets:
the ratio to AR, as in Table 5. The prompts are this page's examples, held-out skills and everyday chat.
Prompt lookup, parallel drafting and lossless MARS give AR's answers, except for near ties in bfloat16. With
**τ by load**, the threshold falls from 1 to 0.8 as the batch fills. On a CPU, masks pay off for few
requests at once: every position of a forward costs time.
"""
BATCHES = "python -m benchmarks.batches --output assets/results/batches.json"
NOT_MEASURED = f"Not measured yet; `{BATCHES}` measures this table."


# ----------------------------------------------------------------------------------------- shared


def _prompts(count: int) -> list[str]:
    """Return held-out prompts, alternating between all tasks."""
    return [example.prompt for example in tasks.mixed(-(-count // len(tasks.TASKS)))[:count]]


# --------------------------------------------------------------------------------------- waiting


@on_gpu(lambda block, size, tau, knobs: seconds(4 * MAX_NEW_TOKENS))
def decode(block: float, size: float, tau: float, knobs: Knobs) -> Iterator[tuple]:
    """Decode the same prompts with both caches; yield the growing schedules, then the result in words."""
    checkpoint, size = MODELS.load(TINY), int(size)
    prompts = _prompts(2 * size)
    request = Request("mars", tau, max_new_tokens=MAX_NEW_TOKENS)
    paper = {"cache": "block", "cache_block": int(block), "continuous": False}
    both = [
        decode_batch(checkpoint, prompts, request, size=size, **paper),
        decode_batch(checkpoint, prompts, request, size=size),
    ]
    with closing(_lines(both, prompts, knobs)) as lines:
        for text in growing(lines):
            yield text, gr.skip()
    if knobs.stopped:
        yield gr.skip(), "Stopped."
    else:
        yield gr.skip(), f"{verdict(*both)} {results.machine(checkpoint)}, τ = {tau:g}."


def _lines(both: Sequence, prompts: Sequence[str], knobs: Knobs) -> Iterator[str]:
    """Run both decodings; yield the lines of their schedules, by batch slot."""
    for decoding in both:
        schedule, batch, computed = decoding.schedule, decoding.batch, 0
        slots = [f"slot {slot + 1}" for slot in range(len(batch.slots))]
        yield schedules.heading(schedule.title, slots, prompts) + "\n"
        steps = (schedule.steps[-1] for _ in decoding)
        for states, seats in schedules.seated(steps, len(slots)):
            positions, computed = batch.positions - computed, batch.positions
            step = {"positions": positions, "ms": schedule.ms[-1], "prompts": seats}
            yield schedules.step_line(states, **step) + "\n"
            if knobs.stopped:
                return


def verdict(block, ragged) -> str:
    """Compare two finished decodings of the same prompts in words."""
    pairs = list(zip(block.runs, ragged.runs))
    same = sum(one.token_ids == other.token_ids for one, other in pairs)
    return (
        f"{same} of {len(pairs)} answers are the same with both caches, token for token. The per-sequence "
        f"cache took {ragged.batch.forwards} forwards instead of {block.batch.forwards} and computed "
        f"{ragged.batch.positions:,} positions instead of {block.batch.positions:,}, padding included."
    )


# ------------------------------------------------------------------------------------ throughput


@on_gpu(lambda size, knobs: LONGEST)
def measure(size: int, knobs: Knobs) -> Iterator[str]:
    """Measure the methods of Table 5 in batches of `size`; yield the growing table."""
    checkpoint, prompts = MODELS.load(TINY), _prompts(max(MEASURED, 2 * size))
    source = f"{results.machine(checkpoint)}, {len(prompts)} held-out prompts, one run of each method"
    rows, shown = [], f"Measuring: {source}."
    yield shown
    with closing(throughput.measure(checkpoint, prompts, size)) as steps:
        for step in spaced(steps, throughput.Result):
            if isinstance(step, throughput.Result):
                rows.append(step)
                shown = f"{measured(rows)}\n\nSource: measured on this page, {source}."
                yield shown
            else:
                yield f"{shown}\n\nNow: {step.method}, {step.answered} of {len(prompts)} prompts answered."
            if knobs.stopped:
                break
    yield f"{shown}\n\nStopped." if knobs.stopped else shown


def spaced(steps: Iterator, kept: type) -> Iterator:
    """Yield all steps of one type, and at most one of the others per `EVERY` seconds."""
    shown = 0.0
    for step in steps:
        if isinstance(step, kept):
            yield step
        elif time.monotonic() - shown >= EVERY:
            shown = time.monotonic()
            yield step


def _compared(measurements) -> str:
    """Return a `paper_tables.Table` as Markdown."""
    if not measurements:
        return NOT_MEASURED
    return f"{table(measurements.frame)}\n\nSource: {measurements.source}."


def measured(measurements: Sequence) -> str:
    """Return a table of `throughput.Result`s of one batch size."""
    base = next((result.seconds for result in measurements if result.method == BASELINE), None)
    rows = [
        {
            f"batch {result.size}": result.method,
            "tokens per second": f"{result.tokens_per_second:.1f}",
            "speed, × AR": f"{base / result.seconds:.2f}×" if base else None,
            "forwards": result.forwards,
            "positions": f"{result.positions:,}",
            "waiting": f"{result.waiting:.0%}",
        }
        for result in measurements
    ]
    return table(DataFrame(rows))


# ------------------------------------------------------------------------------------- the page


def opened(before: bool):
    """Fill the tab when it is first opened: these values need the model code."""
    if before:
        return [gr.skip()] * 4
    return True, _compared(paper_tables.paper(5)), _compared(paper_tables.here(5)), many_users()


def many_users() -> str:
    """Return the tables of vLLM under load, with their source."""
    if (measured := results.read(served.FILE)) is None:
        return "Not measured yet; `python -m benchmarks.vllm_serving` measures these tables."
    source = f"{results.origin(measured)}, {measured['machine']}, vLLM {measured['vllm']}"
    return f"{served.tables(measured)}\n\nSource: {source}."


def _runs(name: str, label: str, work: Callable, inputs: list, outputs: list) -> None:
    """Build the buttons that start and stop `work`."""
    buttons = RunButtons(f"{name}-", label)
    buttons.on(buttons.run.click, work, inputs, outputs, **in_queue("batch", inputs[0]))


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events."""
    with gr.Column(elem_id="batch-page"):
        _build_schedules()
        tables = _build_speeds()
        gr.Markdown(SERVED, elem_classes="intro")
        users = gr.Markdown(elem_id="batch-served", elem_classes="numbers")
    first = gr.State(False)
    tab.select(opened, first, [first, *tables, users], **QUIET)


def _build_schedules() -> None:
    gr.Markdown(WAITS, elem_classes="intro")
    with gr.Row():
        with gr.Column(scale=2, min_width=280):
            block = gr.Slider(
                *recordings.CACHE_BLOCKS,
                value=recordings.CACHE_BLOCK,
                step=4,
                label="B_cache, positions",
                elem_id="cache-block",
            )
            size = gr.Slider(1, LARGEST, 6, step=1, label="Batch size", elem_id="batch-size")
            tau = tau_slider("batch-tau")
            result = gr.Markdown(DERIVED, render=False, elem_id="batch-said")
            schedule = Drawing("schedule", recordings.batched(), elem_id="batch-schedule", render=False)
            _runs("batch", "Run", decode, [block, size, tau], [schedule, result])
            result.render()
        with gr.Column(scale=7, min_width=640):
            schedule.render()


def _build_speeds() -> list:
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
    return [theirs, ours]
