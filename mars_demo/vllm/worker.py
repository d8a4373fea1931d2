"""The worker: vLLM's own, with the samplers of MARS."""

from mars_demo.vllm.sampler import MarsRejectionSampler, MarsSampler
from mars_demo.vllm.surface import Worker, check_surface


class MarsWorker(Worker):
    """A worker for `--worker-cls`; its start fails as `check` does."""

    def init_device(self) -> None:
        """Replace the samplers of the model runner."""
        super().init_device()
        check_surface(self.vllm_config, self.model_runner)
        runner = self.model_runner
        if hasattr(runner, "drafter"):  # only on the last rank of a pipeline
            runner.sampler = MarsSampler(runner, runner.drafter.server)
            runner.rejection_sampler = MarsRejectionSampler(runner, runner.drafter.server)
            runner.drafter.sampler = runner.rejection_sampler
