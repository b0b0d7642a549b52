"""numba's njit for a package that may be installed where nothing can be written. Importing this imports numba."""

import contextlib
from collections.abc import Callable
from typing import Any

import numba


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit(**options)`, where cache=True keeps compiled code on disk if there is a place for it.

    numba refuses to define a cached function where neither the package nor the user's cache folder can be written, as
    in many containers. There each process compiles anew, unless the variable NUMBA_CACHE_DIR names another folder. So
    it does where the disk is full, which numba would make an error of the first call.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            found = numba.njit(**options)(function)
        except RuntimeError:  # no place for the cache
            return numba.njit(**{**options, "cache": False})(function)
        keep = found._cache.save_overload

        def save(*args: Any) -> None:
            with contextlib.suppress(OSError):
                keep(*args)

        found._cache.save_overload = save
        return found

    return compiled
