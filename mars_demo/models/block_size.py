"""The training settings of a checkpoint: block size, mask token and objective."""

import re

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from mars_demo.core.modes import objectives


def settle(
    config: PreTrainedConfig,
    tokenizer: PreTrainedTokenizerBase,
    label: str,
    published: bool = False,
    block_size: int | None = None,
) -> None:
    """Write a checkpoint's block size, mask token and objective into its config, where `wrap` reads them.

    label: the checkpoint's own name, such as `MARS-Qwen2.5-0.5B-blk8`. The names of the paper's checkpoints
        contain settings that their configs lack.
    published: whether it is one of the paper's checkpoints.
    block_size: overrides its files and its name; 0 stands for an ordinary AR model.

    Raises:
        ValueError: if the block size is unknown or contradictory, or if block size, mask token or objective
            is invalid.
    """
    if block_size is None:
        block_size = _read(config, tokenizer, label, published)
    if block_size is None or block_size == 0 and type(block_size) is int:
        if hasattr(config, "block_size"):
            config.block_size = None
        return
    if getattr(config, "mask_token_id", None) is None:
        config.mask_token_id = tokenizer.mask_token_id
    config.block_size = block_size
    _check(config)
    if not hasattr(config, "objective"):
        config.objective = "block-diffusion" if published and "BD3LM" in label else "mars"
    if config.objective not in objectives():
        raise ValueError(
            f"its config has the unknown objective {config.objective!r}. Choose from "
            f"{', '.join(objectives())}."
        )


def _read(
    config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, label: str, published: bool
) -> object:
    """Return the unchecked block size from name and config, which must agree; None for an AR model."""
    in_config, match = getattr(config, "block_size", None), re.search(r"-blk(\d+)", label)
    in_name = int(match[1]) if match else None
    if in_config is not None:
        if in_name not in (None, in_config):
            raise ValueError(
                f"its name gives {in_name} masks per block, but its config {in_config!r}. "
                "Pass the right one with --block-size N."
            )
        return in_config
    if not published:
        return None
    if in_name is None and tokenizer.mask_token_id is not None and "AR-SFT" not in label:
        raise ValueError(
            "neither its name nor its config gives the number of masks per block. "
            "Pass --block-size N, or --block-size 0 if it was trained without masks."
        )
    return in_name


def _check(config: PreTrainedConfig) -> None:
    block_size, mask_id = config.block_size, config.mask_token_id
    most = config.max_position_embeddings - 1
    if type(block_size) is not int or not 1 <= block_size <= most:
        raise ValueError(f"its block size must be a whole number from 1 to {most}, not {block_size!r}.")
    if mask_id is None:
        raise ValueError(f"it has no mask token, which a block size of {block_size} needs.")
    if type(mask_id) is not int or not 0 <= mask_id < config.vocab_size:
        raise ValueError(
            f"its mask token id {mask_id!r} is not in its vocabulary of {config.vocab_size} tokens."
        )
