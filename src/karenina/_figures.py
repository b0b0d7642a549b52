"""The figure that everything here draws on."""

from typing import Any

from matplotlib.figure import Figure as MatplotlibFigure
from matplotlib.text import Text


class Figure(MatplotlibFigure):
    """A figure whose words are shown as they are. matplotlib would set what stands between two `$` as a formula, and
    fail where it is none: names of factors, data sets and runs are their owners' business."""

    def draw(self, renderer: Any) -> None:
        for text in self.findobj(Text):
            text.set_parse_math(False)  # type: ignore[attr-defined]
        super().draw(renderer)
