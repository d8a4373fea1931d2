"""Export of checkpoints with decoder and model card, and of the app as a Space."""

from mars_demo.assets import ASSETS

LICENSE = ASSETS.parent / "LICENSE"  # Apache 2.0, also of models whose base has it
