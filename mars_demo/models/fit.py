"""Whether weights fit the model that their config describes."""

from __future__ import annotations

from collections.abc import Collection


def require_fit(missing: Collection[str], misshapen: Collection[str], unexpected: Collection[str]) -> None:
    """Refuse weights that do not fit the model their config describes. Missing tensors would be random, and
    unexpected ones, such as an extra layer or a bias, would be dropped silently.

    Raises:
        ValueError: if any name is given.
    """
    troubles = {
        "lack {} of the tensors that its config needs": missing,
        "hold {} of the tensors in another shape than its config says": misshapen,
        "hold tensors that its config has no place for, {} in all": unexpected,
    }
    for trouble, names in troubles.items():
        if names:
            first = [*sorted(names)[:3], *(["…"] if len(names) > 3 else [])]
            raise ValueError(f"its weights {trouble.format(len(names))}: {', '.join(first)}.")
