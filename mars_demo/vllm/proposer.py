"""The proposer: the drafts and masks of the next forward, as vLLM's speculative tokens."""

from mars_demo.vllm.accepting import next_drafts
from mars_demo.vllm.arguments import Server, arguments_of, room


class MarsProposer:
    """A proposer of vLLM's method `custom_class`; `MarsWorker` gives it the sampler."""

    def __init__(self, vllm_config):
        self.server, self.sampler = Server.of(vllm_config), None
        self.waited: dict[str, int] = {}  # forwards without drafts, of lossless requests

    def load_model(self, model) -> None:
        """Do nothing: the model itself drafts."""

    def propose(self, sampled_token_ids, num_tokens_no_spec, token_ids_cpu, slot_mappings=None):
        """Return the speculative tokens of each request in the batch."""
        drafts, self.sampler.drafts = self.sampler.drafts, {}
        pending, spec = self.sampler.kept(), []
        self.waited = {name: count for name, count in self.waited.items() if name in pending}
        for request, tokens in zip(self.sampler.sampler.requests, sampled_token_ids):
            spec.append([])
            if tokens:  # else a prompt is not complete, and what is pending stays so
                pending[request.req_id] = new = drafts.get(request.req_id, [])
                good = max(len(new), len(tokens) - 1)
                spec[-1] = self._spec(request, new, self._masks(request, good, len(sampled_token_ids)))
        return spec

    def _masks(self, request, drafts: int, requests: int) -> int:
        arguments, name = arguments_of(request.sampling_params, self.server), request.req_id
        if not arguments.paced or self.server.padded:
            return arguments.masks
        most = min(arguments.masks, max(1, self.server.shared // requests))
        masks, self.waited[name] = next_drafts(drafts, self.waited.get(name, 0), requests, most)
        return masks

    def _spec(self, request, drafts: list[int], masks: int) -> list[int]:
        left = room(request.sampling_params, len(request.output_token_ids))
        if left and masks and self.server.padded:
            return [*drafts, *[self.server.mask_id] * (self.server.drafts - len(drafts))]
        return [*drafts[:left], *[self.server.mask_id] * min(masks, left)]
