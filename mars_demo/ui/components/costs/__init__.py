"""The costs: one component that divides tokens per forward by what a forward costs."""

from mars_demo.ui.components.drawing import Drawing


class CostCurves(Drawing):
    """Measured curves c(k) ÷ c(1) to choose from, and sliders for a forward's positions and its tokens.

    The value is JSON: the `curves`, each with its title, its source, c(k) ÷ c(1) for k from 1 on
    (`relative`) and the k that were measured (`points`), and where the sliders `start`: {positions,
    tokens}.
    """

    drawing = "costs"
