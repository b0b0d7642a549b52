"""Numbers and decoded images -> charts and pictures, for files, pages and notebooks."""

from karenina._plugins import lazy_modules

__getattr__ = lazy_modules(__name__)
