"""What the page shows of a model that is opened: pictures, KLs, importances, a guess of what each latent means, and its
decoder where there is room."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from karenina.drawing.pictures import mosaic, picture, reconstruct, traverse_prior
from karenina.metrics.information import mig
from karenina.models.networks import Unflatten
from karenina.pages.contents import Contents, EncodedImages
from karenina.training.run import Run
from karenina.training.run import open as open_run

STEPS = 9
SHOWN = 8  # images that are reconstructed, and from which the live latents can start
# What the parts of a page may take, in bytes of the page, so that it stays below 20 MB.
PICTURE_BYTES, DECODER_BYTES = 5_000_000, 9_000_000
MOST_DETAILED = 400
LEAST = 0.1  # of a factor's entropy: a latent that tells less of every factor has no name
MOVES = ("left-right", "up-down", "size", "turn")
UNCLEAR = "shape"
_ENDS = {"bernoulli": "sigmoid", "gaussian": "clamp"}


def priority(contents: Contents, first: list[str]) -> list[str]:
    """Return runs in the order in which they get pictures and a decoder.

    It is `first`, the best of each setting, then the rest from both ends of the ranking.
    """
    about = contents.about
    values = contents.score(contents.ranked_by) if contents.ranked_by else np.full(len(about), np.nan)
    order = np.argsort(-np.where(np.isfinite(values), values, -np.inf), kind="stable")
    runs = about["run"].to_numpy()[order]
    settings = about["setting"].to_numpy()[order]
    heads = [str(runs[i]) for i in np.sort(np.unique(settings, return_index=True)[1])]
    ends = [str(run) for pair in zip(runs, runs[::-1]) for run in pair]
    return list(dict.fromkeys([*first, *heads, *ends]))


def details(contents: Contents, order: list[str]) -> dict[str, dict[str, Any]]:
    """Return what is shown of each run, as far as the room goes."""
    found: dict[str, dict[str, Any]] = {}
    pictures, decoders = 0, 0
    data_of = dict(zip(contents.about["run"], contents.about["data"]))
    for name in order[:MOST_DETAILED]:
        try:
            run = open_run(contents.paths[name])
            codes, kl = contents.codes(name)
        except (ValueError, OSError) as error:
            contents.note(f"A model could not be opened: {error}")
            continue
        one = describe(run, codes, kl, contents.inputs_at_hand(data_of[name]), contents.kl_threshold)
        pictures += len(one["traversal"]["src"]) + len((one["reconstructions"] or {}).get("src", ""))
        room = decoders + decoder_size(run) <= DECODER_BYTES
        exported = export_decoder(run) if room else None
        if exported is not None:
            decoders += len(exported["weights"])
        found[name] = {**one, "decoder": exported}
        if pictures > PICTURE_BYTES:
            break
    return found


def describe(
    run: Run, codes: NDArray[np.float32], kl: NDArray[np.float64], inputs: EncodedImages | None, threshold: float
) -> dict[str, Any]:
    """Return everything that is shown of a run but its decoder. Latents are ordered by KL, the largest first."""
    order = np.argsort(-kl, kind="stable")
    active = kl > threshold
    starts = np.array(codes[:SHOWN], dtype=np.float32)
    moved = traverse_prior(run, starts[0], order, STEPS)
    information = _importance(codes, inputs, active)
    both = None
    if inputs is not None and inputs.images.shape[1:] == run.config.image_shape:
        both = picture(mosaic(reconstruct(run, inputs.images[:SHOWN], starts)))
    c = run.config
    return {
        "order": order.tolist(),
        "kl": [round(float(value), 4) for value in kl],
        "threshold": threshold,
        "span": run.prior_span(),
        "reach": reaches(run, starts),
        "names": _names(information, active, order, moved),
        "traversal": {**picture(mosaic(moved), active[order]), "steps": moved.shape[1]},
        "starts": np.round(starts.astype(float), 3).tolist(),
        "reconstructions": both,
        "importance": information,
        "config": {**c.parameters} | {k: v for k, v in c.to_json().items() if k not in ("parameters", "image_shape")},
    }


def reaches(run: Run, starts: NDArray[np.float32]) -> list[float]:
    """Return how far from 0 the slider of each latent goes: three deviations of the prior, or as far as `starts`."""
    least = run.prior_span(3.0)
    return [max(least, float(np.ceil(2 * value) / 2)) for value in np.abs(starts).max(axis=0)]


def _names(
    information: dict[str, Any] | None, active: NDArray[np.bool_], order: NDArray[np.int64], moved: NDArray[np.float32]
) -> list[list[Any] | None]:
    """Return a guess of each latent's meaning: [factor, share of its entropy] or [word]; None where it is inactive."""
    if information is not None:
        matrix = np.array([[value or 0.0 for value in row] for row in information["matrix"]])
        found = by_labels(matrix, tuple(information["factors"]), active)
        return [None if one is None else [one[0], round(one[1], 2)] for one in found]
    place = np.argsort(order)
    return [[by_pictures(moved[place[j]])] if on else None for j, on in enumerate(active)]


def _importance(
    codes: NDArray[np.float32], inputs: EncodedImages | None, active: NDArray[np.bool_]
) -> dict[str, Any] | None:
    """Return how much each active latent tells of each factor; None for an inactive one.

    The mean codes of an inactive latent are minute but not constant. Bins and trees, which do not mind the scale, would
    read factors off them that no sampled code carries.
    """
    if inputs is None or not inputs.names:
        return None
    matrix = normalised_information(np.asarray(codes), inputs).round(3)
    shown = [[float(value) if on else None for value, on in zip(row, active)] for row in matrix]
    return {"factors": list(inputs.names), "matrix": shown}


def normalised_information(codes: NDArray[np.float32], inputs: EncodedImages) -> NDArray[np.float64]:
    """Return mutual information over the factor's entropy (factors, latents): how much of a factor a latent tells."""
    found = mig(codes, inputs.factors[: len(codes)], continuous=list(inputs.continuous))
    assert found.matrix is not None
    return np.nan_to_num(found.matrix / np.maximum(found.details["factor_entropy"], 1e-12)[:, None])


def decoder_size(run: Run) -> int:
    """Return how many bytes `export_decoder` adds to a page."""
    return sum(parameter.numel() for parameter in run.module.decoder.parameters()) * 2 * 4 // 3


def export_decoder(run: Run) -> dict[str, Any] | None:
    """Return {"shape": [h, w, c], "layers": [...], "weights": base64 of little-endian float16}.

    None for the residual network, which is too large for a page.

    A layer is {"kind": ...}. "dense" has inputs and outputs, then weights (inputs, outputs) and a bias; "up" (a 4x4
    up-convolution of stride 2) has inputs and outputs, then weights (inputs, 4, 4, outputs) and a bias. Images are
    (height, width, channels) in the page, which is how the networks lay out their fully connected layers, too.
    """
    layers: list[dict[str, Any]] = []
    weights: list[NDArray[np.float32]] = []
    for layer in run.module.decoder.children():
        if isinstance(layer, nn.Linear):
            layers.append({"kind": "dense", "inputs": layer.in_features, "outputs": layer.out_features})
            weights += [_array(layer.weight).T, _array(layer.bias)]
        elif isinstance(layer, nn.ConvTranspose2d):
            layers.append({"kind": "up", "inputs": layer.in_channels, "outputs": layer.out_channels})
            weights += [_array(layer.weight).transpose(0, 2, 3, 1), _array(layer.bias)]
        elif isinstance(layer, nn.ReLU | nn.Tanh):
            layers.append({"kind": type(layer).__name__.lower()})
        elif isinstance(layer, Unflatten):
            c, h, w = layer.shape
            layers.append({"kind": "image", "height": h, "width": w, "channels": c})
        else:
            return None
    layers.append({"kind": _ENDS[run.config.decoder]})
    flat = np.concatenate([part.ravel() for part in weights])
    # Half precision ends at 65504; a weight beyond that would become infinite.
    halves = np.clip(flat, -65504, 65504).astype("<f2")
    c, h, w = run.config.image_shape
    return {"shape": [h, w, c], "layers": layers, "weights": base64.b64encode(halves.tobytes()).decode()}


def _array(parameter: Any) -> NDArray[np.float32]:
    """Return a parameter of a network as an array."""
    found: NDArray[np.float32] = parameter.detach().cpu().numpy()
    return found


def by_labels(
    information: NDArray[np.float64], names: tuple[str, ...], active: NDArray[np.bool_]
) -> list[tuple[str, float] | None]:
    """Return for each latent the factor of which it tells most, and how much of its entropy.

    information: (factors, latents), as `normalised_information` gives it. None for latents that are inactive; the name
    is "" where a latent tells little of every factor.

    >>> by_labels(np.array([[0.9, 0.0], [0.0, 0.9]]), ("x", "y"), np.array([True, False]))
    [('x', 0.9), None]
    """
    found: list[tuple[str, float] | None] = []
    for column, on in zip(information.T, active):
        best = int(np.argmax(column))
        found.append((names[best] if column[best] >= LEAST else "", float(column[best])) if on else None)
    return found


def by_pictures(images: NDArray[np.floating]) -> str:
    """Return a word for a traversal (steps, c, h, w): brightness, colour, left-right, up-down, size, turn; else shape.

    Changes from step to step are regressed on what each word would do to the picture: adding a constant (to all
    channels, or to each), and the picture's derivatives along a shift, a scaling about its centre, a rotation. The word
    that explains most of the change wins, if that is at least a third.

    >>> by_pictures(np.linspace(0, 1, 5)[:, None, None, None] * np.ones((5, 1, 8, 8)))
    'brightness'
    """
    pictures = np.asarray(images, float)
    change = np.diff(pictures, axis=0)
    total = float((change**2).sum())
    if total == 0:
        return UNCLEAR
    fields = _fields(0.5 * (pictures[1:] + pictures[:-1]))
    explained = {word: sum(map(_explained, change, field)) / total for word, field in zip(MOVES, fields)}
    flat = change.mean(axis=(1, 2, 3), keepdims=True)
    explained["brightness"] = float((flat**2 * np.ones_like(change)).sum()) / total
    if change.shape[1] == 3:
        hue = change.mean(axis=(2, 3), keepdims=True) - flat
        explained["colour"] = float((hue**2 * np.ones_like(change)).sum()) / total
    best = max(explained, key=lambda word: explained[word])
    return best if explained[best] >= 1 / 3 else UNCLEAR


def _explained(change: NDArray[np.float64], field: NDArray[np.float64]) -> float:
    """Return the part of |change|^2 in the direction of the field."""
    size = float((field**2).sum())
    return float((change * field).sum()) ** 2 / size if size > 0 else 0.0


def _fields(pictures: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return what shifts along x and y, and a scaling and rotation about the centre of what is shown, do to images."""
    n, _, h, w = pictures.shape
    down, across = np.gradient(pictures, axis=(2, 3))
    weight = np.abs(pictures - np.median(pictures, axis=(2, 3), keepdims=True)).sum(axis=1) + 1e-12
    y, x = np.mgrid[:h, :w].astype(float)
    sums = weight.sum(axis=(1, 2))
    centre = [((weight * grid).sum(axis=(1, 2)) / sums).reshape(n, 1, 1, 1) for grid in (y, x)]
    dy, dx = y - centre[0], x - centre[1]
    return [across, down, dx * across + dy * down, dx * down - dy * across]
