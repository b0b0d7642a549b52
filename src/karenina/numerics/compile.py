"""numba's njit for a package that may be installed where nothing can be written. Importing this imports numba."""

from collections.abc import Callable
from typing import Any

import numba


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit(**options)`, where cache=True keeps compiled code on disk if there is a place for it.

    numba refuses to define a cached function where neither the package nor the user's cache folder can be written, as
    in many containers. There each process compiles anew, unless the variable NUMBA_CACHE_DIR names another folder.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(**options)(function)
        except RuntimeError:  # no place for the cache
            return numba.njit(**{**options, "cache": False})(function)

    return compiled
