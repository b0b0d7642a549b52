"""The figure that everything here draws on. Importing it loads matplotlib."""

from typing import Any

from karenina._plugins import extras

with extras():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as MatplotlibFigure
    from matplotlib.text import Text


DPI = 300  # fit to print
MARGIN = 0.04  # inches


class Figure(MatplotlibFigure):
    """A figure whose words are shown as they are. matplotlib would set what stands between two `$` as a formula, and
    fail where it is none: names of factors, data sets and runs are their owners' business."""

    _plain = False  # Whether all its words are plain already, which holds while files are written.

    def draw(self, renderer: Any) -> None:
        """Draw the figure, its words as they are."""
        if not self._plain:
            self._no_formulas()
        super().draw(renderer)

    def savefig(self, *files: Any, dpi: float | None = None) -> None:  # type: ignore[override]
        """Write the figure to files, in the formats of their endings, large enough that no word is cut.

        What words need is found once for all files. matplotlib would draw everything twice for each of them.
        """
        dpi = DPI if dpi is None else dpi
        self._no_formulas()
        engine, before = self.get_layout_engine(), self.dpi
        self.dpi = dpi
        try:
            if engine is not None:
                engine.execute(self)
                self._no_formulas()  # The layout may have added ticks.
            box = self.get_tightbbox(FigureCanvasAgg(self).get_renderer()).padded(MARGIN)
            self.set_layout_engine(None)
            self._plain = True
            for file in files:
                super().savefig(file, dpi=dpi, bbox_inches=box)
        finally:
            self.dpi, self._plain = before, False
            self.set_layout_engine(engine)

    def _no_formulas(self) -> None:
        """Switch off the reading of text between two `$` as a formula."""
        for text in self.findobj(Text):
            text.set_parse_math(False)  # type: ignore[attr-defined]
