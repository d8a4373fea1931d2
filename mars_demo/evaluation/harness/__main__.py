"""The harness's command line, `python -m mars_demo.evaluation.harness`, with the model `mars_demo`."""

from lm_eval.__main__ import cli_evaluate

from mars_demo.evaluation.harness import model  # noqa: F401  registers it

cli_evaluate()
