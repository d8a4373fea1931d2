"""The harness's command line, `python -m mars_demo.evaluation.harness`, with the model `mars_demo`."""

import sys

from lm_eval.__main__ import cli_evaluate

from mars_demo.evaluation.harness import model  # noqa: F401  registers it

try:
    cli_evaluate()
except (ValueError, OSError) as error:
    print(f"mars_demo benchmark: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(2)
