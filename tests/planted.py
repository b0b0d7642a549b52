"""Representations whose right scores are known, and the arrays of the reference."""

import json
from pathlib import Path

import numpy as np

REFERENCE = Path(__file__).resolve().parent / "reference"
# Codes that disentanglement_lib was run on.
CASES = ("identity", "perm_dead_noise", "rot45_xy", "noisy_0.1", "duplicated", "random", "zeros")


def labels(n, sizes, seed=0):
    """Independent categorical factors, uniform on 0..size-1: (n, k)."""
    return np.random.default_rng(seed).integers(sizes, size=(n, len(sizes)))


def uniform(n, k, seed=0):
    """Independent continuous factors, uniform on [0, 1): (n, k)."""
    return np.random.default_rng(seed).uniform(size=(n, k))


def grid(*sizes, repeat=1):
    """Every combination of factor values, each `repeat` times: exactly independent factors."""
    return np.repeat(np.indices(sizes).reshape(len(sizes), -1).T, repeat, axis=0)


def rotation(d, seed=0):
    """A random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


def identity(factors):
    return factors.astype(float)


def constant(factors):
    return np.zeros(factors.shape)


def duplicated(factors):
    return np.hstack([factors, factors]).astype(float)


def rotated(factors, seed=0):
    """Nothing is lost, but no code stands for a factor."""
    centred = factors - factors.mean(axis=0)
    return centred / centred.std(axis=0) @ rotation(factors.shape[1], seed)


def permuted(factors, seed=0):
    """In another order, each with another sign, scale and offset."""
    rng = np.random.default_rng(seed)
    k = factors.shape[1]
    return factors[:, rng.permutation(k)] * rng.choice([-1.0, 1.0], k) * rng.uniform(0.1, 10, k) + rng.normal(size=k)


def noise(factors, codes=None, seed=1):
    return np.random.default_rng(seed).normal(size=(len(factors), codes or factors.shape[1]))


def table_one(rows=20_000):
    """Carbonneau et al. (2022), section 5.4: codes and angles that are modular but not compact."""
    angles = 2 * np.pi * uniform(rows, 4)
    return {
        "cos, sin": (np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(rows, -1), angles),
        "twice": (np.repeat(angles, 2, axis=1), angles),
        "four times": (np.repeat(angles[:, :2], 4, axis=1), angles[:, :2]),
    }


def reference(case):
    """Codes and factors (10,000 rows), and other codes and factors to test on."""
    with np.load(REFERENCE / f"codes_{case}.npz") as codes, np.load(REFERENCE / "factors.npz") as factors:
        return (codes["codes_train"], factors["factors_train"]), (codes["codes_test"], factors["factors_test"])


def published(case, kind="arrays"):
    """What disentanglement_lib gives for these codes, or with kind "sampling" for its metrics that draw batches."""
    return json.loads((REFERENCE / f"disentanglement_lib_{kind}.json").read_text())[case]
