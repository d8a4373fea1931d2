"""The scheduler: masks in the forward that reads a prompt, room for all masks, grammars beside masks."""

from dataclasses import replace

from vllm.v1.core.sched.scheduler import Scheduler

from mars_demo.vllm.accepting import NONE
from mars_demo.vllm.arguments import Server, arguments_of, room


class MarsScheduler(Scheduler):
    """vLLM's scheduler, with masks after the last token of every prompt.

    vLLM drops speculative tokens beyond its budget, and those of requests that it preempts; with τ, fewer
    would be accepted, and the answer would depend on load. So only as many requests run as have room.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.server = server = Server.of(self.vllm_config)
        most = self.max_num_scheduled_tokens // (1 + 2 * server.drafts)
        self.max_num_running_reqs = max(1, min(self.max_num_running_reqs, most))
        self.max_num_scheduled_tokens -= self.max_num_running_reqs * server.drafts  # those after prompts
        self.num_lookahead_tokens = max(self.num_lookahead_tokens, server.drafts)  # in the KV cache

    def _preempt_request(self, request, *args, **kwargs):
        drafts = [token for token in request.spec_token_ids if token != self.server.mask_id]
        super()._preempt_request(request, *args, **kwargs)
        request.drafts = drafts  # for the forward that reads its text again

    def _update_after_schedule(self, scheduler_output):
        spec, counts = scheduler_output.scheduled_spec_decode_tokens, scheduler_output.num_scheduled_tokens
        load, names = self.server.load(len(counts)), [] if self.use_v2_model_runner else [*counts]
        for request in [self.requests[name] for name in names if name not in spec]:
            if request.num_computed_tokens + counts[request.request_id] != request.num_tokens:
                continue
            arguments, count = arguments_of(request.sampling_params, self.server), request.num_output_tokens
            # The proposer has decided on the masks of paced requests after the prompt.
            masks = 0 if count and arguments.paced else arguments.most(load)
            drafts, request.drafts = getattr(request, "drafts", []), []
            left = min(self.max_model_len - 1 - request.num_tokens, room(request.sampling_params, count))
            if tokens := [*drafts, *[self.server.mask_id] * masks][: max(0, left)]:
                spec[request.request_id] = tokens
                counts[request.request_id] += len(tokens)
                scheduler_output.total_num_scheduled_tokens += len(tokens)
        super()._update_after_schedule(scheduler_output)

    def update_draft_token_ids(self, draft_token_ids):
        """Keep the drafts that a request's grammar allows, and the masks after them."""
        super().update_draft_token_ids(draft_token_ids)
        load = self.server.load(len(draft_token_ids.req_ids))
        for name, tokens in zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids):
            if request := self.requests.get(name):
                masks = [self.server.mask_id] * tokens.count(self.server.mask_id)
                has_none = not arguments_of(request.sampling_params, self.server).most(load)
                if self.use_v2_model_runner and (has_none or request.use_structured_output):
                    request.spec_token_ids = []  # this runner always proposes the most
                elif request.use_structured_output:
                    request.spec_token_ids += masks

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
