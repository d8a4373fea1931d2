"""Requests with the costs of forwards on this machine, measured at a model's first use."""

from dataclasses import replace

from mars_demo.cli.output import notice
from mars_demo.decoding import costs


def paced(request, checkpoint):
    """Return the request with the costs of forwards, if they can set its window.

    The costs are loaded, or measured in about two seconds and saved.

    Raises:
        ValueError: as `Request.fitted`.
    """
    rules = request.fitted(checkpoint).rules
    if request.window or not rules.paced or not costs.is_measurable(checkpoint) or costs.folder() is None:
        return request
    measured = costs.load(checkpoint)
    if measured is None:
        notice(f"Measuring the cost of forwards of {checkpoint.name} on this machine, once.")
        if measured := costs.measure(checkpoint):
            costs.save(checkpoint, measured)
    return replace(request, costs=measured)
