"""transformers' own greedy decoding, which this project's answers are held against."""

import torch

from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint


def generate(checkpoint: Checkpoint, prompt: str | list[int], count: int) -> list[int]:
    """The tokens that answer a prompt, or that continue the ids of one; at most `count`."""
    ids = encode_prompt(checkpoint.tokenizer, prompt) if isinstance(prompt, str) else prompt
    given = torch.tensor([ids])
    output = checkpoint.model.generate(
        given,
        attention_mask=torch.ones_like(given),
        do_sample=False,
        max_new_tokens=count,
        eos_token_id=sorted(checkpoint.end_ids),
        pad_token_id=checkpoint.tokenizer.pad_token_id,
    )
    return output[0, given.shape[1] :].tolist()
