"""The arguments of a request: `vllm_xargs` over HTTP, `SamplingParams.extra_args` in Python."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mars_demo.core.acceptance import CRITERIA

LOSSLESS, AUTO = "lossless", "auto"
RANGE = (0.8, 1.0)  # τ by load, if the operator names no range
# Parameters that act on one token after the other: requests with them are decoded without masks.
ONE_BY_ONE = (
    "presence_penalty", "frequency_penalty", "bad_words", "min_tokens", "allowed_token_ids",
    "structured_outputs", "thinking_token_budget",
)  # fmt: skip


class Server(NamedTuple):
    """The settings of a server, which hold for all requests.

    mask_id, masks: the model's mask token, and the most masks per forward, those of a block in training.
    drafts: vLLM's `num_speculative_tokens`, half of it for drafts and half for masks.
    slots: requests in a full batch.
    seed: vLLM's seed, for samples of requests without one.
    shared: masks of all paced requests together; on a CPU few, because positions cost time there.
    tau: τ of requests that name none: a number, a range [low, high] by load, or `lossless`.
    padded: whether forwards after the prompt's always have `drafts` speculative tokens, for CUDA graphs.
    """

    mask_id: int
    masks: int
    drafts: int
    slots: int
    seed: int = 0
    shared: int = 32
    tau: float | list[float] | str = LOSSLESS
    padded: bool = False

    @classmethod
    def of(cls, config) -> "Server":
        """Read a `VllmConfig`; `--additional-config '{"mars": {…}}'` sets `tau` and `padded`."""
        model, drafts = config.model_config, config.speculative_config.num_speculative_tokens
        masks = min(model.hf_config.block_size, drafts // 2)
        slots, own = config.scheduler_config.max_num_seqs, config.additional_config.get("mars", {})
        shared = 32 if config.device_config.device_type == "cpu" else masks * slots
        return cls(model.hf_config.mask_token_id, masks, drafts, slots, model.seed, shared, **own)


class Arguments(NamedTuple):
    """The checked arguments of a request."""

    tau: float | tuple[float, float] | None  # None: lossless
    masks: int
    criterion: str = "probability"
    paced: bool = False  # whether the masks are the most of each forward

    @property
    def scored(self) -> bool:
        """Return whether the scores of slots matter."""
        return self.tau is not None or self.paced

    def threshold(self, load: float) -> float | None:
        """Return the current τ in a batch that is full to the share `load`; None: lossless."""
        if not isinstance(self.tau, tuple):
            return self.tau
        low, high = self.tau
        return high - (high - low) * min(1.0, load)


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
    return Arguments(tau, 0 if tau == 1 else masks, criterion, tau is None and "masks" not in (extra or {}))


def arguments_of(params, server: Server) -> Arguments:
    """Return the arguments of a request with these `SamplingParams`.

    Wrong ones, which HTTP rejects, mean AR here, since an error would end the engine.
    """
    try:
        arguments = read_arguments(params.extra_args, server)
    except ValueError:
        return Arguments(None, 0)
    plain = params.repetition_penalty == 1 and not any(getattr(params, name, None) for name in ONE_BY_ONE)
    return arguments if plain else arguments._replace(masks=0)


def room(params, count: int) -> int:
    """Return the most tokens of an answer of `count` tokens after its next one."""
    return max(0, (params.max_tokens or 1 << 30) - count - 1)
