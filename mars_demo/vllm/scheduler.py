"""The scheduler: masks in the forward that reads a prompt, and room for all masks in every batch."""

from mars_demo.vllm.arguments import Server, arguments_of, room
from mars_demo.vllm.surface import Scheduler


class MarsScheduler(Scheduler):
    """vLLM's scheduler, with masks after the last token of every prompt.

    vLLM drops speculative tokens beyond its budget; with τ, fewer would be accepted, and the answer would
    depend on load. So there must be room for those of a full batch.

    Raises:
        ValueError: if `max_num_batched_tokens` is too small for that.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.server = server = Server.of(self.vllm_config)
        prompts = server.slots * server.masks  # masks of prompts that end in one forward
        least, most = prompts + server.slots * (1 + server.drafts), self.max_num_scheduled_tokens
        if most < least:
            raise ValueError(
                f"max_num_batched_tokens must be at least {least} for max_num_seqs = {server.slots} with "
                f"{server.drafts} drafts and masks, not {most}."
            )
        self.max_num_scheduled_tokens = most - prompts
        self.num_lookahead_tokens = max(self.num_lookahead_tokens, server.masks)  # in the KV cache

    def _update_after_schedule(self, scheduler_output):
        spec, counts = scheduler_output.scheduled_spec_decode_tokens, scheduler_output.num_scheduled_tokens
        for name, count in counts.items():
            request = self.requests[name]
            if name in spec or request.num_computed_tokens + count != request.num_tokens:
                continue
            if request.num_output_tokens and arguments_of(request.sampling_params, self.server).paced:
                continue  # its proposer has decided
            params, length = request.sampling_params, self.max_model_len - 1 - request.num_tokens
            left = min(length, room(params, request.num_output_tokens))
            if masks := min(left, arguments_of(params, self.server).masks):
                spec[name] = [self.server.mask_id] * masks
                counts[name] += masks
                scheduler_output.total_num_scheduled_tokens += masks
        super()._update_after_schedule(scheduler_output)
