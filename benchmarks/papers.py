"""Every preset of the five papers at smoke scale: what its study and its tables and figures cost, and what is missing.

    python benchmarks/papers.py [PRESET ...] [--photos FOLDER] [--keep FOLDER]

CPU seconds of `karenina study run PRESET --scale smoke` and of `karenina study analyse`, one worker, and the outputs of
the paper that were made, of all that the preset measures enough for. Exit code 1 if one is missing or failed, or if
the CPU seconds would not fit three minutes of two cores. Without photographs, renderings of Shapes3D stand for them.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import karenina
from karenina.papers import items, paper_of
from karenina.studies.plan import presets

MOST = 2 * 180.0  # CPU seconds: three minutes of two cores
NAMES = [name for name in presets() if len(items()[paper_of(f"{name} at smoke scale") or ""]) > 1]
# What a study of photographs, which have no labels, has nothing for.
UNLABELLED = 11


def cpu_seconds(words: list[str], env: dict[str, str]) -> tuple[float, str]:
    """CPU seconds of a command and its children, and what it said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "karenina", *words], env=env, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n")
        raise SystemExit(1)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def renderings(folder: Path, count: int = 300) -> None:
    folder.mkdir(parents=True)
    images, _ = karenina.load("shapes3d").sample(count, np.random.default_rng(0))
    for i, image in enumerate(images):
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"{i:03d}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", default=NAMES, metavar="PRESET")
    parser.add_argument("--photos", type=Path, help="a data folder with a folder called photos")
    parser.add_argument("--keep", type=Path, help="where the studies stay; otherwise they are removed")
    given = parser.parse_args()
    failed = False
    print("| preset | study, CPU s | tables and figures, CPU s | made | left out |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        photos = given.photos or Path(scratch) / "data"
        if "duan2020_photos" in given.presets and given.photos is None:
            renderings(photos / "photos")
        env = {**os.environ, "KARENINA_DATA": str(photos), "OMP_NUM_THREADS": "1"}
        for name in given.presets:
            study = str((given.keep or Path(scratch)) / name)
            paper = paper_of(f"{name} at smoke scale") or ""
            run, _ = cpu_seconds(["study", "run", name, "--scale", "smoke", "--out", study, "--workers", "1"], env)
            analyse, said = cpu_seconds(["study", "analyse", study], env)
            ours = said[said.index(f"\n{paper}:") :].splitlines()
            missing = [line.split(":")[0] for line in ours if ": left out" in line]
            allowed = UNLABELLED if name == "duan2020_photos" else 0
            failed |= len(missing) > allowed or run + analyse > MOST
            made = len(items()[paper]) - len(missing)
            print(f"| {name} | {run:.0f} | {analyse:.0f} | {made} | {', '.join(missing)} |", flush=True)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
