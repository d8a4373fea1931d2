"""MARS decoding for plain transformers: `model.generate(..., custom_generate=..., trust_remote_code=True)`.

It needs `layout.py`, `decoder.py`, `engine.py` and `acceptance.py` in the same folder, torch and
transformers.
"""

import torch

from .acceptance import TAU, Acceptance, accepted, several
from .decoder import TransformersDecoder
from .engine import Engine
from .layout import window as window_layout


@torch.inference_mode()
def generate(
    model,
    input_ids=None,
    inputs=None,
    generation_config=None,
    streamer=None,
    tau=TAU,
    window=None,
    criterion="probability",
    **kwargs,
):
    """Decode one sequence greedily, with several tokens per forward.

    Tokens of the window are accepted from the left while their score is at least `tau`; the first one is
    always accepted. With `tau` = 1 this is ordinary greedy decoding. `criterion` is the scoring of tokens,
    see `acceptance.py`. `window` is the number of slots per forward, at most block size + 1. Only
    `max_new_tokens`, `max_length` and `eos_token_id` of the generation config and the keyword arguments are
    used. A streamer with `put_draft`, such as transformers' `TextDiffusionStreamer`, also gets the rejected
    guesses of each forward.

    Returns:
        Token ids [1, n], including the prompt.
    """
    input_ids = inputs if input_ids is None else input_ids
    config = model.config
    mask_id, block_size = getattr(config, "mask_token_id", None), getattr(config, "block_size", None)
    if mask_id is None or block_size is None:
        raise ValueError(
            "This model was not trained for MARS: its config lacks block_size or mask_token_id."
        )
    if input_ids is None or input_ids.shape[0] != 1:
        raise ValueError("MARS decodes one sequence at a time: input_ids must have the shape [1, n].")
    rule = Acceptance(criterion, tau)
    window = block_size + 1 if window is None else window
    if not 1 <= window <= block_size + 1:
        raise ValueError(f"The window must have 1 to {block_size + 1} slots, not {window}.")
    limit, ends = _limits(model, generation_config, kwargs, input_ids.shape[1])

    engine, new, answer = Engine(TransformersDecoder(model)), input_ids[0].tolist(), []
    if streamer is not None:
        streamer.put(input_ids.cpu())
    while len(answer) < limit and not (answer and answer[-1] in ends):
        masks = min(window, limit - len(answer)) - 1 if several(tau) else 0
        logits = engine.forward(window_layout(new, masks, mask_id, engine.length), first=len(new) - 1)
        engine.commit(len(new))
        best = logits.argmax(-1)
        # One transfer per forward; float32 represents token ids below 2²⁴ exactly.
        tokens, scores = torch.stack([best.float(), rule.scores(logits.softmax(-1), best)]).tolist()
        count = accepted(scores, tau)
        new = [int(token) for token in tokens[:count]]
        end = next((index for index, token in enumerate(new) if token in ends), len(new))
        new = new[: end + 1]
        answer += new
        _stream(streamer, new, best[count:])
    if streamer is not None:
        streamer.end()
    return torch.cat([input_ids, input_ids.new_tensor([answer])], dim=1)


def _stream(streamer, tokens, guesses):
    """Send a forward's accepted tokens to a streamer, if any, and its guesses to one that takes drafts."""
    if streamer is None:
        return
    for token in tokens:
        streamer.put(torch.tensor([token]))
    if len(guesses) and hasattr(streamer, "put_draft"):
        streamer.put_draft(guesses.cpu())


def _limits(model, generation_config, kwargs, prompt):
    sources = [kwargs, *(vars(c) for c in (generation_config, model.generation_config) if c is not None)]

    def first(name):
        return next((source[name] for source in sources if source.get(name) is not None), None)

    room = model.config.max_position_embeddings - prompt
    if first("max_new_tokens") is not None:
        room = min(room, first("max_new_tokens"))
    elif first("max_length") is not None:
        room = min(room, first("max_length") - prompt)
    ends = first("eos_token_id")
    return room, set(ends if isinstance(ends, list) else [] if ends is None else [ends])
