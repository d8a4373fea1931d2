"""AR's predictions for tokens on the stage."""

from dataclasses import asdict
from typing import Any

from mars_demo.core.trace import Run
from mars_demo.decoding.prediction import Prediction, predict
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.stage import read_one


def prediction(request: Any) -> dict[str, Any]:
    """Return AR's probability, rank and alternatives for token `at` of the answer in a `record`.

    Raises:
        ValueError: if there is no such token, or the model is not available.
    """
    record, at = (request.get("record"), request.get("at")) if isinstance(request, dict) else (None, None)
    if type(at) is not int:
        raise ValueError("There is no such token on the stage.")
    return asdict(_prediction(read_one(record), at))


@on_gpu(lambda run, at: seconds(1))
def _prediction(run: Run, at: int) -> Prediction:
    return predict(MODELS.load(run.settings.model), run, at)
