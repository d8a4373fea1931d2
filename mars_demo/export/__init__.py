"""What a checkpoint folder holds besides its weights: the decoder, the model card, the licence."""

from pathlib import Path

LICENSE = Path(__file__).with_name("LICENSE-APACHE-2.0.txt")  # of models whose base has it
