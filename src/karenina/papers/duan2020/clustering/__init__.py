"""The clustering task and study: does a better representation make an agent learn faster? (Duan et al. 2020, A.8)."""

from karenina._plugins import lazy_modules

__getattr__ = lazy_modules(__name__)
