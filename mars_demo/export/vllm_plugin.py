"""The flags with which vLLM uses the plugin of `mars_demo.vllm`, or its copy in a checkpoint."""

import json

SIZE = 64  # requests in a batch, by default
TOKENS = 4096  # the least budget of tokens per forward


def flags(package: str, masks: int, size: int = SIZE) -> dict[str, str | int | bool]:
    """Return flags of vLLM by their long names, for a package with the plugin.

    masks: the block size in training.
    size: the most requests in a batch.
    """
    speculative = {
        "method": "custom_class",
        "model": f"{package}.proposer.MarsProposer",
        "num_speculative_tokens": 2 * masks,  # as many drafts as masks
    }
    return {
        "worker-cls": f"{package}.worker.MarsWorker",
        "scheduler-cls": f"{package}.scheduler.MarsScheduler",
        "middleware": f"{package}.http.checked",
        "speculative-config": json.dumps(speculative),
        "max-num-seqs": size,
        "max-num-batched-tokens": max(TOKENS, 4 * masks * size),  # with room for prompts
        "no-async-scheduling": True,
    }
