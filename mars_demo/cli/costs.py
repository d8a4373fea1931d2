"""A request with the costs of forwards on this machine, measured when a model is first used."""

from dataclasses import replace

from mars_demo.cli.output import notice


def paced(request, checkpoint):
    """The request with the checkpoint's costs, where they can decide on the window: those that are kept, or
    measured now if that takes about two seconds.

    Raises:
        ValueError: as `Request.fitted`.
    """
    from mars_demo.decoding import costs

    rules = request.fitted(checkpoint).rules
    if request.window or not rules.paced or not costs.is_measurable(checkpoint) or costs.folder() is None:
        return request
    found = costs.load(checkpoint)
    if found is None:
        notice(f"Measuring once what a forward of {checkpoint.name} costs here.")
        if found := costs.measure(checkpoint):
            costs.save(checkpoint, found)
    return replace(request, costs=found)
