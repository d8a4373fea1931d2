"""The model `mars_demo` of the lm-evaluation-harness."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs, postprocess_generated_text
from tqdm import tqdm

from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.evaluation.harness.generated import Generated, speed
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.messages import Encoded
from mars_demo.models.names import DENSE
from mars_demo.serving.decode_batch import finished, fitted

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

DRAWN = ("temperature", "top_p", "top_k")  # of a task's generation settings, those of `Sampling`
BATCH = 8


@register_model("mars_demo")
class MarsLM(HFLM):
    """A checkpoint of this project, decoded in any of its modes.

    Texts are scored, and prompts rendered and tokenized, by the harness's own `hf` model: without its masks
    a MARS model is an ordinary causal one. Answers are generated here, in batches.

    pretrained: a bundled name, a folder, a GGUF file or a hub id; or a loaded checkpoint.
    mode, tau, criterion, window: as in `decoding.request.Request`.
    block_size: masks per block it was trained with, where it does not say so itself.
    dtype: one of `names.DENSE`; auto as `load_checkpoint` chooses for models that decode in batches.
    batch_size: sequences of a batch; `auto` only measures how many texts can be scored at once.
    max_length: positions of prompt and answer together; longer prompts lose their beginning.
    seed: of the samples, for tasks that ask for sampling.

    Raises:
        ValueError: in one sentence, if the checkpoint cannot be loaded or cannot do what is asked.
    """

    def __init__(
        self,
        pretrained: str | Checkpoint | None = None,
        mode: str | None = None,
        tau: float = 0.95,
        criterion: str = "probability",
        window: int | None = None,
        block_size: int | None = None,
        dtype: str = "auto",
        device: str | None = None,
        batch_size: int | str = BATCH,
        max_batch_size: int | None = 64,
        max_length: int | None = None,
        add_bos_token: bool | None = None,
        seed: int = 0,
    ):
        request = Request(mode, float(tau), criterion, window)
        self.checkpoint = checkpoint = _loaded(pretrained, device, dtype, block_size).dense
        super().__init__(
            pretrained=checkpoint.model,
            tokenizer=checkpoint.tokenizer,
            backend="causal",
            batch_size=batch_size,
            max_batch_size=max_batch_size,
            max_length=max_length or checkpoint.context,
            add_bos_token=add_bos_token,
        )
        self.rows = int(batch_size) if str(batch_size).isdigit() else BATCH
        self.request = fitted(checkpoint, request, self.rows)
        self.seed = seed
        self._answers: dict[str | None, list[Generated]] = defaultdict(list)  # made here, by task

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[Generated]:
        """Answer each request's prompt, up to its stop string, as the `hf` model does.

        Raises:
            ValueError: if a task asks for unsupported generation, or for more tokens than the context has.
        """
        asked = [
            self._asked(*request.args, seed=self.seed + number) for number, request in enumerate(requests)
        ]
        # The longest first, so that sequences of about the same length share their forwards.
        order = sorted(range(len(asked)), key=lambda number: -len(asked[number][0].ids))
        found: dict[int, Generated] = {}
        runs = finished(self.checkpoint, [asked[number] for number in order], self.rows)
        title = "Running generate_until requests"
        for place, run in tqdm(runs, title, total=len(asked), disable=disable_tqdm):
            number = order[place]
            request, stops = requests[number], asked[number][1].stop_strings
            text = postprocess_generated_text(self.tok_decode(run.token_ids), list(stops), None)
            found[number] = answer = Generated(text, run.tokens, run.forwards)
            self._answers[request.task_name].append(answer)
            self.cache_hook.add_partial("generate_until", request.args, answer)
        return [found[number] for number in range(len(asked))]

    def _asked(self, context: str, settings: dict, seed: int) -> tuple[Encoded, Request]:
        """Return a prompt of the harness, and its settings as a request."""
        settings = dict(normalize_gen_kwargs(settings, self.max_gen_toks))
        eos = self.tok_decode(self.eot_token_id, skip_special_tokens=False)
        stops = [stop for stop in handle_stop_sequences(settings.pop("until"), eos) if stop]
        most = settings.pop("max_gen_toks")
        if most >= self.max_length:
            raise ValueError(
                f"A task asks for answers of up to {most} tokens, and {self.checkpoint.name} can read only "
                f"{self.max_length} with the prompt. Set max_gen_toks to less."
            )
        ids, _ = self.tok_batch_encode([context], left_truncate_len=self.max_length - most)
        sampling = _sampling(settings, seed)
        asked = {"max_new_tokens": most, "stop_strings": tuple(stops), "sampling": sampling}
        prompt = Encoded(ids[0].tolist() or [self.prefix_token_id], context)
        return prompt, replace(self.request, **asked)

    def _loglikelihood_tokens(self, requests: Sequence, *args, **kwargs) -> list[tuple[float, bool]]:
        if "ar" not in self.checkpoint.modes:
            raise ValueError(
                f"{self.checkpoint.name} was trained for {self.checkpoint.objective} and gives a text no "
                "likelihood token by token. Choose tasks that generate."
            )
        return super()._loglikelihood_tokens(requests, *args, **kwargs)

    def get_model_info(self) -> dict[str, Any]:
        """Return what the harness writes into its results; speeds are of answers not from its cache."""
        counted = {task: speed(answers) for task, answers in self._answers.items()}
        return {
            "model_num_parameters": self.model.num_parameters(),
            "model_dtype": self.checkpoint.precision,
            **self.settings,
            "speed": {task: found.record() for task, found in counted.items()},
        }

    @property
    def settings(self) -> dict[str, Any]:
        """Return how answers are decoded."""
        request = self.request
        return {
            "mode": request.mode,
            "tau": request.acceptance.threshold(),
            "criterion": request.criterion,
            "window": request.window,
        }


def _loaded(
    pretrained: str | Checkpoint | None, device: str | None, dtype: str, block_size: int | None
) -> Checkpoint:
    if isinstance(pretrained, Checkpoint):
        return pretrained
    if dtype not in DENSE:
        raise ValueError(f"Batches cannot decode in {dtype!r}. Choose from {', '.join(DENSE)}.")
    if device and device.startswith("cuda") and not torch.cuda.is_available():
        device = None  # the harness names a GPU where nobody has
    return load_checkpoint(pretrained, device, dtype, block_size).dense


def _sampling(settings: Mapping[str, Any], seed: int) -> Sampling | None:
    """Return how a task's tokens are sampled; None for greedy decoding."""
    if unknown := settings.keys() - {"do_sample", *DRAWN}:
        raise ValueError(
            f"A task asks for generation with {', '.join(sorted(unknown))}, which is not supported. Choose "
            f"from until, max_gen_toks, do_sample, {', '.join(DRAWN)}."
        )
    if not settings["do_sample"]:
        return None
    return Sampling(**{name: settings[name] for name in DRAWN if name in settings}, seed=seed)
