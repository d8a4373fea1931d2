"""The Batch tab: waiting in batches, their throughput, and vLLM for many users."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import gradio as gr

from mars_demo import tasks
from mars_demo.core.names import TINY
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.paper_tables import OURS
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.show import recordings, schedules
from mars_demo.ui.controls import QUIET, RunButtons, in_queue, tau_slider
from mars_demo.ui.drawing import Drawing
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import Knobs
from mars_demo.ui.lessons.tables import BATCHES, both
from mars_demo.ui.racing import growing
from mars_demo.ui.tabs import Page

TITLE = "Batch"

LARGEST = 16  # batch slots
MAX_NEW_TOKENS = 128

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

[vLLM](https://docs.vllm.ai) with this project's plugin, and stock vLLM beside it: how many times as fast as
AR with a number of requests at once, each sent when another is answered, by vLLM's own load generator. The
figures of a cell are of this page's examples, held-out skills and everyday chat.
Prompt lookup, parallel drafting and lossless MARS give AR's answers, except for near ties in bfloat16. With
**τ by load**, the threshold falls from 1 to 0.8 as the batch fills. On a CPU, masks pay off for few
requests at once: every position of a forward costs time.
"""


# --------------------------------------------------------------------------------------- waiting


@on_gpu(lambda block, size, tau, knobs: seconds(4 * MAX_NEW_TOKENS))
def decode(block: float, size: float, tau: float, knobs: Knobs) -> Iterator[tuple]:
    """Decode the same prompts with both caches; yield the growing schedules, then the result in words."""
    checkpoint, size = MODELS.load(TINY), int(size)
    prompts = [example.prompt for example in tasks.mixed(-(-2 * size // len(tasks.TASKS)))[: 2 * size]]
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
        slots = [f"slot {slot + 1}" for slot in range(batch.size)]
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


# ------------------------------------------------------------------------------------- the page


def opened() -> tuple[str, str]:
    """Fill the tab when it is opened: these values need the model code."""
    return both(BATCHES), OURS["served"]


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events."""
    with gr.Column(elem_id="batch-page"):
        _build_schedules()
        gr.Markdown(FAST, elem_classes="intro")
        speeds = gr.Markdown(elem_id="batch-speeds", elem_classes="numbers")
        gr.Markdown(SERVED, elem_classes="intro")
        users = gr.Markdown(elem_id="batch-served", elem_classes="numbers")
    tab.select(opened, None, [speeds, users], **QUIET)


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
            buttons = RunButtons("batch-", "Run")
            result = gr.Markdown(DERIVED, elem_id="batch-said")
        with gr.Column(scale=7, min_width=640):
            schedule = Drawing("schedule", recordings.batched(), elem_id="batch-schedule")
    inputs, outputs = [block, size, tau], [schedule, result]
    buttons.on(buttons.run.click, decode, inputs, outputs, **in_queue("batch", block))
