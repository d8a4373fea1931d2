"""The arguments of a request: `vllm_xargs` over HTTP, `SamplingParams.extra_args` in Python."""

from typing import NamedTuple

from mars_demo.core.acceptance import CRITERIA

LOSSLESS, AUTO = "lossless", "auto"
# Parameters that act on one token after the other: requests with them are decoded without masks.
ONE_BY_ONE = "presence_penalty frequency_penalty min_tokens bad_words allowed_token_ids".split()


class Server(NamedTuple):
    """The settings of a server."""

    mask_id: int
    masks: int  # the most of a forward
    drafts: int  # the most speculative tokens of a forward, masks too
    slots: int  # requests in a full batch
    seed: int = 0  # vLLM's, for samples of requests without one
    shared: int = 32  # masks of all paced requests together; few on a CPU, where positions cost time
    tau: float | str = LOSSLESS  # of requests that name none
    bounds: tuple[float, float] = (0.8, 1.0)  # τ of `auto` in a full batch, and of a lone request

    @classmethod
    def of(cls, config) -> "Server":
        """Read a `VllmConfig`; `--additional-config '{"mars": {…}}'` sets `tau` and `bounds`."""
        model, drafts = config.model_config, config.speculative_config.num_speculative_tokens
        masks = min(model.hf_config.block_size, drafts // 2)
        slots, own = config.scheduler_config.max_num_seqs, config.additional_config.get("mars", {})
        shared = 32 if config.device_config.device_type == "cpu" else masks * slots
        return cls(model.hf_config.mask_token_id, masks, drafts, slots, model.seed, shared, **own)


class Arguments(NamedTuple):
    """The checked arguments of a request; τ None is lossless, and a paced request adapts its masks."""

    tau: float | None
    masks: int
    criterion: str = "probability"
    paced: bool = False


def read_arguments(extra: dict | None, server: Server, requests: int = 1) -> Arguments:
    """Return the arguments of a request in a batch of so many; raise a `ValueError` about a wrong one."""
    named = {"tau": server.tau, "masks": server.masks, "criterion": "probability"} | (extra or {})
    tau, masks, criterion = named["tau"], named["masks"], named["criterion"]
    paced = tau in (AUTO, LOSSLESS) and "masks" not in (extra or {})
    if tau == AUTO:
        (low, high), load = server.bounds, (requests - 1) / max(1, server.slots - 1)
        tau = high - (high - low) * min(1, load)
    elif tau == LOSSLESS:
        tau = None
    elif type(tau) not in (int, float) or not 0 <= tau <= 1:
        raise ValueError(f"tau must be a number from 0 to 1, {AUTO!r} or {LOSSLESS!r}, not {tau!r}.")
    if type(masks) is not int or not 0 <= masks <= server.masks:
        raise ValueError(f"masks must be an integer from 0 (AR) to {server.masks}, not {masks!r}.")
    if criterion not in [*CRITERIA]:
        raise ValueError(f"criterion must be one of {', '.join(CRITERIA)}, not {criterion!r}.")
    return Arguments(tau, 0 if tau == 1 else masks, criterion, paced)  # where τ admits no slot, no masks


def arguments_of(params, server: Server, requests: int) -> Arguments:
    """Return the arguments of a request; wrong ones, which HTTP rejects, mean AR: errors end the engine."""
    try:
        arguments = read_arguments(params.extra_args, server, requests)
    except ValueError:
        return Arguments(None, 0)
    special = any(getattr(params, name) for name in ONE_BY_ONE) or params.repetition_penalty != 1
    return arguments._replace(masks=0) if special or params.thinking_token_budget else arguments
