"""The model `mars_demo` of the lm-evaluation-harness."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs, postprocess_generated_text
from tqdm import tqdm

from mars_demo.core.acceptance import TAU
from mars_demo.core.messages import Encoded
from mars_demo.core.names import DENSE
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.serving.batch_sequence import fitted
from mars_demo.serving.decode_batch import finished

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

LOGGER = logging.getLogger("lm_eval.models.mars_demo")
# It warns about models that are loaded already.
logging.getLogger("lm_eval.models.huggingface").setLevel(logging.ERROR)

SAMPLING = ("temperature", "top_p", "top_k")  # generation settings that `Sampling` takes
BATCH = 8


@register_model("mars_demo")
class MarsLM(HFLM):
    """A checkpoint of this project, decoded in any of its modes.

    The harness's own `hf` model scores texts and renders and tokenizes prompts: without masks, a MARS model
    is an ordinary causal one. This class generates answers, in batches.

    pretrained: a bundled name, a folder, a GGUF file, a hub id, or a loaded checkpoint.
    mode, tau, criterion, window: as in `decoding.request.Request`.
    block_size: the block size of training, if the checkpoint does not say.
    device: None for the best one.
    dtype: one of `names.DENSE`; `auto` is the choice of `load_checkpoint` for batched decoding.
    batch_size: sequences of a batch; `auto` only applies to scoring texts.
    seed: the seed of tasks that sample.
    settings: further ones of the model `hf`. `max_length` counts the positions of prompt and answer
        together; longer prompts are truncated on the left.

    Raises:
        ValueError: if the checkpoint cannot be loaded or does not support the settings.
    """

    def __init__(
        self,
        pretrained: str | Checkpoint | None = None,
        mode: str | None = None,
        tau: float = TAU,
        criterion: str = "probability",
        window: int | None = None,
        block_size: int | None = None,
        dtype: str = "auto",
        device: str | None = None,
        batch_size: int | str = BATCH,
        seed: int = 0,
        **settings: Any,
    ):
        request = Request(mode, float(tau), criterion, window)
        self.checkpoint = checkpoint = _loaded(pretrained, device, dtype, block_size).dense
        super().__init__(
            pretrained=checkpoint.model,
            tokenizer=checkpoint.tokenizer,
            backend="causal",
            batch_size=batch_size,
            **{"max_length": checkpoint.context} | settings,
        )
        self.rows = int(batch_size) if str(batch_size).isdigit() else BATCH
        self.request = fitted(checkpoint, request, self.rows)
        self.seed = seed
        # The numbers of generated answers, their tokens and their forwards, by task.
        self.counts: dict[str | None, Counter] = defaultdict(Counter)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Answer each request's prompt, up to its stop string.

        Raises:
            ValueError: if a task needs unsupported settings, or more tokens than the context has.
        """
        prompts = [
            self._parsed(*request.args, seed=self.seed + number) for number, request in enumerate(requests)
        ]
        # The longest first, so that sequences of about the same length share their forwards.
        order = sorted(range(len(prompts)), key=lambda number: -len(prompts[number][0].ids))
        answers: dict[int, str] = {}
        runs = finished(self.checkpoint, [prompts[number] for number in order], self.rows)
        title = "Running generate_until requests"
        for index, run in tqdm(runs, title, total=len(order), disable=disable_tqdm):
            number = order[index]
            stops = list(prompts[number][1].stop_strings)
            answers[number] = postprocess_generated_text(self.tok_decode(run.token_ids), stops, None)
            self.cache_hook.add_partial("generate_until", requests[number].args, answers[number])
            counts = {"answers": 1, "tokens": run.tokens, "forwards": run.forwards}
            self.counts[requests[number].task_name].update(counts)
        for task, speed in self.speeds.items():
            LOGGER.info("%s: %.2f tokens per forward", task, speed["tokens_per_forward"])
        return [answers[number] for number in range(len(prompts))]

    def _parsed(self, context: str, settings: dict, seed: int) -> tuple[Encoded, Request]:
        """Return a prompt of the harness as ids, and its settings as a request."""
        settings = dict(normalize_gen_kwargs(settings, self.max_gen_toks))
        eos = self.tok_decode(self.eot_token_id, skip_special_tokens=False)
        stops = [stop for stop in handle_stop_sequences(settings.pop("until"), eos) if stop]
        most = settings.pop("max_gen_toks")
        if most >= self.max_length:
            raise ValueError(
                f"A task needs answers of up to {most} tokens, but prompt and answer of "
                f"{self.checkpoint.name} must fit into {self.max_length} tokens. Lower max_gen_toks."
            )
        ids, _ = self.tok_batch_encode([context], left_truncate_len=self.max_length - most)
        sampling = _sampling(settings, seed)
        limits = {"max_new_tokens": most, "stop_strings": tuple(stops), "sampling": sampling}
        prompt = Encoded(ids[0].tolist() or [self.prefix_token_id], context)
        return prompt, replace(self.request, **limits)

    def _loglikelihood_tokens(self, *args, **kwargs) -> list[tuple[float, bool]]:
        if "ar" not in self.checkpoint.modes:
            raise ValueError(
                f"{self.checkpoint.name}, trained for {self.checkpoint.objective}, cannot score texts. "
                "Choose tasks that generate."
            )
        return super()._loglikelihood_tokens(*args, **kwargs)

    def get_model_info(self) -> dict[str, Any]:
        """Return the fields for the harness's results."""
        request = self.request
        return {
            "model_num_parameters": self.model.num_parameters(),
            "model_dtype": self.checkpoint.precision,
            "mode": request.mode,
            "tau": request.acceptance.threshold(),
            "criterion": request.criterion,
            "window": request.window,
            "speed": self.speeds,
        }

    @property
    def speeds(self) -> dict[str | None, dict[str, float]]:
        """The totals of each task's answers, without those from the harness's cache."""
        return {
            task: {**counts, "tokens_per_forward": counts["tokens"] / counts["forwards"]}
            for task, counts in self.counts.items()
        }


def _loaded(
    pretrained: str | Checkpoint | None, device: str | None, dtype: str, block_size: int | None
) -> Checkpoint:
    if isinstance(pretrained, Checkpoint):
        return pretrained
    if dtype not in DENSE:
        raise ValueError(f"Batches cannot decode in {dtype!r}. Choose from {', '.join(DENSE)}.")
    if device and device.startswith("cuda") and not torch.cuda.is_available():
        device = None  # the harness's default, even without a GPU
    return load_checkpoint(pretrained, device, dtype, block_size).dense


def _sampling(settings: Mapping[str, Any], seed: int) -> Sampling | None:
    """Return the sampling settings of a task; None for greedy decoding."""
    if unknown := settings.keys() - {"do_sample", *SAMPLING}:
        raise ValueError(
            f"A task uses unsupported settings: {', '.join(sorted(unknown))}. Supported are until, "
            f"max_gen_toks, do_sample, {', '.join(SAMPLING)}."
        )
    if not settings["do_sample"]:
        return None
    return Sampling(**{name: settings[name] for name in SAMPLING if name in settings}, seed=seed)
