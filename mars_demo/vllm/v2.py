"""Model Runner V2: the same acceptance, on the device alone; each request always has the most masks."""

import torch
from vllm.v1.worker.gpu.sample.sampler import Sampler
from vllm.v1.worker.gpu.spec_decode.rejection_sampler import RejectionSampler
from vllm.v1.worker.gpu.spec_decode.speculator import BaseSpeculator

from mars_demo.vllm.accepting import NONE, accept, choose
from mars_demo.vllm.arguments import Server, arguments_of


class MarsSpeculator(BaseSpeculator):
    """The drafts of each request's next forward and masks after them, by the index of its state."""

    supports_mm_inputs, draft_logits = False, None

    def __init__(self, server: Server, device: torch.device):
        self.server = server
        self.drafts = torch.full((server.slots, server.drafts), server.mask_id, device=device)

    def init_cudagraph_manager(self, cudagraph_mode) -> None:
        """Do nothing, as `capture`: the model itself drafts."""

    def capture(self) -> None:
        pass

    def propose(self, input_batch, *arguments, **options):
        """Return the speculative tokens [requests, drafts] of a batch."""
        drafts = self.drafts[input_batch.idx_mapping]
        self.drafts.fill_(self.server.mask_id)
        return drafts


class DeviceSampler(Sampler):
    """A sampler with the noise of this project's decoder, which keeps the parameters of requests."""

    def __init__(self, sampler: Sampler):
        vars(self).update(vars(sampler))
        self.params = {}

    def add_request(self, req_idx, sampling_params):
        self.params[req_idx] = sampling_params
        super().add_request(req_idx, sampling_params)

    def sample(self, logits, expanded_idx_mapping, idx_mapping, idx_mapping_np, pos, *more, **options):
        """Return the tokens [rows], and the logits that they were sampled from."""
        states, indices = self.sampling_states, (expanded_idx_mapping, idx_mapping, idx_mapping_np)
        truncated = self.apply_sampling_params(logits, *indices, pos, *more)
        if not states.temperature.np[idx_mapping_np].any():
            return truncated.argmax(-1), truncated
        setting = (each.gpu[expanded_idx_mapping] for each in (states.temperature, states.seeds))
        return choose(truncated.float(), *setting, pos), truncated


class DeviceRejectionSampler(RejectionSampler):
    """A sampler of rows with drafts and masks, which leaves the next drafts in the speculator."""

    speculator: MarsSpeculator

    def _verify(self, logits, draft_logits, draft_sampled, pos, cu_num_logits, idx_mapping, idx_mapping_np,
                expanded_idx_mapping, *more):  # fmt: skip
        server, indices = self.speculator.server, (expanded_idx_mapping, idx_mapping, idx_mapping_np)
        own, truncated = self.sampler.sample(logits, *indices, pos, draft_sampled, *more[:2])
        settings = [arguments_of(self.sampler.params[index], server) for index in idx_mapping_np.tolist()]
        parts = logits, draft_sampled.long(), own, cu_num_logits[1:].long(), settings, server
        tokens, drafts = accept(*parts, server.drafts + 1)
        self.speculator.drafts[idx_mapping] = drafts.masked_fill(drafts == NONE, server.mask_id)[:, :-1]
        return truncated, tokens.clamp(min=0), (tokens != NONE).sum(1, dtype=torch.int32)


def replace_speculator(runner, server: Server) -> None:
    """Give a runner this speculator and these samplers."""
    if runner.sampler is not None:  # only on the last rank of a pipeline
        runner.speculator, runner.sampler = (
            MarsSpeculator(server, runner.device),
            DeviceSampler(runner.sampler),
        )
        sampler = DeviceRejectionSampler(runner.sampler, runner.speculative_config, runner.device)
        runner.rejection_sampler, sampler.speculator = sampler, runner.speculator
