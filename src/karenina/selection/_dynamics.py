"""Choice of a setting by the seed-to-seed stability of its training (Holtz et al. 2022, section 3).

Trace T (n epochs, m samples, p units): activations of one decoder layer for m fixed inputs, each encoded and decoded by
the network of that epoch. The multislice kernel of n m points,

    K[(t, i), (t, j)] = exp(-(|T(t, i) - T(t, j)| / sigma(t, i))^alpha)     within an epoch,
    K[(t, i), (u, i)] = exp(-|T(t, i) - T(u, i)|^2 / eps^2)                 along the path of a sample, else 0,

is symmetrised and row-normalised to P, and diffused to P^t. It is n dense (m, m) blocks plus m dense (n, n) ones, and
nothing here ever makes it a matrix: 11 MB instead of 288 at n = 30, m = 200.
"""

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from karenina.numerics.arrays import Floats, Ints
from karenina.numerics.checks import as_array
from karenina.numerics.gaussian import gaussian_sum
from karenina.selection._inputs import check_groups

# Components whose singular value is below this part of the first are rounding.
_RANK_TOL = 1e-6
_BANDWIDTH_POINTS = 2000


@dataclass(frozen=True, eq=False)
class Dynamics:
    """One score per group, higher is better: score = -mean MMD^2 between the joint embeddings of its seeds.

    groups (G): labels. scores (G,): NaN for a group that could not be compared. mean_mmd (G,): mean unbiased MMD^2;
    slightly below 0 when the seeds agree. pairwise: unbiased MMD^2 (S, S) of each group, its sign kept. embeddings:
    (S, n, m, rank) of each group, in the order of its traces; the two first components are the plane of the paper's
    figures 3 and 4.

    There is no p-value: exchanging samples' paths between seeds gives no null. After the joint embedding the points of
    a seed are already tied to one another; before it, a mixture of two networks' units is like neither of them.
    """

    groups: tuple[Hashable, ...]
    scores: Floats
    mean_mmd: Floats
    pairwise: tuple[Floats, ...]
    embeddings: tuple[Floats, ...]

    @property
    def order(self) -> Ints:
        """Return groups from best to worst, those without a score last."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def planes(self) -> tuple[Floats, ...]:
        """Return (S, n, m, 2) of each group, for plotting."""
        return tuple(embedding[..., :2] for embedding in self.embeddings)


@dataclass(frozen=True)
class RandomWalk:
    """The random walk P = D^-1 K' of one trace. within (n, m, m), along (m, n, n) with 0 on its diagonals."""

    within: Floats
    along: Floats
    degree: Floats  # (n, m)

    def _kernel(self, x: Floats) -> Floats:
        return self.within @ x + (self.along @ x.transpose(1, 0, 2)).transpose(1, 0, 2)

    def forward(self, x: Floats, steps: int) -> Floats:
        """Return P^steps x for x (n, m, b)."""
        for _ in range(steps):
            x = self._kernel(x) / self.degree[..., None]
        return x

    def backward(self, x: Floats, steps: int) -> Floats:
        """Return (P')^steps x for x (n, m, b)."""
        for _ in range(steps):
            x = self._kernel(x / self.degree[..., None])
        return x


def dynamics(
    traces: Sequence[ArrayLike] | NDArray[Any],
    groups: Sequence[Hashable] | NDArray[Any] | None = None,
    *,
    alpha: float = 2.0,
    neighbours: int | None = None,
    steps: int | None = None,
    rank: int = 10,
    normalise: bool = True,
    seed: int | np.random.Generator = 0,
) -> Dynamics:
    """Return the stability of training under a change of seed, for each group of traces (one setting, several seeds).

    Parameters
    ----------
    traces : arrays (n, m, p)
        n epochs (about 30, spaced by logarithm, with step 0), the same m samples for all (about 200), p units, which
        may differ between traces.
    groups : a label per trace
        None puts all into one group.
    alpha, neighbours : float, int
        Decay of the kernel within an epoch, and which neighbour's distance is its bandwidth (m / 10).
    steps : int
        Of diffusion; None takes a quarter of the epochs, 8 at 30. Scores compare only at the same number.
    rank : int
        Components of the joint embedding, after the first, which is nearly constant.
    normalise : bool
        Standardise the units of each (epoch, sample), which takes two units or more.
    seed : int or Generator
        Of the points whose median distance is the bandwidth of the MMD, when there are more than 2,000. With an int a
        group's score does not depend on the other groups.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> path = np.cumsum(rng.normal(size=(6, 20, 8)), axis=0)
    >>> steady = [path + 0.01 * rng.normal(size=path.shape) for _ in range(3)]
    >>> erratic = [np.cumsum(rng.normal(size=(6, 20, 8)), axis=0) for _ in range(3)]
    >>> found = dynamics([*steady, *erratic], ["a"] * 3 + ["b"] * 3)
    >>> found.groups[found.order[0]]
    'a'
    """
    arrays = [as_array(trace) for trace in traces]
    steps = _check(arrays, alpha, neighbours, steps, rank)
    members = check_groups(groups, len(arrays), "trace")
    if max(len(rows) for _, rows in members) < 2:
        raise ValueError("dynamics compares seeds of one setting: no group has two traces")
    found = []
    for label, rows in members:
        if len(rows) < 2:
            warnings.warn(f"group {label!r} has one trace and gets no score (NaN)", UserWarning, stacklevel=2)
            found.append((np.nan, np.full((1, 1), np.nan), np.empty((1, *arrays[rows[0]].shape[:2], 0))))
            continue
        options: Any = {"alpha": alpha, "neighbours": neighbours, "steps": steps, "rank": rank, "normalise": normalise}
        embedding = joint_embedding([arrays[i] for i in rows], **options)
        if embedding.shape[-1] == 0 or not any(np.ptp(_prepared(arrays[i], normalise), axis=1).any() for i in rows):
            how = "do not vary with the sample" + " once normalised" * normalise
            warnings.warn(f"traces of group {label!r} {how}; no score (NaN)", UserWarning, stacklevel=2)
            found.append((np.nan, np.full((len(rows), len(rows)), np.nan), embedding))
            continue
        pairwise = mmd(embedding, seed)
        found.append((float(pairwise[np.triu_indices(len(rows), 1)].mean()), pairwise, embedding))
    means = np.array([mean for mean, *_ in found])
    return Dynamics(
        tuple(label for label, _ in members),
        -means,
        means,
        tuple(pairwise for _, pairwise, _ in found),
        tuple(embedding for *_, embedding in found),
    )


def _check(traces: list[NDArray[Any]], alpha: float, neighbours: int | None, steps: int | None, rank: int) -> int:
    """Raise ValueError for what cannot be compared; return the number of steps of diffusion."""
    if not traces:
        raise ValueError("no traces given")
    for i, trace in enumerate(traces):
        if trace.ndim != 3 or trace.dtype.kind not in "fiub":
            raise ValueError(
                f"trace {i} must be numbers of shape (epochs, samples, units); got {trace.dtype} of shape {trace.shape}"
            )
        if trace.shape[:2] != traces[0].shape[:2]:
            raise ValueError(
                "all traces must have the same epochs and samples: "
                f"trace 0 has {traces[0].shape[:2]}, trace {i} has {trace.shape[:2]}"
            )
        if not np.isfinite(trace).all():
            raise ValueError(f"trace {i} contains NaN or infinite values")
    epochs, samples, _ = traces[0].shape
    if epochs < 2 or samples < 3:
        raise ValueError(f"a trace needs at least 2 epochs and 3 samples; got {epochs} and {samples}")
    if neighbours is not None and not 1 <= neighbours < samples:
        raise ValueError(f"neighbours must be from 1 to {samples - 1}, one below the samples; got {neighbours}")
    if steps is None:
        # A walk has to get along the path of a sample, yet not so far that only noise tells points apart.
        steps = max(2, round(epochs * 8 / 30))
    if not alpha > 0 or steps < 1 or rank < 1:
        raise ValueError(f"alpha must be above 0, steps and rank at least 1; got {alpha}, {steps}, {rank}")
    return steps


def _distances(x: Floats) -> Floats:
    """Return Euclidean distances (b, k, k) between the rows of each x (b, k, p)."""
    centred = x - x.mean(axis=1, keepdims=True)
    products = centred @ centred.transpose(0, 2, 1)
    squares = np.einsum("bkk->bk", products)
    squared = np.maximum(squares[:, :, None] + squares[:, None, :] - 2 * products, 0.0)
    # What is left of equal points is rounding.
    squared[squared < 1e-14 * (squares[:, :, None] + squares[:, None, :])] = 0.0
    return np.sqrt(squared)


def _prepared(trace: ArrayLike, normalise: bool) -> Floats:
    """Return a copy whose units of each (epoch, sample) are standardised if asked; 0 where they are all equal."""
    x = np.array(trace, float)
    if normalise:
        x -= x.mean(axis=2, keepdims=True)
        scale = x.std(axis=2, keepdims=True)
        x *= np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 1e-12)
    return x


def random_walk(
    trace: ArrayLike, alpha: float = 2.0, neighbours: int | None = None, normalise: bool = True
) -> RandomWalk:
    """Return the multislice kernel of a trace (n, m, p), symmetrised, with its row sums."""
    x = _prepared(trace, normalise)
    n, m, _ = x.shape
    within = _distances(x)
    nth = neighbours or max(m // 10, 1)
    sigma = np.partition(within, nth, axis=2)[:, :, nth]  # 0 is the point itself
    within = np.exp(-(_ratio(within, sigma[:, :, None]) ** alpha))
    along = _distances(x.transpose(1, 0, 2))
    nth = min(25, n // 2)
    eps = float(np.median(np.partition(along, nth, axis=2)[:, :, nth], axis=1).mean())
    along = np.exp(-(_ratio(along, np.array(eps)) ** 2))
    epochs = np.arange(n)
    along[:, epochs, epochs] = 0.0  # a point meets itself within its epoch, once
    within = 0.5 * (within + within.transpose(0, 2, 1))
    return RandomWalk(within, along, within.sum(axis=2) + along.sum(axis=2).T)


def _ratio(distance: Floats, scale: Floats) -> Floats:
    """Return distance / scale; with scale 0 only equal points are near."""
    scale = np.broadcast_to(scale, distance.shape)
    far = np.where(distance > 0, np.inf, 0.0)
    return np.divide(distance, scale, out=far, where=scale > 0)


def joint_embedding(
    traces: Sequence[ArrayLike],
    *,
    alpha: float = 2.0,
    neighbours: int | None = None,
    steps: int | None = None,
    rank: int = 10,
    normalise: bool = True,
) -> Floats:
    """Return left singular vectors (S, n, m, rank) of the stacked P_s^steps of S traces, without the first.

    With one trace this is its own embedding (figure 3, a to c), with several the joint one (figure 3, d). Fewer than
    `rank` components come back when the rest is rounding. Parameters are those of `dynamics`.

    Examples
    --------
    >>> traces = np.random.default_rng(0).normal(size=(2, 6, 20, 8))
    >>> joint_embedding(traces, rank=3).shape
    (2, 6, 20, 3)
    """
    arrays = [as_array(trace) for trace in traces]
    times = _check(arrays, alpha, neighbours, steps, rank)
    walks = [random_walk(trace, alpha, neighbours, normalise) for trace in arrays]
    n, m, _ = arrays[0].shape
    size = n * m

    def product(x: Floats) -> Floats:
        """Return the sum over traces of (P^times)' P^times x."""
        x = x.reshape(n, m, -1)
        return np.sum([w.backward(w.forward(x, times), times) for w in walks], axis=0).reshape(size, -1)

    count = min(rank + 1, size - 1)
    start = np.random.default_rng(0).normal(size=size)
    operator = LinearOperator((size, size), matvec=lambda x: product(x).ravel(), matmat=product, dtype=float)
    values, vectors = eigsh(operator, k=count, v0=start, ncv=min(size, max(4 * count, 40)))
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = int((values > (_RANK_TOL**2) * values[0]).sum())
    right = vectors[:, 1:kept].reshape(n, m, -1)
    left = np.stack([w.forward(right, times) for w in walks]) / np.sqrt(values[1:kept])
    if left.size:
        flat = left.reshape(-1, left.shape[-1])
        largest = flat[np.abs(flat).argmax(axis=0), np.arange(left.shape[-1])]
        left *= np.where(largest < 0, -1.0, 1.0)  # signs are free: fix them
    return left


def mmd(embedding: Floats, seed: int | np.random.Generator = 0) -> Floats:
    """Return the unbiased MMD^2 (S, S) between the seeds of a joint embedding (S, n, m, rank).

    Gaussian kernel exp(-d^2 / 2 h^2), h the median distance of points of all seeds.
    """
    seeds, size = len(embedding), embedding.shape[1] * embedding.shape[2]
    some = embedding.reshape(-1, embedding.shape[-1])
    if len(some) > _BANDWIDTH_POINTS:
        some = some[np.random.default_rng(seed).choice(len(some), _BANDWIDTH_POINTS, replace=False)]
    bandwidth = float(np.median(_distances(some[None])[0][np.triu_indices(len(some), 1)]))
    points = embedding.reshape(seeds, size, -1) / max(bandwidth, 1e-300) / np.sqrt(2)
    sums = np.empty((seeds, seeds))
    for a in range(seeds):
        for b in range(a + 1):
            sums[a, b] = sums[b, a] = gaussian_sum(points[a], points[b])
    within = (np.diag(sums) - size) / (size * (size - 1))  # a point with itself gives 1 and is left out
    out = within[:, None] + within - 2 * sums / size**2
    np.fill_diagonal(out, 0.0)
    return out
