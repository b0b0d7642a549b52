"""numba's njit for a package that is imported quickly, and may be installed where nothing can be written."""

import contextlib
from collections.abc import Callable
from typing import Any


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return what makes a function one that numba compiles when it is first called: numba is imported only then.

    options: of `numba.njit`, where cache=True keeps compiled code on disk if there is a place for it.
    """
    return lambda function: Compiled(function, options)


class Compiled:
    """A function that is compiled on its first call, with those that it calls."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        self.function, self.options = function, options
        self.__doc__, self.__name__, self.__module__ = function.__doc__, function.__name__, function.__module__
        self._found: Any = None

    def __call__(self, *args: Any) -> Any:
        return self.dispatcher(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    @property
    def dispatcher(self) -> Any:
        """Return what numba makes of the function. Compiled functions among its globals become theirs, as it needs
        them.
        """
        if self._found is None:
            self._found = _dispatcher(self.function, self.options)
            known = self.function.__globals__
            for name, value in list(known.items()):
                if isinstance(value, Compiled):
                    known[name] = value.dispatcher
        return self._found


def _dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return `numba.njit(**options)(function)`, whatever the disk.

    numba refuses to define a cached function where neither the package nor the user's cache folder can be written, as
    in many containers. There each process compiles anew, unless the variable NUMBA_CACHE_DIR names another folder. So
    it does where the disk is full, which numba would make an error of the first call.
    """
    import numba

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
