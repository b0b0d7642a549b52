"""A worker process: reads models from its input, one a line, and answers with what became of each.

A process of its own rather than multiprocessing: it has one thread from the first import on, it needs nothing of the
caller's main module, and it stops when the process that started it is gone, however that ended.
"""

import json
import os
import queue
import signal
import sys
import threading
from dataclasses import asdict

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started us
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not look like an answer
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()

    import torch

    from karenina.studies.execution.task import execute
    from karenina.studies.plan.plan import Point, Scoring

    torch.set_num_threads(1)
    while True:
        task = json.loads(lines.get())
        metrics = task["scoring"]["metrics"]
        scoring = Scoring(**{**task["scoring"], "metrics": None if metrics is None else tuple(metrics)})
        outcome = execute(task["study"], Point.from_json(task["point"]), scoring, task["checkpoint_seconds"])
        print(json.dumps(asdict(outcome)), file=answers, flush=True)


def _listen(lines: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)  # the input is closed: whatever is unfinished continues from its checkpoint another time


if __name__ == "__main__":
    main()
