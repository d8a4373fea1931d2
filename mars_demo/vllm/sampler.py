"""Model Runner V1: a token for every row of logits, then acceptance, then the next speculative tokens."""

from random import Random

import torch
from torch import Tensor
from vllm.v1.outputs import SamplerOutput
from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p
from vllm.v1.sample.rejection_sampler import RejectionSampler
from vllm.v1.sample.sampler import Sampler

from mars_demo.vllm.accepting import NONE, accept, choose, next_masks
from mars_demo.vllm.arguments import Server, arguments_of, room

GREEDY = 1e-5  # vLLM samples from this temperature on


class MarsSampler(Sampler):
    """A sampler with the noise of this project's decoder."""

    def __init__(self, runner, server: Server):
        super().__init__(runner.sampler.logprobs_mode)
        self.runner, self.server = runner, server

    @property
    def requests(self) -> list:
        """Return the requests of the batch in order."""
        return [self.runner.requests[name] for name in self.runner.input_batch.req_ids]

    def sample(self, logits, sampling_metadata, logprobs_mode_override=None):
        """Choose a token per request, where no request has drafts or masks."""
        if sampling_metadata.all_greedy or len(self.requests) != len(logits):  # or a dummy run
            return super().sample(logits, sampling_metadata, logprobs_mode_override)
        return self.tokens(logits, torch.ones(len(logits), dtype=torch.int64), sampling_metadata), None

    def tokens(self, logits: Tensor, counts: Tensor, metadata) -> Tensor:
        """Return the most probable or sampled tokens [rows]; each request has `counts` rows."""
        if metadata.all_greedy:
            return logits.argmax(-1)
        each = torch.tensor([[self._seed(request), request.num_tokens - 1] for request in self.requests])
        each[:, 1] -= counts.cumsum(0) - counts  # the rows before
        owner = torch.arange(len(counts)).repeat_interleave(counts).to(logits.device)
        seeds, starts = each.to(logits.device)[owner].unbind(1)
        settings = metadata.temperature, metadata.top_k, metadata.top_p
        temperature, top_k, top_p = (None if setting is None else setting[owner] for setting in settings)
        temperature = temperature.where(temperature >= GREEDY, 0)
        logits = logits / temperature.where(temperature > 0, 1)[:, None]
        positions = starts + torch.arange(len(owner), device=logits.device)
        return choose(apply_top_k_top_p(logits, top_k, top_p), temperature, seeds, positions)

    def _seed(self, request) -> int:
        seed = request.sampling_params.seed
        return Random(f"{self.server.seed} {request.req_id}").getrandbits(63) if seed is None else seed


class MarsRejectionSampler(RejectionSampler):
    """A sampler of rows with drafts and masks. It leaves a request's next drafts in `request.drafts`."""

    def forward(self, metadata, draft_probs, logits, sampling_metadata):
        """Return the accepted tokens [requests, drafts + 1] of a forward."""
        requests, server, last = self.sampler.requests, self.sampler.server, metadata.bonus_logits_indices
        if len(requests) != len(metadata.num_draft_tokens):  # a dummy run
            return super().forward(metadata, draft_probs, logits, sampling_metadata)
        counts, rows = torch.tensor(metadata.num_draft_tokens) + 1, logits.to(torch.float32, copy=True)
        # Requests with penalties and the like have no other row than the last.
        rows[last] = self.sampler.apply_logits_processors(rows[last], sampling_metadata, True)
        own = self.sampler.tokens(rows, counts, sampling_metadata)
        settings = [arguments_of(request.sampling_params, server) for request in requests]
        given = torch.full_like(own, NONE)
        given[metadata.target_logits_indices + 1] = metadata.draft_token_ids.to(own.dtype)
        ends, width = counts.cumsum(0).to(own.device), int(counts.max())
        out = torch.cat(accept(rows, given, own, ends, settings, server, width), 1).cpu()
        for index, (row, request, arguments) in enumerate(zip(out.tolist(), requests, settings)):
            request.drafts = [token for token in row[width:] if token != NONE]
            added = [token for token in row if token != NONE]  # with the drafts
            if arguments.tau is not None and _ends(request, added):
                out[index, : len(added)] = torch.tensor(added)
                request.drafts = []  # no forward needs their cache
        out, count = out[:, :width].int(), sampling_metadata.max_num_logprobs
        if count is None:
            return SamplerOutput(out, None)
        parts = logits, logits[metadata.target_logits_indices], logits[last], out.to(logits.device)
        return SamplerOutput(out, self._get_logprobs_tensors(count, metadata, *parts))


def _ends(request, added: list[int]) -> bool:
    params, left = request.sampling_params, room(request.sampling_params, len(request.output_token_ids))
    is_end = len(added) > left or not params.all_stop_token_ids.isdisjoint(added)
    return is_end and not params.structured_outputs  # whose drafts the scheduler checks


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


def replace_samplers(runner, server: Server) -> None:
    """Give a runner these samplers."""
    if hasattr(runner, "drafter"):  # only on the last rank of a pipeline
        sampler = runner.sampler = runner.drafter.sampler = MarsSampler(runner, server)
        runner.rejection_sampler = MarsRejectionSampler(sampler, runner.speculative_config, runner.device)
