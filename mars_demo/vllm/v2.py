"""Model Runner V2: the same acceptance, on the device alone; each request always has the most masks."""

import torch
from vllm.v1.worker.gpu.sample.sampler import Sampler
from vllm.v1.worker.gpu.spec_decode.ngram.speculator import NgramGPUSpeculator
from vllm.v1.worker.gpu.spec_decode.rejection_sampler import RejectionSampler

from mars_demo.core.noise import gumbel_noise
from mars_demo.vllm.accepting import NONE, accept
from mars_demo.vllm.arguments import Server, arguments_of


class MarsSpeculator(NgramGPUSpeculator):
    """The drafts of each request's next forward and masks after them, by the index of its state."""

    def __init__(self, server: Server, device: torch.device):
        self.server = server
        self.drafts = torch.full((server.slots, server.drafts), server.mask_id, device=device)

    def propose(self, input_batch, *arguments, **options):
        """Return the speculative tokens [requests, drafts] of a batch."""
        drafts = self.drafts[input_batch.idx_mapping]
        self.drafts.fill_(self.server.mask_id)
        return drafts


class DeviceSampler(Sampler):
    """A sampler with the noise of this project's decoder, which keeps the parameters of requests."""

    def __init__(self, sampler: Sampler, speculator: MarsSpeculator):
        vars(self).update(vars(sampler))
        self.params, self.speculator = {}, speculator

    def add_request(self, req_idx, sampling_params):
        self.params[req_idx] = sampling_params
        super().add_request(req_idx, sampling_params)

    def sample(self, logits, expanded_idx_mapping, idx_mapping, idx_mapping_np, pos, *more, **options):
        """Return the tokens [rows], and the logits that they were sampled from."""
        states, indices = self.sampling_states, (expanded_idx_mapping, idx_mapping, idx_mapping_np)
        truncated = self.apply_sampling_params(logits, *indices, pos, *more)
        if not states.temperature.np[idx_mapping_np].any():
            return truncated.argmax(-1), truncated
        noise = gumbel_noise(states.seeds.gpu[expanded_idx_mapping], pos, logits.shape[-1])
        is_sampled = states.temperature.gpu[expanded_idx_mapping, None] > 0
        return (truncated + noise * is_sampled).argmax(-1), truncated


class DeviceRejectionSampler(RejectionSampler):
    """A sampler of rows with drafts and masks, which leaves the next drafts in the speculator."""

    def _verify(self, logits, draft_logits, draft_sampled, pos, cu_num_logits, idx_mapping, idx_mapping_np,
                expanded_idx_mapping, *more):  # fmt: skip
        speculator, params = self.sampler.speculator, map(self.sampler.params.get, idx_mapping_np.tolist())
        server, indices = speculator.server, (expanded_idx_mapping, idx_mapping, idx_mapping_np)
        settings = [arguments_of(one, server, len(idx_mapping_np)) for one in params]
        own, truncated = self.sampler.sample(logits, *indices, pos, draft_sampled, *more[:2])
        tokens, drafts = accept(logits, draft_sampled, own, cu_num_logits[1:], settings, server)
        speculator.drafts[idx_mapping] = drafts.masked_fill(drafts == NONE, server.mask_id)[:, :-1]
        return truncated, tokens.clamp(min=0), (tokens != NONE).sum(1, dtype=torch.int32)


def replace_speculator(runner, server: Server) -> None:
    """Give a runner the speculator and these samplers."""
    runner.speculator = MarsSpeculator(server, runner.device)
    runner.sampler = DeviceSampler(runner.sampler, runner.speculator)
    config, device = runner.speculative_config, runner.device
    runner.rejection_sampler = DeviceRejectionSampler(runner.sampler, config, device)
