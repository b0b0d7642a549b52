"""Pages that show a study, a run, or two runs side by side: karenina.pages.page and karenina.pages.compare."""

from karenina._plugins import lazy_modules

__getattr__ = lazy_modules(__name__)
