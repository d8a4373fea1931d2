"""A model's AR prediction for one token of a recorded answer."""

from dataclasses import dataclass

import torch

from mars_demo.core.layout import causal
from mars_demo.core.scheduler import SCHEDULER
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import encoded
from mars_demo.decoding.prefill import prefill
from mars_demo.decoding.reading import ALTERNATIVES, most_probable
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.runtime.engine import Engine


@dataclass(frozen=True)
class Prediction:
    """A model's prediction for one token of an answer, given the text before it."""

    probability: float  # of that token
    rank: int  # of that token; 1 if it is the most probable one
    top: list[tuple[str, float]]  # text and probability of the most probable tokens, best first


@torch.inference_mode()
def predict(checkpoint: Checkpoint, run: Run, at: int) -> Prediction:
    """Return the model's AR prediction for the answer's token `at`.

    Raises:
        ValueError: if the answer has no token `at`, or the text does not fit the model.
    """
    answer, size = run.token_ids, checkpoint.model.get_input_embeddings().num_embeddings
    if not 0 <= at < len(answer):
        raise ValueError(f"The answer has no token {at + 1}; it ends after {len(answer)}.")
    if not all(0 <= token < size for token in answer):
        raise ValueError(f"This record has tokens that are not in {checkpoint.name}'s vocabulary.")
    ids = [*encoded(checkpoint, run.settings.conversation, run.settings.raw), *answer[:at]]
    if len(ids) >= checkpoint.context:
        raise ValueError(
            f"{checkpoint.name} can read at most {checkpoint.context - 1} tokens, not {len(ids)}."
        )
    engine = Engine(checkpoint.decoder)
    for _ in prefill(engine, ids):
        pass
    with SCHEDULER.turn():
        rest = causal(ids[engine.length :], engine.length)
        logits = engine.forward(rest, rest.ids.shape[1] - 1)
        p = logits.softmax(-1)[0].cpu()
    best = most_probable(p[None], min(ALTERNATIVES, len(p)))[0].tolist()
    token = p[answer[at]]
    return Prediction(
        probability=token.item(),
        rank=1 + int((p > token).sum()),
        top=[(checkpoint.token_name(id), p[id].item()) for id in best],
    )
