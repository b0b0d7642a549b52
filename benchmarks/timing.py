"""CPU time of one call."""

import time
from collections.abc import Callable
from typing import Any


def cpu_seconds(call: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[float, Any]:
    """CPU seconds of call(*arguments, **options), and what it returned."""
    start = time.process_time()
    found = call(*arguments, **options)
    return time.process_time() - start, found
