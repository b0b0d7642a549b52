"""A trained model and its files, safetensors with JSON inside: reading one executes nothing. What its decoder makes."""

import copy
import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import karenina
from karenina._files import atomic, check_regular, checksum, held, read_json, save_array
from karenina._notebook import facts
from karenina._settings import integer, shown
from karenina._words import hint
from karenina.drawing.pictures import Traversal, traverse
from karenina.models import fast
from karenina.models.networks import SEEN, Autoencoder, Made, OwnNetworks, Shape, is_own, own_networks
from karenina.models.objectives import DECODERS, QuantisedAutoencoder
from karenina.numerics.checks import as_array
from karenina.numerics.gaussian import entropy_per_latent, kl_per_latent
from karenina.training.batches import to_tensor
from karenina.training.methods import Config, Method, names, of_run

# The format is raised when the program before it can no longer read files of this version.
FORMAT = 1
# A run by itself has these checkpoints. The one before the newest is kept, should the newest turn out to be damaged.
CHECKPOINT, OLDER = "checkpoint.safetensors", "checkpoint.older.safetensors"
# A population keeps its checkpoint in the folder of its runs, or for a study in `populations` beside it.
POPULATION, POPULATIONS = "population-*.safetensors", "populations"
# In either, the names of the model's weights begin with this.
NETWORK = "module/network/"
# This stands in the place of a file's checksum while that is computed.
_BLANK = "0" * 64


class BadFile(ValueError):
    """A file that is not what its name says: cut off, damaged, or made for something else."""


def write_tensors(path: Path, tensors: dict[str, Tensor], about: dict[str, Any], *, older: Path | None = None) -> None:
    """Write tensors with one metadata entry only: safetensors writes several in no fixed order, and equal runs should
    have equal bytes.

    It begins with the checksum of the whole file; older: where to keep the file that was there.
    """
    # Clones do not share memory, which a file forbids: tied layers do, and so does the number of updates of an Adam.
    plain = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    content = save(plain, metadata={"karenina": json.dumps({"sha256": _BLANK, **about})})
    with atomic(path, older=older) as part:
        part.write_bytes(content.replace(_BLANK.encode(), _checksum(content, _BLANK).encode(), 1))


def _checksum(content: bytes, found: str) -> str:
    """Return the SHA-256 of the file with the checksum found in it blanked."""
    return hashlib.sha256(content.replace(found.encode(errors="replace"), _BLANK.encode(), 1)).hexdigest()


def read_tensors(
    path: Path, row: Callable[[dict[str, Any]], int] | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a file and what it says of them; with `row`, of a population the network of one member."""
    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["karenina"])
            names = list(file.keys())
            if row is None:
                tensors = {name: file.get_tensor(name) for name in names}
            else:
                place = row(about)
                tensors = {name: file.get_slice(name)[place] for name in names if name.startswith(NETWORK)}
    except FileNotFoundError:
        raise BadFile(f"{path} is missing") from None
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadFile(f"{path} is damaged or not a file of karenina ({error})") from None
    first = next(iter(about), None) if isinstance(about, dict) else None
    if first == "sha256":
        found = str(about.pop("sha256"))
        # Members of a population are read one after the other, so the checksum of that large file is remembered.
        state = path.stat()
        intact = (_has_checksum if row is None else _known_checksum)(path, found, state.st_mtime_ns, state.st_size)
    else:  # It was written before there were checksums, unless that word was damaged.
        intact = first == "format"
    if not intact:
        raise BadFile(f"{path} is damaged: its content does not have its checksum")
    check_format(path, about)
    return tensors, about


def _has_checksum(path: Path, found: str, *_: int) -> bool:
    return found == _checksum(path.read_bytes(), found)


_known_checksum = lru_cache(maxsize=16)(_has_checksum)


def read_stopped(path: Path, config: Config) -> tuple[dict[str, Tensor], int, list[dict[str, float]]] | None:
    """Return the weights, the step and the history of a run that was stopped, or None where it has no checkpoint.

    They are in the newest intact checkpoint of the run itself, or of the population that it was trained in.
    """

    def place(about: dict[str, Any]) -> int:
        return int(about["alive"].index(about["members"].index(config.to_json())))

    files = [path / CHECKPOINT, path / OLDER]
    for folder in (path.parent, path.parent.parent / POPULATIONS):
        files += [one for file in sorted(folder.glob(POPULATION)) for one in (file, file.with_suffix(".older"))]
    for file in files:
        alone = file.parent == path
        try:
            tensors, about = read_tensors(file, None if alone else place)
            if alone and "config" in about:  # It was written before a run was a population of one.
                about |= {"members": [about["config"]], "history": [about["history"]]}
            history = about["history"][about["members"].index(config.to_json())]
            return within(tensors, NETWORK), integer("step", about["step"], 1), list(history)
        except (KeyError, TypeError, ValueError, AttributeError):  # The file is missing, damaged, or of other runs.
            continue
    return None


def check_format(path: Path, about: Any) -> None:
    if not isinstance(about, dict) or not isinstance(about.get("format"), int):
        raise BadFile(f"{path} does not say which format it has")
    if about["format"] > FORMAT:
        raise ValueError(
            f"{path} has format {about['format']}, this version of karenina reads up to {FORMAT}: please upgrade"
        )


def load_weights(module: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Copy the tensors into the module, after checking that names, shapes and types are exactly its own."""
    wanted = {name: (tuple(t.shape), t.dtype) for name, t in module.state_dict().items()}
    found = {name: (tuple(t.shape), t.dtype) for name, t in tensors.items()}
    if wanted != found:
        odd = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise BadFile(f"{path} does not hold the network that its config describes: see {', '.join(odd[:3])}")
    module.load_state_dict(tensors)


def within(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


# Rows encoded at a time: the convolutions of a few images fit the cache, the fully connected layers want many rows.
_FEATURE_ROWS, _HEAD_ROWS = 32, 1024


class Run:
    """A trained model: `encode`, `decode`, `history`, `config`.

    Attributes
    ----------
    config : Config, every choice that decided the result
    history : DataFrame
        Columns step, loss, its weighted terms (which add up to the loss) and kl_0, kl_1, ... (the KL of each latent);
        each row has averages since the row before.
    trace : (30, 200, units) float16, or None without `trace=True` in training
    path : the directory, or None
    status : "finished", or such as "stopped at step 40": then it is the model of that step
    stopped_at : that step, or None
    module : the network, a torch module

    Examples
    --------
    >>> import karenina
    >>> run = karenina.train("blobs", "beta_vae", beta=16, latents=8, steps=2, out="runs/a")  # 6,000 steps: 10 s
    >>> images, factors = karenina.load("blobs").sample(5, np.random.default_rng(0))
    >>> mean, logvar = run.encode(images)
    >>> mean.shape, run.decode(mean).shape == images.shape
    ((5, 8), True)
    """

    def __init__(
        self,
        config: Config,
        network: Autoencoder,
        history: pd.DataFrame | None = None,
        trace: NDArray[np.float16] | None = None,
        path: Path | None = None,
        stopped_at: int | None = None,
    ):
        self.config = config
        self.path = path
        self.stopped_at = stopped_at
        self._network = network.eval()
        self._history = history
        self._trace = trace

    def __repr__(self) -> str:
        c = self.config
        parameters = "".join(f", {name} {value}" for name, value in c.parameters.items())
        return f"<run: {c.method}{parameters} on {c.data}, seed {c.seed}, {self.steps_text}, {c.latents} latents>"

    @property
    def status(self) -> str:
        return "finished" if self.stopped_at is None else f"stopped at step {self.stopped_at:,}"

    @property
    def steps_text(self) -> str:
        """Return how far it is trained: "6000 steps", or of a run that was stopped "40 of 6000 steps"."""
        return f"{'' if self.stopped_at is None else f'{self.stopped_at} of '}{self.config.steps} steps"

    def _repr_html_(self) -> str:
        c = self.config
        strengths = ", ".join(f"{name} {value}" for name, value in c.parameters.items())
        known: dict[str, object] = {"method": f"{c.method} ({strengths})" if strengths else c.method, "data": c.data}
        known |= {"latents": c.latents, "network": c.network, "steps": f"{c.steps:,}", "seed": c.seed}
        known |= {} if self.stopped_at is None else {"status": self.status}
        last = self.history.iloc[-1] if len(self.history) else {}
        known |= {name: float(last[name]) for name in ("loss", "reconstruction", "kl") if name in last}
        return facts("run", known | {"directory": self.path or "-"})

    @property
    def module(self) -> Autoencoder:
        """Return the network, a torch module: `module.encode(x)` gives mean and log-variance, `module.decode(z)` logits
        (or means, with a Gaussian likelihood), as tensors; `module.features`, `module.head` and `module.decoder` its
        parts."""
        return self._network

    @property
    def latents(self) -> int:
        return self.config.latents

    @cached_property
    def history(self) -> pd.DataFrame:
        if self._history is None and self.path is not None:
            return _read_intact(self.path, "history.parquet", pd.read_parquet)
        return pd.DataFrame() if self._history is None else self._history

    @cached_property
    def trace(self) -> NDArray[np.float16] | None:
        if self._trace is None and self.path is not None and self.config.trace and self.stopped_at is None:
            return _read_intact(self.path, "trace.npy", _read_trace)
        return self._trace

    @torch.inference_mode()
    def encode(self, images: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return mean and log-variance, both (n, latents), of images (n, c, h, w): uint8, or floats in [0, 1]."""
        fast.keep_memory()
        checked = check_images(images, self.config.image_shape)
        network = self._network
        if type(network).encode is Autoencoder.encode:
            outputs = [
                network.head(fast.in_chunks(network.features, to_tensor(rows, self._device), _FEATURE_ROWS))
                for rows in _split(checked, _HEAD_ROWS)
            ]
            mean, logvar = network.posterior(torch.cat(outputs))
        else:  # A network of the user's may encode in its own way.
            parts = [network.encode(to_tensor(rows, self._device)) for rows in _split(checked, _FEATURE_ROWS)]
            mean, logvar = (torch.cat(part) for part in zip(*parts))
        if not (mean.isfinite().all() and logvar.isfinite().all()):
            raise ValueError(f"{self.path or 'the model'} gives codes that are not finite: it is damaged or diverged")
        return mean.cpu().numpy().copy(), logvar.cpu().numpy().copy()

    @torch.inference_mode()
    def decode(self, codes: ArrayLike) -> NDArray[np.float32]:
        """Return images (n, c, h, w) in [0, 1] for codes (n, latents)."""
        fast.keep_memory()
        z = as_array(codes).astype(np.float32, copy=False)
        if z.ndim != 2 or z.shape[1] != self.latents:
            raise ValueError(f"codes have shape {z.shape}, expected (n, {self.latents})")
        if not np.isfinite(z).all():
            raise ValueError("codes must be finite numbers")
        show = DECODERS[self.config.decoder][1]
        rows = torch.from_numpy(z).to(self._device)
        images = torch.cat([show(self._network.decode(chunk)) for chunk in rows.split(256)])
        return np.ascontiguousarray(images.cpu().numpy())

    def kl(self, images: ArrayLike) -> NDArray[np.float64]:
        """Return KL(q(z_j|x) || p(z_j)) of each latent, averaged over the images: (latents,).

        For rounded codes (qlae) p is the distribution of all codes, which makes it the entropy of the latent's values.
        """
        return self.kl_of(*self.encode(images))

    @property
    def quantised(self) -> bool:
        """Return whether codes are rounded, and so have no spread."""
        return isinstance(self._network, QuantisedAutoencoder)

    def kl_of(self, mean: NDArray[np.float32], logvar: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return what `kl` does, of posteriors (n, latents) that are known already."""
        return entropy_per_latent(mean) if self.quantised else kl_per_latent(mean, logvar)

    @torch.inference_mode()
    def evaluate(
        self,
        images: ArrayLike,
        seed: int = 0,
        *,
        posterior: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None,
    ) -> dict[str, float]:
        """Return averages over images (n, c, h, w): reconstruction (-log p(x|z), one sample of z), kl, elbo = -(both).

        Weighted neither by the method's strength nor by `reconstruction_weight`, so that runs can be compared.
        posterior: what `encode` gave for these images, where that is known already.
        """
        checked = check_images(images, self.config.image_shape)
        mean, logvar = self.encode(checked) if posterior is None else posterior
        z = mean + np.exp(0.5 * logvar) * np.random.default_rng(seed).standard_normal(mean.shape, dtype=np.float32)
        distance = DECODERS[self.config.decoder][0]
        codes = torch.from_numpy(z).to(self._device)
        sums = 0.0
        for rows, chunk in zip(_split(checked, 256), codes.split(256)):
            sums += float(distance(to_tensor(rows, self._device), self._network.decode(chunk))) * len(rows)
        reconstruction, kl = sums / len(checked), float(self.kl_of(mean, logvar).sum())
        return {"reconstruction": reconstruction, "kl": kl, "elbo": -(reconstruction + kl)}

    def prior_span(self, deviations: float = 2.0) -> float:
        """Return how far from 0 to move a latent: so many standard deviations of the prior, or to the bound of a
        bounded one. Where codes are rounded to values that are learned (qlae), to the farthest of these."""
        if isinstance(self._network, QuantisedAutoencoder):
            return float(self._network.codebook.values.detach().abs().max())
        return of_run(self.config.method).bound or deviations

    def traverse(self, images: ArrayLike, **options: Any) -> Traversal:
        """Return pictures of what each latent does, around images[0]: see karenina.drawing.pictures.traverse.

        `run.traverse(images).save("traversal.png")` writes them to a file (or .gif).
        """
        return traverse(self, images, **options)

    @property
    def _device(self) -> torch.device:
        return next(self._network.parameters()).device


def check_images(images: ArrayLike, shape: Shape) -> NDArray[Any]:
    """Return images (n, c, h, w) as uint8 or float32, or raise a ValueError that says what is wrong with them."""
    array = as_array(images)
    if array.shape[1:] != shape or array.ndim != 4:
        raise ValueError(f"images have shape {array.shape}, expected (n, {', '.join(map(str, shape))})")
    if len(array) == 0:
        raise ValueError("there are no images")
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise ValueError(f"images must be uint8, or floats in [0, 1], got {array.dtype}")
    if not (array.min() >= 0 and array.max() <= 1):  # Written so that NaN fails, too.
        raise ValueError(f"images of floats must lie in [0, 1], got {array.min():g} to {array.max():g}")
    return array.astype(np.float32, copy=False)


def _split(array: NDArray[Any], rows: int) -> list[NDArray[Any]]:
    return [array[i : i + rows] for i in range(0, len(array), rows)]


def make_network(config: Config, method: Method) -> Autoencoder:
    return method.network(config.network, config.image_shape, config.latents)


def shapes(make: Callable[[], torch.nn.Module]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of a module by its name; {} where the sizes exceed what torch can count.

    On the meta device a module has shapes but no memory, so a config cannot make us allocate what no file holds.
    """
    try:
        with torch.device("meta"):
            return {name: tuple(tensor.shape) for name, tensor in make().state_dict().items()}
    except (RuntimeError, TypeError, OverflowError, MemoryError):
        return {}


def open(
    path: str | os.PathLike[str], *, encoder: Made | None = None, decoder: Made | None = None, device: str | None = None
) -> Run:
    """Return the run in a directory. All files are checked, and none of their content is executed.

    A run that was stopped, however that came, is the model of its newest checkpoint, and `status` says of which step;
    the same call of `train` continues it.

    Parameters
    ----------
    path : directory of the run
    encoder, decoder : torch modules, or functions that make them, optional
        For a run that was trained with networks of your own: the same layers, whose weights are read from the run. The
        process that trained it remembers them.
    device : where to keep it, by default the environment variable KARENINA_DEVICE, or the CPU

    Examples
    --------
    >>> import karenina
    >>> _ = karenina.train("blobs", "pca", latents=3, steps=2, out="runs/pca")
    >>> karenina.open("runs/pca").config.method
    'pca'
    """
    path = Path(path)
    about = read_about(path)
    config = about["config"]
    stopped = _stopped(path, config) if about["status"] == "running" else None
    if about["status"] != "finished" and stopped is None:
        reason = f": {about['reason']}" if about.get("reason") else "; train it with the same call to resume"
        raise ValueError(f"the run in {path} is {about['status']}{reason}")
    method = _with_own(path, config, of_run(config.method), own_networks(encoder, decoder))
    if stopped is None:
        return open_as(path, config, method, device)
    tensors, step, rows = stopped
    network = _network(path / "its checkpoint", config, method, tensors, device)
    history = pd.DataFrame(rows, columns=None if rows else ["step"]).astype({"step": "int64"})
    return Run(config, network, history, path=path, stopped_at=step)


def _stopped(path: Path, config: Config) -> tuple[dict[str, Tensor], int, list[dict[str, float]]] | None:
    """Return what `read_stopped` finds, unless a process is training the run."""
    with held(path) as mine:
        return read_stopped(path, config) if mine else None


def is_stopped(path: Path) -> bool:
    """Return whether a run was stopped and has a checkpoint, so that it can be opened."""
    about = read_about(path)
    return bool(about["status"] == "running" and _stopped(path, about["config"]) is not None)


def as_run(given: Any, argument: str = "run") -> Run:
    """Return a run that is given as a run or by its directory; anything else is a ValueError that says what it is."""
    if isinstance(given, str | os.PathLike):
        return open(given)
    if not (hasattr(given, "encode") and hasattr(given, "config")):
        raise ValueError(f"{argument} is of type {type(given).__name__}, expected a run or the path of its directory")
    return given  # type: ignore[no-any-return]


def open_as(path: Path, config: Config, method: Method, device: str | None = None) -> Run:
    """Return the finished run in a directory, with the network of this method."""
    tensors, about = read_tensors(path / "model.safetensors")
    if about.get("own_network") and method == Method():
        raise ValueError(
            f"{path} has a network of your own method, which is not stored: the same call of train opens it"
        )
    return Run(config, _network(path / "model.safetensors", config, method, tensors, device), path=path)


def _network(file: Path, config: Config, method: Method, tensors: dict[str, Tensor], device: str | None) -> Autoencoder:
    """Return the network of a config and a method with the weights of a file, which must be all that it has, and
    finite."""
    if shapes(lambda: make_network(config, method)) != {name: tuple(tensor.shape) for name, tensor in tensors.items()}:
        raise BadFile(f"{file} does not hold the network that {file.parent / 'run.json'} describes")
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise BadFile(f"{file} has weights that are not finite numbers")
    with torch.random.fork_rng(devices=[]):
        network = make_network(config, method)
    load_weights(network, tensors, file)
    return network.to(pick_device(device or os.environ.get("KARENINA_DEVICE") or "cpu"))


def _with_own(path: Path, config: Config, method: Method, given: OwnNetworks | None) -> Method:
    """Return the method with the user's networks if the run was trained with some."""
    if not is_own(config.network):
        if given is not None:
            raise ValueError(f"the run in {path} has the network {config.network}, none of your own")
        return method
    own = given or SEEN.get(config.network)
    if own is None:
        raise ValueError(
            f"the run in {path} has networks of your own, which are not stored: open it in Python by "
            "karenina.open(path, encoder=..., decoder=...) with modules of the same layers"
        )
    if own.measure(config.image_shape)[0] != config.network:
        raise ValueError(f"encoder and decoder do not have the layers that the run in {path} was trained with")
    return replace(method, network=own)


def pick_device(name: str) -> torch.device:
    """Return the device of this name, tried out: torch names many that a machine does not have."""
    if name == "auto":
        name = os.environ.get("KARENINA_DEVICE") or "auto"
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if str(name).split(":")[0] not in ("cpu", "cuda", "mps"):
        raise ValueError(f"no device {shown(name)}; {hint(name, ('auto', 'cpu', 'cuda', 'mps'))}")
    try:
        device = torch.device(name)
        torch.Generator(device)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:  # An assertion of torch fails where it was not compiled for CUDA.
        raise ValueError(f"no device {shown(name)} on this machine: {str(error).splitlines()[0]}") from None
    return device


def read_about(path: Path) -> dict[str, Any]:
    """Read run.json and check its config; return format, config, versions, status (running, finished or failed),
    reason."""
    file = path / "run.json"
    try:
        about = read_json(file)
    except FileNotFoundError:
        raise ValueError(f"{path} is not a run: it has no run.json") from None
    except NotADirectoryError:
        raise ValueError(f"{path} is not a run but a file") from None
    except ValueError as error:
        raise BadFile(str(error)) from None
    check_format(file, about)
    if about.get("status") not in ("running", "finished", "failed"):
        raise BadFile(f"{file} has the status {shown(about.get('status'))}")
    if not isinstance(about.get("reason"), str | None):
        raise BadFile(f"{file} has the reason {shown(about['reason'])}")
    try:
        return {**about, "config": Config.from_json(about.get("config"))}
    except ValueError as error:
        raise BadFile(f"{file}: {error}") from None


def _read_intact(path: Path, name: str, read: Callable[[Path], Any]) -> Any:
    """Read a file of a finished run, which must have the checksum in run.json if there is one."""
    file = path / name
    files = read_about(path).get("files")
    expected = files.get(name) if isinstance(files, dict) else None
    try:
        check_regular(file)
        if expected is not None and checksum(file) != expected:
            raise ValueError("its checksum is not that in run.json")
        return read(file)
    except FileNotFoundError:
        raise BadFile(f"{file} is missing") from None
    except Exception as error:  # Anyone may have written the file, and readers raise anything.
        raise BadFile(f"{file} is damaged: {' '.join(str(error).split())}") from None


def _read_trace(file: Path) -> NDArray[np.float16]:
    array = np.load(file, mmap_mode="r", allow_pickle=False)  # It makes us allocate no more than it holds.
    if array.dtype != np.float16 or array.ndim != 3:
        raise ValueError(f"expected float16 (moments, images, units), got {array.dtype} {array.shape}")
    return np.array(array)


def write_about(
    path: Path, config: Config, status: str, reason: str | None = None, files: Mapping[str, str] | None = None
) -> None:
    """Write run.json. files: name -> checksum, of the files that do not carry their own."""
    versions = {
        "karenina": karenina.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    about = {"format": FORMAT, "status": status, "reason": reason, "config": config.to_json(), "versions": versions}
    about |= {"files": dict(files)} if files else {}
    with atomic(path / "run.json") as part:
        part.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _built_by_own_method(run: Run) -> bool:
    """Return whether a method that is not registered built the network, with other layers than the one of its name
    has."""
    if run.config.method in names() or is_own(run.config.network):
        return False
    with torch.device("meta"):
        plain = make_network(run.config, Method())
    one, other = ([(name, type(layer)) for name, layer in made.named_modules()] for made in (run.module, plain))
    return one != other


def write_run(path: Path, run: Run) -> None:
    """Write the files of a finished run. run.json comes last: a directory that says "finished" has everything."""
    about = {"format": FORMAT, **({"own_network": True} if _built_by_own_method(run) else {})}
    write_tensors(path / "model.safetensors", run.module.state_dict(), about)
    with atomic(path / "history.parquet") as part:
        run.history.to_parquet(part, index=False)
    files = ["history.parquet"]
    if run.trace is not None:
        save_array(path / "trace.npy", run.trace)
        files.append("trace.npy")
    write_about(path, run.config, "finished", files={name: checksum(path / name) for name in files})


_STEP = 1e-4  # In float64 the error of a central difference is about 1e-8 of the decoder's curvature.


@torch.inference_mode()
def decoder_jacobian(run: Run, codes: ArrayLike) -> NDArray[np.float64]:
    """Return d decoder(z) / d z at codes (n, L) as (n, pixels, L), of the decoder's output before the last
    non-linearity.

    By central differences on a float64 copy of the network, so that it works for any decoder.
    """
    z = as_array(codes).astype(np.float64, copy=False)
    if z.ndim != 2 or z.shape[1] != run.latents:
        raise ValueError(f"codes have shape {z.shape}, expected (n, {run.latents})")
    network = copy.deepcopy(run.module).double().cpu()
    columns = []
    for latent in range(run.latents):
        step = np.zeros(run.latents)
        step[latent] = _STEP
        ahead, behind = (network.decode(torch.from_numpy(z + sign * step)) for sign in (1, -1))
        columns.append(((ahead - behind) / (2 * _STEP)).reshape(len(z), -1))
    return torch.stack(columns, dim=-1).numpy()


_PICTURES = 64  # A step of the discriminator takes so many.


def discriminator_accuracy(
    first: NDArray[np.float32],
    second: NDArray[np.float32],
    *,
    steps: int = 400,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> float:
    """Train a network to tell two kinds of pictures (n, c, h, w) apart; return its accuracy on the half that is held
    out.

    Convolutions 4 x 4 with stride 2 down to a side of 4 or less, batch normalisation, Adam, a fixed number of steps, as
    Estermann and Wattenhofer (2023) released it, with fewer and larger steps: theirs has another layer of 512 units,
    a rate of 1e-4, and is measured after 50,000 pictures in batches of 32.

    >>> rng = np.random.default_rng(0)
    >>> dark, bright = (rng.random((80, 1, 8, 8), dtype=np.float32) * half for half in (0.4, 1.0))
    >>> discriminator_accuracy(dark, bright, steps=30) > 0.9
    True
    """
    if first.shape[1:] != second.shape[1:] or min(len(first), len(second)) < 8:
        raise ValueError(f"two sets of 8 pictures or more of one shape are needed, got {first.shape}, {second.shape}")
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(np.concatenate([first, second])).float()
    kind = torch.cat([torch.zeros(len(first)), torch.ones(len(second))])
    order = torch.from_numpy(np.concatenate([rng.permutation(len(first)), len(first) + rng.permutation(len(second))]))
    halves = order[: len(first)].tensor_split(2), order[len(first) :].tensor_split(2)
    train, held = (torch.cat([one[i] for one in halves]) for i in (0, 1))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _discriminator(*first.shape[1:])
    optimiser = torch.optim.Adam(network.parameters(), lr=learning_rate)
    for _ in range(steps):
        rows = train[torch.from_numpy(rng.integers(len(train), size=_PICTURES))]
        loss = binary_cross_entropy_with_logits(network(images[rows])[:, 0], kind[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    network.eval()
    with torch.inference_mode():
        recognised = torch.cat([network(images[rows])[:, 0] for rows in held.split(512)]) > 0
    return float((recognised == (kind[held] > 0)).float().mean())


def _discriminator(channels: int, height: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    wide = 32
    while min(height, width) > 4:
        layers += [nn.Conv2d(channels, wide, 4, 2, 1), nn.BatchNorm2d(wide), nn.ReLU()]
        channels, height, width, wide = wide, height // 2, width // 2, 64
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, 1))
