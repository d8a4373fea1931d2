"""A file per strategy, each with a generator function `strategy`; `modes.MODES` names them."""
