"""Prometheus metrics of the endpoint, with the names and labels of vLLM's."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.responses import Response

from mars_demo.serving.drafts import Drafts
from mars_demo.serving.server import Job, Server

# Finer than vLLM's, because tokens of a tiny model take a millisecond.
SECONDS = tuple(digits * 10.0**power for power in range(-4, 3) for digits in (1, 2.5, 5))
# vLLM's reasons by `Run.stop`, which is None after an error.
REASONS = {"eos": "stop", "stop string": "stop", "length": "length", "stopped": "abort", None: "error"}
ANSWERED = ("stop", "length")

COUNTERS = {
    "vllm:prompt_tokens": "Prompt tokens of requests that were computed.",
    "vllm:generation_tokens": "Accepted tokens, end tokens included.",
    "vllm:spec_decode_num_drafts": "Forwards with a draft.",
    "vllm:spec_decode_num_draft_tokens": "Draft tokens.",
    "vllm:spec_decode_num_accepted_tokens": "Accepted draft tokens.",
}
HISTOGRAMS = {
    "vllm:request_queue_time_seconds": "Time until a request has a batch slot.",
    "vllm:time_to_first_token_seconds": "Time until the first forward of a request ends.",
    "vllm:request_time_per_output_token_seconds": "Time per output token after the first, of each answer.",
    "vllm:e2e_request_latency_seconds": "Time until the last token of an answer.",
}


class Metrics:
    """The metrics of all models of an endpoint, in a registry of their own.

    A request counts when it ends, with all that was computed for it. The latencies until the last token are
    those of whole answers.
    """

    def __init__(self):
        self._registry = CollectorRegistry()
        more = {"labelnames": ["model_name"], "registry": self._registry}
        self._running = Gauge("vllm:num_requests_running", "Requests in the batch.", **more)
        self._waiting = Gauge("vllm:num_requests_waiting", "Requests in the queue.", **more)
        self._counters = {name: Counter(name, text, **more) for name, text in COUNTERS.items()}
        self._histograms = {
            name: Histogram(name, text, buckets=SECONDS, **more) for name, text in HISTOGRAMS.items()
        }
        self._accepted_at = Counter(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Accepted draft tokens by their position in the draft.",
            **more | {"labelnames": ["model_name", "position"]},
        )
        self._ended = Counter(
            "vllm:request_success",
            "Ended requests by reason; those with abort and error have no whole answer.",
            **more | {"labelnames": ["model_name", "finished_reason"]},
        )

    def watch(self, model: str, server: Server) -> None:
        """Show the requests that a model's server has now; all counts of this model begin at 0."""
        self._running.labels(model).set_function(lambda: server.active)
        self._waiting.labels(model).set_function(lambda: server.waiting)
        for metric in (*self._counters.values(), *self._histograms.values()):
            metric.labels(model)
        for reason in REASONS.values():
            self._ended.labels(model, reason)

    def job_ended(self, model: str, job: Job) -> None:
        """Count a job that was answered, cancelled or failed."""
        run, drafts = job.run, Drafts.of(job.run)
        self._ended.labels(model, REASONS[run.stop]).inc()
        counts = (
            run.settings.prompt_tokens if run.passes else 0,
            run.tokens,
            drafts.count,
            drafts.tokens,
            drafts.accepted,
        )
        for name, count in zip(COUNTERS, counts):
            self._counters[name].labels(model).inc(count)
        for position, accepted in enumerate(drafts.accepted_at):
            self._accepted_at.labels(model, str(position)).inc(accepted)
        for name, seconds in zip(HISTOGRAMS, _latencies(job)):
            if seconds is not None:
                self._histograms[name].labels(model).observe(seconds)

    def response(self) -> Response:
        """Return the metrics in Prometheus's text format."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _latencies(job: Job) -> Iterator[float | None]:
    """Yield the seconds of each of `HISTOGRAMS`; None for what did not happen."""
    yield None if job.started is None else job.started - job.arrived
    yield None if job.first is None else job.first - job.arrived
    answered, later = REASONS[job.run.stop] in ANSWERED, job.run.tokens - 1
    yield (job.finished - job.first) / later if answered and later else None
    yield job.finished - job.arrived if answered else None
