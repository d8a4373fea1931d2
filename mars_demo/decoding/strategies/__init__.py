"""The strategies: one module each, with a generator function `strategy`; `modes.MODES` names them."""
