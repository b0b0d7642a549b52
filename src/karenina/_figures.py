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

    def savefig(self, fname: Any, **options: Any) -> None:
        """Write it fit to print: 300 dpi, and as large as its words need, so that none is cut however long it is."""
        super().savefig(fname, **{"dpi": 300, "bbox_inches": "tight", "pad_inches": 0.04, **options})
