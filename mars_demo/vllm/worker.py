"""The worker: vLLM's own, with the samplers of MARS."""

from vllm import __version__
from vllm.distributed import get_pp_group
from vllm.platforms import current_platform

from mars_demo.vllm.arguments import Server

if current_platform.is_cpu():
    from vllm.v1.worker.cpu_worker import CPUWorker as Worker
else:
    from vllm.v1.worker.gpu_worker import Worker


class MarsWorker(Worker):
    """A worker for `--worker-cls`."""

    def init_device(self) -> None:
        """Raise a `ValueError` if the plugin does not support this version of vLLM or these settings."""
        config = self.vllm_config
        runner, method = ("V2", "ngram") if config.use_v2_model_runner else ("V1", "custom_class")
        needs = {
            "vLLM 0.32 or 0.33": __version__.startswith(("0.32.", "0.33.")),
            f"the method {method} on Model Runner {runner}": config.speculative_config.method == method,
            "--no-async-scheduling": not config.scheduler_config.async_scheduling,
            "raw log probabilities": config.model_config.logprobs_mode.startswith("raw"),
        }
        if missing := [need for need, holds in needs.items() if not holds]:
            raise ValueError(f"The MARS plugin needs {' and '.join(missing)}.")
        super().init_device()

    def load_model(self, **options) -> None:
        """Replace the samplers, which exist from here on, on the last rank of a pipeline."""
        super().load_model(**options)
        if self.vllm_config.use_v2_model_runner:
            from mars_demo.vllm.v2 import replace_speculator as replace
        else:
            from mars_demo.vllm.sampler import replace_samplers as replace
        if get_pp_group().is_last_rank:
            replace(self.model_runner, Server.of(self.vllm_config))
