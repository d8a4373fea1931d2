"""The figures of the endpoint, compared with recounts and read by `openai` and Prometheus's own parser."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from openai.types.completion_usage import CompletionTokensDetails
from prometheus_client.parser import text_string_to_metric_families
from web import HANG_GUARD, ask, until

from mars_demo import tasks
from mars_demo.core.assets import ASSETS
from mars_demo.core.trace import Run, read_runs
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.serving.cache import RaggedCache
from mars_demo.serving.completion import figures
from mars_demo.serving.drafts import Drafts
from mars_demo.serving.metrics import Metrics

PROMPTS = [tasks.held_out(name, 1)[0].prompt for name in list(tasks.TASKS)[:4]]
STORY = "Tell me a short story about a lantern and a wizard."
SETTINGS = [{}, {"mode": "ar"}, {"mode": "lossless"}, {"tau": 0.5}]
# vLLM's names (its docs/usage/metrics) and types.
NAMES = {
    "vllm:num_requests_running": "gauge",
    "vllm:num_requests_waiting": "gauge",
    "vllm:prompt_tokens": "counter",
    "vllm:generation_tokens": "counter",
    "vllm:request_success": "counter",
    "vllm:spec_decode_num_drafts": "counter",
    "vllm:spec_decode_num_draft_tokens": "counter",
    "vllm:spec_decode_num_accepted_tokens": "counter",
    "vllm:spec_decode_num_accepted_tokens_per_pos": "counter",
    "vllm:request_queue_time_seconds": "histogram",
    "vllm:time_to_first_token_seconds": "histogram",
    "vllm:request_time_per_output_token_seconds": "histogram",
    "vllm:e2e_request_latency_seconds": "histogram",
}


def scrape(url: str) -> Counter:
    """Return the values of `/metrics` by name without `vllm:`, in all and for each value of a label."""
    values = Counter()
    for family in text_string_to_metric_families(httpx.get(f"{url}/metrics", timeout=HANG_GUARD).text):
        for sample in family.samples:
            name = sample.name.removeprefix("vllm:")
            values[name] += sample.value
            for label in ("finished_reason", "position"):
                values[name, sample.labels.get(label)] += sample.value
    return values


def recount(run: Run) -> list[tuple[int, int]]:
    """Return the draft tokens and the accepted ones of each forward, without looking at its slots.

    They follow from the number of positions, of verified drafts and of tokens that joined the answer.
    """
    counts, new = [], run.settings.prompt_tokens
    for step in run.passes:
        drafts, verified = step.drafts or 0, step.verified or 0
        masks = (step.positions - new - drafts) // (step.groups or 1)
        if run.settings.mode in ("lossless", "jacobi"):
            masks = 0  # they make the next forward's draft
        own = step.accepted > verified  # whether the model's own next token joined the answer
        counts.append((drafts + masks, step.accepted - own))
        new = step.accepted - verified
    return counts


def check(drafts: Drafts, counts: list[tuple[int, int]]) -> None:
    assert drafts.count == sum(1 for tokens, _ in counts if tokens)
    assert drafts.tokens == sum(tokens for tokens, _ in counts)
    assert drafts.accepted == sum(accepted for _, accepted in counts)
    assert drafts.rejected == drafts.tokens - drafts.accepted
    assert list(drafts.accepted_at) == per_position(counts)


def per_position(counts: list[tuple[int, int]]) -> list[int]:
    reached = Counter(position for _, accepted in counts for position in range(accepted))
    return [reached[position] for position in range(max(tokens for tokens, _ in counts))]


@pytest.mark.parametrize(
    ("prompt", "settings"),
    [
        (PROMPTS[0], {"mode": "mars", "tau": 1.0}),
        (PROMPTS[0], {"mode": "jacobi"}),
        (PROMPTS[0], {"mode": "speculative", "tau": 0.5}),
        (STORY, {"mode": "mars", "max_new_tokens": 7}),
        (STORY, {"mode": "lossless", "stop_strings": ("e",)}),
    ],
)
def test_draft_tokens_are_those_of_a_recount(mars_tiny, ar_tiny, prompt, settings):
    draft = ar_tiny if settings["mode"] == "speculative" else None
    run = decode(mars_tiny, prompt, Request(**{"max_new_tokens": 40} | settings, draft=draft)).finish()
    check(Drafts.of(run), recount(run))


def test_ar_has_no_draft_tokens(mars_tiny):
    run = decode(mars_tiny, STORY, Request("ar", max_new_tokens=60)).finish()
    assert Drafts.of(run) == Drafts(0, 0, ()) and Drafts.of(run).acceptance == []


def test_the_time_of_recorded_forwards_is_that_of_the_closing_line():
    lines = (ASSETS / "runs" / "story.jsonl").read_text("utf-8").splitlines()
    closing = [line for line in map(json.loads, lines) if "done" in line]
    for run, line in zip(read_runs(lines), closing, strict=True):
        timings = figures(run)["timings"]
        assert timings["predicted_n"] == line["tokens"]
        assert timings["predicted_ms"] == pytest.approx(1000 * line["seconds"], abs=0.1)


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        *zip(SETTINGS, SETTINGS),
        ({"tau": 0.5, "window": 3}, {"tau": 0.5, "window": 3}),
        ({"mode": "jacobi", "window": 4}, {"mode": "jacobi", "window": 4}),
        ({"criterion": "margin", "temperature": 0}, {"criterion": "margin"}),
        ({"top_p": 0.9, "seed": -4}, {"sampling": Sampling(1.0, top_p=0.9, seed=-4)}),
        (
            {"temperature": 1.5, "top_k": 40, "seed": 5, "mode": "lossless"},
            {"sampling": Sampling(1.5, top_k=40, seed=5), "mode": "lossless"},
        ),
    ],
)
def test_an_answer_and_its_figures_are_those_of_the_decoder_also_streamed(url, mars_tiny, fields, settings):
    run = decode(mars_tiny, STORY, Request(max_new_tokens=40, **settings)).finish()
    counts, answer = recount(run), ask(url, STORY, fields, max_tokens=40)
    [choice], usage, times = answer.choices, answer.usage, answer.timings
    assert choice.message.content == run.text
    assert choice.finish_reason == ("length" if run.stop == "length" else "stop")
    assert (usage.prompt_tokens, usage.completion_tokens) == (run.settings.prompt_tokens, run.tokens)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.forwards == run.forwards
    assert usage.tokens_per_forward == pytest.approx(run.tokens_per_forward, abs=0.001)
    details = usage.completion_tokens_details
    assert isinstance(details, CompletionTokensDetails)
    assert details.accepted_prediction_tokens == sum(accepted for _, accepted in counts)
    offered = sum(tokens for tokens, _ in counts)
    assert details.accepted_prediction_tokens + details.rejected_prediction_tokens == offered
    with_draft = sum(1 for tokens, _ in counts if tokens)
    rates = [accepted / with_draft for accepted in per_position(counts)]
    assert usage.acceptance_per_position == pytest.approx(rates, abs=0.001)
    assert (times["draft_n"], times["draft_n_accepted"]) == (offered, details.accepted_prediction_tokens)
    assert (times["prompt_n"], times["cache_n"]) == (usage.prompt_tokens, 0)
    assert times["predicted_n"] == run.tokens
    ms = times["predicted_ms"]
    assert times["predicted_per_second"] == pytest.approx(1000 * run.tokens / ms, rel=0.001)
    assert times["predicted_per_token_ms"] == pytest.approx(ms / run.tokens, abs=0.001)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = ask(url, STORY, fields, max_tokens=40, **options)
    assert last.usage == usage and last.timings.keys() == times.keys()
    assert last.timings["draft_n"] == offered
    assert not any(hasattr(chunk, "timings") for chunk in chunks)


def test_metrics_have_the_names_and_the_format_of_vllm(url):
    response = httpx.get(f"{url}/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(response.text))
    types = {family.name: family.type for family in families}
    assert {name: kind for name, kind in types.items() if not name.endswith("_created")} == NAMES
    samples = [sample for family in families for sample in family.samples]
    assert {sample.labels["model_name"] for sample in samples} == {"mars-tiny"}
    other = Metrics().response().body.decode()  # another endpoint of this process has its own
    assert not any(family.samples for family in text_string_to_metric_families(other))


def test_metrics_are_the_sums_of_concurrent_answers(url, mars_tiny):
    before = scrape(url)
    requests = [(prompt, SETTINGS[n % len(SETTINGS)]) for n, prompt in enumerate(PROMPTS)]
    with ThreadPoolExecutor(len(requests)) as clients:
        usages = [answer.usage for answer in clients.map(lambda one: ask(url, *one), requests)]
    usages.append(ask(url, STORY, max_tokens=5).usage)
    grown = scrape(url) - before
    assert grown["request_success_total", "stop"] == len(requests)
    assert grown["request_success_total", "length"] == 1
    assert grown["request_success_total"] == len(usages)
    assert grown["prompt_tokens_total"] == sum(usage.prompt_tokens for usage in usages)
    assert grown["generation_tokens_total"] == sum(usage.completion_tokens for usage in usages)
    details = [usage.completion_tokens_details for usage in usages]
    accepted = sum(detail.accepted_prediction_tokens for detail in details)
    rejected = sum(detail.rejected_prediction_tokens for detail in details)
    assert grown["spec_decode_num_accepted_tokens_total"] == accepted > 0
    assert grown["spec_decode_num_draft_tokens_total"] == accepted + rejected
    runs = [decode(mars_tiny, prompt, Request(**more)).finish() for prompt, more in requests]
    runs.append(decode(mars_tiny, STORY, Request(max_new_tokens=5)).finish())
    counts = [count for run in runs for count in recount(run)]
    assert grown["spec_decode_num_drafts_total"] == sum(1 for tokens, _ in counts if tokens)
    positions = range(max(tokens for tokens, _ in counts))
    name = "spec_decode_num_accepted_tokens_per_pos_total"
    assert [grown[name, str(position)] for position in positions] == per_position(counts)
    times = "request_queue_time time_to_first_token e2e_request_latency request_time_per_output_token"
    assert {grown[f"{time}_seconds_count"] for time in times.split()} == {len(usages)}
    queue, first, end, per_token = (grown[f"{time}_seconds_sum"] for time in times.split())
    assert 0 < queue < first < end and 0 < per_token < end


def test_requests_in_the_batch_and_in_the_queue_are_shown(url, server, gate):
    with ThreadPoolExecutor(5) as clients:
        answers = [clients.submit(ask, url, PROMPTS[0]) for _ in range(5)]
        until(lambda: len(server.jobs) == 5)
        now = scrape(url)
        running, waiting = server.active, server.waiting  # constant, as the gate holds the forward
        gate.open()
        assert all(answer.result() for answer in answers)
    assert (now["num_requests_running"], now["num_requests_waiting"]) == (running, waiting)
    until(lambda: server.active == 0)
    now = scrape(url)
    assert now["num_requests_running"] == now["num_requests_waiting"] == 0


def test_cancelled_requests_free_their_slots_and_count_with_what_was_computed(url, server, gate, mars_tiny):
    before = scrape(url)
    streams = [ask(url, STORY, {"mode": "ar"}, stream=True) for _ in range(3)]
    until(lambda: len(server.jobs) == 3)
    jobs = [*server.jobs]
    gate.release(4)
    for stream in streams[:2]:
        while not next(stream).choices[0].delta.content:
            pass
    streams.pop().close()  # the queued one first: a slot that gets free would start it
    until(lambda: any(job.cancelled for job in jobs))
    for stream in streams:
        stream.close()
    until(lambda: all(job.cancelled for job in jobs))
    gate.open()
    until(lambda: not server.jobs)
    assert {job.run.stop for job in jobs} == {"stopped"}
    [choice] = ask(url, STORY, max_tokens=9).choices  # after the others were counted
    expected = decode(mars_tiny, STORY, Request(max_new_tokens=9)).finish()
    assert choice.message.content == expected.text
    grown = scrape(url) - before
    assert grown["request_success_total", "abort"] == 3
    assert grown["request_success_total", "length"] == 1
    tokens = sum(job.run.tokens for job in jobs)
    assert grown["generation_tokens_total"] == tokens + 9 > 9
    assert grown["request_queue_time_seconds_count"] == grown["time_to_first_token_seconds_count"] == 3
    assert grown["e2e_request_latency_seconds_count"] == 1
    assert grown["request_time_per_output_token_seconds_count"] == 1


def test_failed_requests_count_as_errors(url, monkeypatch):
    def fail_once(*_):
        monkeypatch.undo()
        raise RuntimeError("a failed forward")

    before = scrape(url)
    monkeypatch.setattr(RaggedCache, "forward", fail_once)
    with pytest.raises(openai.InternalServerError):
        ask(url, PROMPTS[0])
    grown = scrape(url) - before
    assert grown["request_success_total", "error"] == grown["request_success_total"] == 1
    assert grown["prompt_tokens_total"] == grown["generation_tokens_total"] == 0
    assert grown["time_to_first_token_seconds_count"] == grown["e2e_request_latency_seconds_count"] == 0
