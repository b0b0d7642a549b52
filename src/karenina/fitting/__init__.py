"""Images without labels -> a population of models, the one to take, and how sure that is: `karenina.fit`."""

from karenina._plugins import lazy_modules

__getattr__ = lazy_modules(__name__)
