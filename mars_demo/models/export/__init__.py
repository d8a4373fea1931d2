"""Saving of checkpoints: weights, decoder, plugin for vLLM, and model card."""

from mars_demo.core.assets import ASSETS

LICENSE = ASSETS.parent / "LICENSE"  # Apache 2.0, also of models whose base has it
