"""The experimental and private parts of vLLM that the plugin uses, all of them, and their check."""
# ruff: noqa: F401

from inspect import signature

SUPPORTED = "The MARS plugin supports vLLM 0.30 to 0.33"

try:
    from vllm.platforms import current_platform
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.outputs import SamplerOutput
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p as truncated
    from vllm.v1.sample.rejection_sampler import PLACEHOLDER_TOKEN_ID as NO_TOKEN
    from vllm.v1.sample.rejection_sampler import RejectionSampler
    from vllm.v1.sample.sampler import Sampler

    if current_platform.is_cpu():
        from vllm.v1.worker.cpu_worker import CPUWorker as Worker
    else:
        from vllm.v1.worker.gpu_worker import Worker
except ImportError as error:
    raise RuntimeError(f"{SUPPORTED}: {error}.") from error

METHODS = {  # that the plugin calls or replaces, and their parameters
    Sampler.sample: "self logits sampling_metadata logprobs_mode_override",
    Sampler.apply_logits_processors: "self logits sampling_metadata predict_bonus_token",
    RejectionSampler.forward: "self metadata draft_probs logits sampling_metadata",
    RejectionSampler._get_logprobs_tensors: "self max_num_logprobs metadata logits target_logits "
    "bonus_logits sampled_token_ids",
    Scheduler._update_after_schedule: "self scheduler_output",
}
RUNNER = ("input_batch", "rejection_sampler", "requests", "sampler", "speculative_config")


def check_surface(config, runner) -> None:
    """Check that this vLLM has what the plugin uses, with settings that it supports.

    Raises:
        RuntimeError: if it is another vLLM.
        ValueError: if a setting is not supported.
    """
    changed = [
        method.__qualname__
        for method, names in METHODS.items()
        if [*signature(method).parameters] != names.split()
    ]
    changed += [f"runner.{name}" for name in RUNNER if hasattr(runner, "drafter") > hasattr(runner, name)]
    if changed:
        raise RuntimeError(f"{SUPPORTED}; this one differs in {', '.join(changed)}.")
    if config.scheduler_config.async_scheduling or not config.model_config.logprobs_mode.startswith("raw"):
        raise ValueError("The MARS plugin needs --no-async-scheduling, and raw log probabilities.")
