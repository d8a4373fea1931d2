"""The proposer of Model Runner V1: the next forward's drafts and masks, as vLLM's speculative tokens."""

from mars_demo.vllm.accepting import next_masks
from mars_demo.vllm.arguments import Server, arguments_of, room


class MarsProposer:
    """A proposer of vLLM's method `custom_class`; `MarsWorker` gives it the sampler."""

    def __init__(self, vllm_config):
        self.server, self.sampler = Server.of(vllm_config), None

    def load_model(self, model) -> None:
        """Do nothing: the model itself drafts."""

    def propose(self, sampled_token_ids, num_tokens_no_spec, token_ids_cpu, slot_mappings=None):
        """Return the speculative tokens of each request: none before its prompt is complete."""
        both, count = zip(self.sampler.requests, sampled_token_ids), len(sampled_token_ids)
        return [self._speculative(request, len(ids), count) if ids else [] for request, ids in both]

    def _speculative(self, request, added: int, requests: int) -> list[int]:
        params, drafts = request.sampling_params, getattr(request, "drafts", [])
        request.drafts, arguments = [], arguments_of(params, self.server)
        masks = arguments.most(self.server.load(requests))
        if arguments.paced:
            most, good = min(masks, max(1, self.server.shared // requests)), max(len(drafts), added - 1)
            masks, request.waited = next_masks(good, getattr(request, "waited", 0), requests, most)
        left = room(params, len(request.output_token_ids))
        return [*drafts[:left], *[self.server.mask_id] * min(masks, left)]
