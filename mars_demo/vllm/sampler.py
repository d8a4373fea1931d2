"""Model Runner V1: a token for every row of logits, then acceptance and the next drafts."""

from dataclasses import replace
from random import Random

import torch
from vllm.v1.outputs import SamplerOutput
from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p
from vllm.v1.sample.rejection_sampler import RejectionSampler

from mars_demo.core.noise import gumbel_noise
from mars_demo.vllm.accepting import NONE, accept
from mars_demo.vllm.arguments import Server, arguments_of


class MarsSampler(RejectionSampler):
    """A sampler of rows with drafts and masks. It leaves a request's next drafts in `request.drafts`."""

    def __init__(self, runner, server: Server):
        super().__init__(runner.sampler, runner.speculative_config, runner.device)
        self.runner, self.server, self.counts = runner, server, None
        # All samples of vLLM, also those of forwards without drafts and masks, get this project's noise.
        runner.sampler.topk_topp_sampler.forward = self.choose

    def requests(self) -> list:
        """Return the requests of the batch in order."""
        return [self.runner.requests[name] for name in self.runner.input_batch.req_ids]

    def choose(self, logits, generators, top_k, top_p):
        """Return tokens [rows] sampled from logits [rows, vocabulary], and no log probabilities."""
        requests, logits = self.requests(), apply_top_k_top_p(logits, top_k, top_p)
        counts = torch.ones(len(requests)).long() if self.counts is None else self.counts
        if counts.sum() != len(logits):  # a dummy run
            return logits.argmax(-1), None
        keys = torch.tensor([[self._seed(request), request.num_tokens - 1] for request in requests])
        keys[:, 1] -= counts.cumsum(0) - counts  # the rows before
        keys = keys.repeat_interleave(counts, 0)
        keys[:, 1] += torch.arange(len(keys))
        return (logits + gumbel_noise(*keys.to(logits.device).unbind(1), logits.shape[-1])).argmax(-1), None

    def _seed(self, request) -> int:
        seed = request.sampling_params.seed
        return Random(f"{self.server.seed} {request.req_id}").getrandbits(63) if seed is None else seed

    def forward(self, metadata, draft_probs, logits, sampling_metadata):
        """Return the accepted tokens [requests, drafts + 1] of a forward."""
        requests, last = self.requests(), metadata.bonus_logits_indices
        if len(requests) != len(metadata.num_draft_tokens):  # a dummy run
            return super().forward(metadata, draft_probs, logits, sampling_metadata)
        self.counts, rows = torch.tensor(metadata.num_draft_tokens) + 1, logits.to(torch.float32, copy=True)
        # Requests with penalties and the like have no other row than the last.
        rows[last] = self.sampler.apply_logits_processors(rows[last], sampling_metadata, True)
        owner = torch.arange(len(requests)).repeat_interleave(self.counts).to(logits.device)
        parts = {name: getattr(sampling_metadata, name) for name in ("temperature", "top_k", "top_p")}
        by_row = {name: part[owner] for name, part in parts.items() if part is not None}
        own = self.sampler.sample(rows, replace(sampling_metadata, **by_row))[0]
        given = self.runner.input_ids.gpu[metadata.logits_indices].long()
        self.counts, ends = None, metadata.cu_num_sampled_tokens.long()
        settings = [arguments_of(one.sampling_params, self.server, len(requests)) for one in requests]
        tokens, drafts = (part.cpu() for part in accept(logits, given, own, ends, settings, self.server))
        for row, more, request, arguments in zip(tokens, drafts, requests, settings):
            request.drafts, added = more[more != NONE].tolist(), torch.cat((row, more))
            added = added[added != NONE]
            if arguments.tau is not None and _ends(request, added.tolist()):
                row[: len(added)], request.drafts = added, []  # no forward needs the cache of the drafts
        if sampling_metadata.max_num_logprobs is None:
            return SamplerOutput(tokens.int(), None)
        parts = logits, logits[metadata.target_logits_indices], logits[last], tokens.to(logits.device)
        shown = self._get_logprobs_tensors(sampling_metadata.max_num_logprobs, metadata, *parts)
        return SamplerOutput(tokens.int(), shown)


def _ends(request, added: list[int]) -> bool:
    params, length = request.sampling_params, len(request.output_token_ids) + len(added)
    is_end = length >= params.max_tokens or not params.all_stop_token_ids.isdisjoint(added)
    return is_end and not params.structured_outputs  # whose drafts the scheduler checks


class MarsProposer:
    """A proposer of vLLM's method `custom_class`: the drafts that the sampler has left."""

    def __init__(self, vllm_config):
        self.sampler: MarsSampler

    def load_model(self, model) -> None:
        """Do nothing: the model itself drafts."""

    def propose(self, sampled_token_ids, *texts, **options):
        """Return the drafts of each request; `MarsScheduler` adds masks."""
        return [vars(request).pop("drafts", []) for request in self.sampler.requests()]


def replace_samplers(runner, server: Server) -> None:
    """Give a runner this sampler."""
    runner.rejection_sampler = runner.drafter.sampler = MarsSampler(runner, server)
