"""Prometheus metrics of the endpoint, with the names and labels of vLLM's."""

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


class Metrics:
    """The metrics of all models of an endpoint, in a registry of their own.

    A request counts when it ends, with all that was computed for it. The latencies until the last token are
    those of whole answers.
    """

    def __init__(self):
        self._registry = CollectorRegistry()

        def new(kind: type, name: str, about: str, *labels: str, **more):
            return kind(f"vllm:{name}", about, ["model_name", *labels], registry=self._registry, **more)

        def seconds(name: str, about: str) -> Histogram:
            return new(Histogram, f"{name}_seconds", about, buckets=SECONDS)

        self._running = new(Gauge, "num_requests_running", "Requests in the batch.")
        self._waiting = new(Gauge, "num_requests_waiting", "Requests in the queue.")
        self._ended = new(
            Counter, "request_success", "Ended requests; abort and error: unfinished.", "finished_reason"
        )
        self._prompt = new(Counter, "prompt_tokens", "Prompt tokens of requests that were computed.")
        self._tokens = new(Counter, "generation_tokens", "Accepted tokens, end tokens included.")
        self._drafts = new(Counter, "spec_decode_num_drafts", "Forwards with a draft.")
        self._draft_tokens = new(Counter, "spec_decode_num_draft_tokens", "Draft tokens.")
        self._accepted = new(Counter, "spec_decode_num_accepted_tokens", "Accepted draft tokens.")
        self._accepted_at = new(
            Counter,
            "spec_decode_num_accepted_tokens_per_pos",
            "Accepted draft tokens by their position in the draft.",
            "position",
        )
        self._queue = seconds("request_queue_time", "Time until a request has a batch slot.")
        self._first = seconds("time_to_first_token", "Time until the first forward of a request ends.")
        self._latency = seconds("e2e_request_latency", "Time until the last token of an answer.")
        self._per_token = seconds(
            "request_time_per_output_token", "Time per output token after the first, of each answer."
        )

    def watch(self, model: str, server: Server) -> None:
        """Show the requests that a model's server has now."""
        self._running.labels(model).set_function(lambda: server.active)
        self._waiting.labels(model).set_function(lambda: server.waiting)

    def job_ended(self, model: str, job: Job) -> None:
        """Count a job that was answered, cancelled or failed."""
        run, drafts, reason = job.run, Drafts.of(job.run), REASONS[job.run.stop]
        self._ended.labels(model, reason).inc()
        self._prompt.labels(model).inc(run.settings.prompt_tokens if run.passes else 0)
        self._tokens.labels(model).inc(run.tokens)
        self._drafts.labels(model).inc(drafts.count)
        self._draft_tokens.labels(model).inc(drafts.tokens)
        self._accepted.labels(model).inc(drafts.accepted)
        for position, accepted in enumerate(drafts.accepted_at):
            self._accepted_at.labels(model, str(position)).inc(accepted)
        if job.started is not None:
            self._queue.labels(model).observe(job.started - job.arrived)
        if job.first is not None:
            self._first.labels(model).observe(job.first - job.arrived)
        if reason in ANSWERED:
            self._latency.labels(model).observe(job.finished - job.arrived)
            if run.tokens > 1:
                self._per_token.labels(model).observe((job.finished - job.first) / (run.tokens - 1))

    def response(self) -> Response:
        """Return the metrics in Prometheus's text format."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)
