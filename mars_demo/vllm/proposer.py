"""The proposer: the drafts and masks of the next forward, as vLLM's speculative tokens."""

from mars_demo.vllm.arguments import Server, arguments_of, room


class MarsProposer:
    """A proposer of vLLM's method `custom_class`; `MarsWorker` gives it the sampler."""

    def __init__(self, vllm_config):
        self.server, self.sampler = Server.of(vllm_config), None

    def load_model(self, model) -> None:
        """Do nothing: the model itself drafts."""

    def propose(self, sampled_token_ids, num_tokens_no_spec, token_ids_cpu, slot_mappings=None):
        """Return the speculative tokens of each request in the batch."""
        drafts, self.sampler.drafts = self.sampler.drafts, {}
        pending, spec = self.sampler.kept(), []
        for request, tokens in zip(self.sampler.sampler.requests, sampled_token_ids):
            if tokens:  # else a prompt is not complete, and what is pending stays so
                pending[request.req_id] = drafts.get(request.req_id, [])
            spec.append(self._spec(request, pending[request.req_id]) if tokens else [])
        return spec

    def _spec(self, request, drafts: list[int]) -> list[int]:
        left = room(request.sampling_params, len(request.output_token_ids))
        masks = arguments_of(request.sampling_params, self.server).masks
        if left and masks and self.server.padded:
            return [*drafts, *[self.server.mask_id] * (self.server.drafts - len(drafts))]
        return [*drafts[:left], *[self.server.mask_id] * min(masks, left)]
