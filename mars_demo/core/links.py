"""The links that pages and cards share."""

PAPER = "https://arxiv.org/abs/2604.07023"  # in a card, it puts a model or a Space on the paper's page
LICENCE = "https://www.apache.org/licenses/LICENSE-2.0"
