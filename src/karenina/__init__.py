"""Karenina trains representations meant to be disentangled, measures whether they are, and chooses the best of many.

>>> import karenina
>>> data = karenina.load("blobs")
>>> data.factor_names
('background', 'x', 'y', 'radius')
"""

from karenina._plugins import lazy_package
from karenina._version import __version__ as __version__

# Loaded on first use, so that `import karenina` is instant and the metrics never pull in torch.
__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)
