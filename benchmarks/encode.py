"""How much memory do 200,000 images take? Peak of `karenina encode` and of a look at the images by `karenina fit`.

python benchmarks/encode.py [--count 200000] [--write]

A folder of hard links to 500 colour PNGs of 48x40, which are decoded as often as they are linked. The naive way, all
codes and images in memory at once, is computed, not run.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from pages import markdown, write_part
from PIL import Image

import karenina

DISTINCT, SIZE = 500, (40, 48)


def make(folder: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    folder.mkdir()
    for i in range(DISTINCT):
        block = rng.integers(0, 256, (5, 6, 3), np.uint8)
        Image.fromarray(block).resize(SIZE[::-1], Image.Resampling.BICUBIC).save(folder / f"{i:07d}.png")
    for i in range(DISTINCT, count):
        os.link(folder / f"{i % DISTINCT:07d}.png", folder / f"{i:07d}.png")


def peak(*words: str) -> tuple[float, float]:
    """Gigabytes and seconds of a command in a process of its own."""
    began = time.perf_counter()
    code = "import resource, sys; from karenina.cli import main; sys.argv[0] = 'karenina'\ntry: main()\nfinally: "
    code += "print('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return int(done.stdout.split("PEAK")[1]) * 1024 / 1e9, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--write", action="store_true", help="into docs/fit.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        make(root / "images", given.count)
        noise = np.random.default_rng(0).integers(0, 256, (64, 3, 27, 32), np.uint8)
        karenina.train(noise, steps=2, network="mlp256", out=root / "run")
        images, out = str(root / "images"), str(root / "codes.parquet")
        encoded = peak("encode", str(root / "run"), images, "--out", out)
        fitted = peak("fit", images, "--out", str(root / "fit"), "--models", "2", "--steps", "20")
    naive = given.count * 3 * np.prod(SIZE) * 4 / 1e9
    rows = [["encode", *(f"{value:.2f}" for value in encoded)], ["fit, two models", *(f"{v:.2f}" for v in fitted)]]
    text = f"{given.count:,} colour PNGs of 48x40, peak memory; as floats at once they take {naive:.1f} GB:\n\n"
    text += markdown(["command", "GB", "seconds"], [[a, b, f"{float(c):.0f}"] for a, b, c in rows])
    print(text)
    print(f"({resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9:.2f} GB here)")
    if given.write:
        write_part("fit.md", "benchmarks/encode.py", text)


if __name__ == "__main__":
    main()
