"""A random batch of 64 as a float tensor: ours against one image at a time, in the same run; time to load; memory.

One process a data set. CPU time of one core; "load" is wall time from a fresh Python to the first image, the import of
karenina included.
"""

import resource
import subprocess
import sys
import time

NAMES = ("blobs", "dsprites", "color_dsprites", "noisy_dsprites", "shapes3d", "teapots")
FIRST_IMAGE = """
import time; start = time.perf_counter()
import karenina
karenina.load({name!r}).sample(1, 0)
print(time.perf_counter() - start)
"""


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str) -> None:
    load = float(subprocess.check_output([sys.executable, "-c", FIRST_IMAGE.format(name=name)]))

    import numpy as np
    import torch

    import karenina

    torch.set_num_threads(1)
    before = peak_megabytes()
    rng = np.random.default_rng(0)
    data = karenina.load(name)

    def batch() -> torch.Tensor:
        images, _ = data.sample(64, rng)
        return torch.from_numpy(images).float().div_(255)

    def one_by_one() -> torch.Tensor:
        rows = data.factors.sample(64, rng)
        return torch.cat([torch.from_numpy(data.images(row, rng)).float().div_(255) for row in rows])

    times: dict[str, list[float]] = {"batch": [], "one_by_one": []}
    for call, repeats in ((batch, 200), (one_by_one, 10)):
        call()
        for _ in range(repeats):
            start = time.process_time()
            call()
            times[call.__name__].append(time.process_time() - start)
    ours, naive = (1000 * float(np.median(seconds)) for seconds in times.values())
    memory = peak_megabytes() - before
    print(f"{name:16}{load:8.2f}{ours:10.3f}{naive:14.2f}{naive / ours:9.1f}x{memory:8.0f}", flush=True)


def measure_part() -> None:
    """Small teapots of a part: drawn anew, as before half of them have been asked for, against kept ones."""
    import numpy as np

    import karenina
    from karenina.data.resized import shrink

    data, large = karenina.load("teapots:part=test,side=16"), karenina.load("teapots:part=test")
    for seed in range(2):  # the second finds half of them made, and keeps all
        data.sample(len(data) // 2, seed)
    times: dict[str, list[float]] = {"anew": [], "kept": []}
    for seed in range(20):
        start = time.process_time()
        anew = shrink(large.sample(64, seed)[0], 16)
        middle = time.process_time()
        kept = data.sample(64, seed)[0]
        times["anew"].append(middle - start)
        times["kept"].append(time.process_time() - middle)
        assert np.array_equal(anew, kept)
    naive, ours = (1000 * float(np.median(seconds)) for seconds in times.values())
    print(f"64 teapots of part=test, side=16: anew {naive:.2f} ms, kept {ours:.3f} ms, {naive / ours:.0f}x")


if __name__ == "__main__":
    if sys.argv[1:] == ["part"]:
        measure_part()
    elif len(sys.argv) > 1:
        measure(sys.argv[1])
    else:
        print(f"{'data set':16}{'load s':>8}{'batch ms':>10}{'one by one ms':>14}{'ratio':>10}{'MB':>8}", flush=True)
        for name in NAMES:
            subprocess.run([sys.executable, __file__, name], check=True)
        measure_part()
