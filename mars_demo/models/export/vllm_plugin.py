"""The flags with which vLLM uses the plugin."""

import json

PLUGIN = "mars_demo.vllm"  # also in the copy in a checkpoint
SIZE = 64  # requests in a batch, by default


def flags(
    masks: int, size: int = SIZE, tau: float | list[float] | None = None
) -> dict[str, str | int | bool]:
    """Return flags of vLLM by their long names.

    masks: the block size in training.
    size: the most requests in a batch.
    tau: τ of requests that name none, a number or a range by load; None for lossless.
    """
    speculative = {
        "method": "custom_class",
        "model": f"{PLUGIN}.sampler.MarsProposer",
        "num_speculative_tokens": 2 * masks,  # as many drafts as masks
    }
    chosen = {"tau": "auto", "bounds": tau} if isinstance(tau, list) else {"tau": tau}
    own = {} if tau is None else {"additional-config": json.dumps({"mars": chosen})}
    return own | {
        "worker-cls": f"{PLUGIN}.worker.MarsWorker",
        "scheduler-cls": f"{PLUGIN}.scheduler.MarsScheduler",
        "middleware": f"{PLUGIN}.http.checked_request",
        "speculative-config": json.dumps(speculative),
        "max-num-seqs": size,
        "max-num-batched-tokens": max(4096, 5 * masks * size),  # with room for prompts
        "no-async-scheduling": True,
    }
