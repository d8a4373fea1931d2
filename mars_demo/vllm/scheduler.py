"""The scheduler: masks after the drafts of every forward, with room for all of them."""

from dataclasses import replace

from vllm.v1.core.sched.scheduler import Scheduler

from mars_demo.vllm.accepting import NONE, masks_after
from mars_demo.vllm.arguments import Server, arguments_of


class MarsScheduler(Scheduler):
    """vLLM's scheduler, with masks after the drafts, or after the last token of a prompt.

    vLLM drops speculative tokens beyond its budget, and those of requests that it preempts; with τ, fewer
    would be accepted, and the answer would depend on load. So only as many requests run as have room.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.server = server = Server.of(self.vllm_config)
        most = self.max_num_scheduled_tokens // (1 + 2 * server.drafts)
        self.max_num_running_reqs = max(1, min(self.max_num_running_reqs, most))
        self.max_num_scheduled_tokens -= self.max_num_running_reqs * server.drafts  # those added here
        self.num_lookahead_tokens = max(self.num_lookahead_tokens, server.drafts)  # in the KV cache

    def _preempt_request(self, request, *args, **kwargs):
        # Kept for the forward that has read its text again, also if it is preempted before that.
        vars(request).setdefault("drafts", request.spec_token_ids)
        super()._preempt_request(request, *args, **kwargs)

    def _update_after_schedule(self, scheduler_output):
        spec, counts = scheduler_output.scheduled_spec_decode_tokens, scheduler_output.num_scheduled_tokens
        for name in [] if self.use_v2_model_runner else counts:
            request, given = self.requests[name], len(spec.get(name, []))
            if request.num_computed_tokens + counts[name] != request.num_tokens + given:
                continue  # only a part of its prompt
            drafts = vars(request).pop("drafts", [])
            before, request.length = getattr(request, "length", 0), request.num_output_tokens
            good = max(given + len(drafts), request.length - before - 1)
            arguments = arguments_of(request.sampling_params, self.server, len(counts))
            masks = masks_after(good, request.length, arguments, self.server, len(counts))
            end = min(self.max_model_len, request.num_prompt_tokens + request.max_tokens) - 1
            room = max(0, end - request.num_tokens - given)
            if added := [*drafts, *[self.server.mask_id] * masks][:room]:
                spec[name] = [*spec.get(name, []), *added]
                counts[name] += len(added)
                scheduler_output.total_num_scheduled_tokens += len(added)
        super()._update_after_schedule(scheduler_output)

    def get_grammar_bitmask(self, scheduler_output):
        """Return the allowed tokens after each draft; nothing constrains the outputs of masks."""
        spec, mask_id = scheduler_output.scheduled_spec_decode_tokens, self.server.mask_id
        spec = {name: [NONE if i == mask_id else i for i in tokens] for name, tokens in spec.items()}
        return super().get_grammar_bitmask(replace(scheduler_output, scheduled_spec_decode_tokens=spec))

    def update_from_output(self, scheduler_output, model_runner_output):
        """Leave masks out of vLLM's statistics of drafts."""
        spec, output = scheduler_output.scheduled_spec_decode_tokens, model_runner_output
        scheduler_output.num_invalid_spec_tokens = {
            name: min(spec[name].count(self.server.mask_id), len(spec[name]) + 1 - len(tokens))
            for name, tokens in zip(output.req_ids, output.sampled_token_ids)
            if name in spec
        }
        return super().update_from_output(scheduler_output, model_runner_output)
