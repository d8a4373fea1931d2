"""The arguments of a request: `vllm_xargs` over HTTP, `SamplingParams.extra_args` in Python."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mars_demo.core.acceptance import CRITERIA

LOSSLESS, AUTO = "lossless", "auto"
RANGE = (0.8, 1.0)  # τ by load, if the operator names no range
# Parameters that act on one token after the other: requests with them are decoded without masks.
ONE_BY_ONE = (
    "presence_penalty frequency_penalty bad_words min_tokens allowed_token_ids thinking_token_budget"
)


class Server(NamedTuple):
    """The settings of a server.

    masks, drafts: the most masks, and the most speculative tokens, of a forward.
    slots: requests in a full batch.
    seed: vLLM's seed, for samples of requests without one.
    shared: masks of all paced requests together; on a CPU few, because positions cost time there.
    tau: τ of requests that name none: a number, a range [low, high] by load, or `lossless`.
    """

    mask_id: int
    masks: int
    drafts: int
    slots: int
    seed: int = 0
    shared: int = 32
    tau: float | list[float] | str = LOSSLESS

    @classmethod
    def of(cls, config) -> "Server":
        """Read a `VllmConfig`; `--additional-config '{"mars": {"tau": …}}'` sets `tau`."""
        model, drafts = config.model_config, config.speculative_config.num_speculative_tokens
        masks = min(model.hf_config.block_size, drafts // 2)
        slots, own = config.scheduler_config.max_num_seqs, config.additional_config.get("mars", {})
        shared = 32 if config.device_config.device_type == "cpu" else masks * slots
        return cls(model.hf_config.mask_token_id, masks, drafts, slots, model.seed, shared, **own)

    def load(self, requests: int) -> float:
        """Return the load of a batch: 0 for one request, 1 for a full batch."""
        return (requests - 1) / max(1, self.slots - 1)


class Arguments(NamedTuple):
    """The checked arguments of a request; τ None is lossless, and a paced request adapts its masks."""

    tau: float | tuple[float, float] | None
    masks: int
    criterion: str = "probability"
    paced: bool = False

    def threshold(self, load: float) -> float | None:
        """Return the current τ in a batch of this load."""
        if not isinstance(self.tau, tuple):
            return self.tau
        low, high = self.tau
        return high - (high - low) * min(1.0, load)

    def most(self, load: float) -> int:
        """Return the most masks of a forward in a batch of this load: none where τ admits no slot."""
        return 0 if self.threshold(load) == 1 else self.masks


def read_arguments(extra: Mapping[str, Any] | None, server: Server) -> Arguments:
    """Check `tau`, `masks` and `criterion` of a request.

    Raises:
        ValueError: if one is out of range.
    """
    named = {"tau": server.tau, "masks": server.masks, "criterion": "probability"} | (extra or {})
    tau, masks, criterion = named["tau"], named["masks"], named["criterion"]
    if tau == AUTO or tau is server.tau and isinstance(tau, list | tuple):
        tau = RANGE if isinstance(server.tau, float | int | str) else tuple(server.tau)
    elif tau == LOSSLESS:
        tau = None
    elif isinstance(tau, bool) or not isinstance(tau, float | int) or not 0 <= tau <= 1:
        raise ValueError(f"tau must be a number from 0 to 1, {AUTO!r} or {LOSSLESS!r}, not {tau!r}.")
    if isinstance(masks, bool) or not isinstance(masks, int) or not 0 <= masks <= server.masks:
        raise ValueError(f"masks must be an integer from 0 (AR) to {server.masks}, not {masks!r}.")
    if not isinstance(criterion, str) or criterion not in CRITERIA:
        raise ValueError(f"criterion must be one of {', '.join(CRITERIA)}, not {criterion!r}.")
    paced = not isinstance(tau, float | int) and "masks" not in (extra or {})
    return Arguments(tau, 0 if tau == 1 else masks, criterion, paced)


def arguments_of(params, server: Server) -> Arguments:
    """Return the arguments of a request; wrong ones, which HTTP rejects, mean AR: errors end the engine."""
    try:
        arguments = read_arguments(params.extra_args, server)
    except ValueError:
        return Arguments(None, 0)
    plain = params.repetition_penalty == 1 and not any(
        getattr(params, name, 0) for name in ONE_BY_ONE.split()
    )
    return arguments if plain else arguments._replace(masks=0)


def room(params, count: int) -> int:
    """Return the most tokens of an answer of `count` tokens after its next one."""
    return max(0, (params.max_tokens or 1 << 30) - count - 1)
