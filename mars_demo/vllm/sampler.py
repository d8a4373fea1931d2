"""The samplers: a token and a score for every row of logits, then acceptance."""

from hashlib import blake2b
from itertools import takewhile

import torch
from torch import Tensor

from mars_demo.core.acceptance import CRITERIA
from mars_demo.vllm.accepting import accept
from mars_demo.vllm.arguments import Arguments, Server, arguments_of, room
from mars_demo.vllm.surface import NO_TOKEN, RejectionSampler, Sampler, SamplerOutput, truncated

GREEDY = 1e-5  # vLLM samples from this temperature on
WORTH = 0.5  # the score of a draft that is worth its verification


class MarsSampler(Sampler):
    """A sampler whose noise depends only on seed and position, as that of `decoding.sampling`.

    A draft and the token that verifies it share their noise. So drafts are accepted more often, and a
    request samples the same answer in every mode without a threshold and in every batch.
    """

    def __init__(self, runner, server: Server):
        super().__init__(runner.sampler.logprobs_mode)
        self._runner, self._server = runner, server
        self._generator = torch.Generator(runner.device)

    @property
    def requests(self) -> list:
        """Return the requests of the batch in order."""
        return [self._runner.requests[name] for name in self._runner.input_batch.req_ids]

    def sample(self, logits, sampling_metadata, logprobs_mode_override=None):
        """Choose a token per request, where no request has drafts or masks."""
        if sampling_metadata.all_greedy or len(self.requests) != len(logits):  # or a dummy run
            return super().sample(logits, sampling_metadata, logprobs_mode_override)
        return self.choose(logits, [1] * len(logits), sampling_metadata)[0], None

    def choose(self, logits: Tensor, counts: list[int], sampling_metadata) -> tuple[Tensor, Tensor]:
        """Return the tokens [rows], most probable or sampled, and the distributions [rows, vocabulary].

        counts: the number of rows of each request.
        """
        owner = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts)).to(logits.device)
        tokens, row = logits.argmax(-1), 0
        settings = (sampling_metadata.temperature, sampling_metadata.top_k, sampling_metadata.top_p)
        temperature, top_k, top_p = (None if setting is None else setting[owner] for setting in settings)
        if temperature is not None:
            logits = logits / temperature.masked_fill(temperature < GREEDY, 1)[:, None]
        p = truncated(logits, top_k, top_p).softmax(-1)
        for request, count in zip(self.requests, counts):
            params = request.sampling_params
            for position in range(request.num_tokens, request.num_tokens + count):
                if params.temperature >= GREEDY:
                    seed = params.seed if params.seed is not None else (self._server.seed, request.req_id)
                    digest = blake2b(f"{seed} {position}".encode(), digest_size=7).digest()
                    self._generator.manual_seed(int.from_bytes(digest))
                    noise = torch.empty_like(p[row]).exponential_(generator=self._generator)
                    tokens[row] = (p[row] / noise).argmax()  # where log p + Gumbel noise is largest
                row += 1
        return tokens, p


class MarsRejectionSampler(RejectionSampler):
    """A sampler of rows with drafts and masks.

    drafts: the drafts of each request's next forward, as the last forward gave them.
    pending: those that the proposer has returned, also for requests that vLLM has preempted since.
    """

    def __init__(self, runner, server: Server):
        super().__init__(runner.sampler, runner.speculative_config, runner.device)
        self._runner, self._server = runner, server
        self.drafts: dict[str, list[int]] = {}
        self.pending: dict[str, list[int]] = {}

    def kept(self) -> dict[str, list[int]]:
        """Return `pending` without requests that have ended."""
        self.pending = {name: ids for name, ids in self.pending.items() if name in self._runner.requests}
        return self.pending

    def forward(self, metadata, draft_probs, logits, sampling_metadata):
        """Return the accepted tokens [requests, drafts + 1] of a forward."""
        requests, server = self.sampler.requests, self._server
        if len(requests) != len(metadata.num_draft_tokens):  # a dummy run
            return super().forward(metadata, draft_probs, logits, sampling_metadata)
        rows, last = logits.to(torch.float32, copy=True), metadata.bonus_logits_indices
        # Requests with penalties and the like have no other row than the last.
        rows[last] = self.sampler.apply_logits_processors(rows[last], sampling_metadata, True)
        load = (len(requests) - 1) / max(1, server.slots - 1)
        settings = [arguments_of(request.sampling_params, server) for request in requests]
        out = torch.full((len(requests), metadata.max_spec_len + 1), NO_TOKEN, dtype=torch.int32)
        read = self._read(metadata, rows, sampling_metadata, settings)
        for index, (request, arguments, spec, own, scores) in enumerate(zip(requests, settings, *read)):
            given = [*takewhile(lambda token: token != server.mask_id, spec)]
            tau, pending = arguments.threshold(load), self.pending.get(request.req_id, ())
            least = WORTH if arguments.paced else None
            tokens, drafts = accept(given, own, scores, tau, pending, arguments.masks, least)
            if tau is not None and _ends(request, [*tokens, *drafts]):
                tokens, drafts = [*tokens, *drafts], []  # no forward needs their cache
            self.drafts[request.req_id], tokens = drafts, tokens[: out.shape[1]]
            out[index, : len(tokens)] = torch.tensor(tokens, dtype=torch.int32)
        logprobs, count = None, sampling_metadata.max_num_logprobs
        if count is not None:
            target, bonus = logits[metadata.target_logits_indices], logits[last]
            shown = out.to(logits.device)
            logprobs = self._get_logprobs_tensors(count, metadata, logits, target, bonus, shown)
        return SamplerOutput(out, logprobs)

    def _read(self, metadata, logits: Tensor, sampling_metadata, settings: list[Arguments]) -> list[list]:
        """Return each request's speculative tokens, own tokens and scores, in one read of the device."""
        drafted, counts = metadata.num_draft_tokens, [count + 1 for count in metadata.num_draft_tokens]
        scores, tokens = torch.zeros(len(logits), device=logits.device), None
        if sampling_metadata.all_greedy and not any(setting.scored for setting in settings):
            tokens = logits.argmax(-1)
        else:
            tokens, p = self.sampler.choose(logits, counts, sampling_metadata)
            for name in {setting.criterion for setting in settings if setting.scored}:
                uses = torch.tensor([setting.criterion == name for setting in settings])
                uses = uses.repeat_interleave(torch.tensor(counts)).to(logits.device)
                scores = torch.where(uses, CRITERIA[name].score(p, tokens), scores)
        ints = torch.cat((metadata.draft_token_ids.int(), tokens.int(), scores.view(torch.int32))).cpu()
        spec, own, bits = ints.split([sum(drafted), len(logits), len(logits)])
        parts = spec.split(drafted), own.split(counts), bits.view(torch.float32).split(counts)
        return [[values.tolist() for values in part] for part in parts]


def _ends(request, tokens: list[int]) -> bool:
    params, left = request.sampling_params, room(request.sampling_params, len(request.output_token_ids))
    return len(tokens) > left or not params.all_stop_token_ids.isdisjoint(tokens)
