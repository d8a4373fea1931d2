"""The worker: vLLM's own, with the samplers of MARS."""

from vllm import __version__
from vllm.platforms import current_platform

from mars_demo.vllm.arguments import Server

if current_platform.is_cpu():
    from vllm.v1.worker.cpu_worker import CPUWorker as Worker
else:
    from vllm.v1.worker.gpu_worker import Worker


class MarsWorker(Worker):
    """A worker for `--worker-cls`; its start fails as `check_settings` does."""

    def init_device(self) -> None:
        """Check the settings, since a runner fails on a method that it does not know."""
        check_settings(self.vllm_config, __version__)
        super().init_device()

    def load_model(self, **options) -> None:
        """Replace the samplers, which exist from here on."""
        super().load_model(**options)
        if self.vllm_config.use_v2_model_runner:
            from mars_demo.vllm.v2 import replace_speculator as replace
        else:
            from mars_demo.vllm.sampler import replace_samplers as replace
        replace(self.model_runner, Server.of(self.vllm_config))


def check_settings(config, version: str) -> None:
    """Raise a `ValueError` if the plugin does not support this version of vLLM or these settings."""
    runner, method = ("V2", "ngram") if config.use_v2_model_runner else ("V1", "custom_class")
    if not version.startswith(("0.32.", "0.33.")):
        raise ValueError(f"The MARS plugin supports vLLM 0.32 and 0.33, not {version}.")
    if config.speculative_config.method != method:
        raise ValueError(f"The MARS plugin needs the speculative method {method} on Model Runner {runner}.")
    if config.scheduler_config.async_scheduling or not config.model_config.logprobs_mode.startswith("raw"):
        raise ValueError("The MARS plugin needs --no-async-scheduling, and raw log probabilities.")
