"""Model files and checkpoints: safetensors with JSON inside. Reading one executes nothing."""

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from karenina._files import atomic, check_regular
from karenina.training.config import Config, integer, number
from karenina.training.learners import Learner
from karenina.training.loop import State

# Raised when a file of this version can no longer be read by the program before it.
FORMAT = 1
# Of a run by itself. The one before is kept, too: should the newest turn out to be damaged, not much is lost.
CHECKPOINT, OLDER = "checkpoint.safetensors", "checkpoint.older.safetensors"
# Of a population, in the folder that holds its runs, or in this one beside that of a study.
POPULATION, POPULATIONS = "population-*.safetensors", "populations"
# What the names of the model's weights begin with, in either.
NETWORK = "module/network/"
# Holds the place of a file's checksum while that is computed.
_BLANK = "0" * 64


class BadFile(ValueError):
    """A file that is not what its name says: cut off, damaged, or made for something else."""


def write_tensors(path: Path, tensors: dict[str, Tensor], about: dict[str, Any], *, older: Path | None = None) -> None:
    """One metadata entry only: safetensors writes several in no fixed order, and equal runs should have equal bytes.

    It begins with the checksum of the whole file; older: where to keep the file that was there.
    """
    # Cloned, as tensors of a file must not share memory: those of tied layers do, and the number of updates of an Adam.
    plain = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    content = save(plain, metadata={"karenina": json.dumps({"sha256": _BLANK, **about})})
    with atomic(path, older=older) as part:
        part.write_bytes(content.replace(_BLANK.encode(), _checksum(content, _BLANK).encode(), 1))


def _checksum(content: bytes, found: str) -> str:
    """SHA-256 of the file with the checksum found in it blanked."""
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
        # The members of a population are read one after the other, and the file is large.
        state = path.stat()
        intact = (_has_checksum if row is None else _known_checksum)(path, found, state.st_mtime_ns, state.st_size)
    else:  # from before there were checksums, unless it is that word that was damaged
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
            if alone and about["config"] != config.to_json():
                continue
            history = about["history"] if alone else about["history"][about["members"].index(config.to_json())]
            return within(tensors, NETWORK), integer("step", about["step"], 1), list(history)
        except (KeyError, TypeError, ValueError, AttributeError):  # missing, damaged, or of other runs
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


def save_checkpoint(path: Path, config: Config, learner: Learner, state: State, older: Path | None = None) -> None:
    """Write the state of the run; the file that was at `path` is kept at `older`."""
    tensors = {"noise": state.noise.get_state(), "torch": torch.get_rng_state()}
    for name, module in learner.modules.items():
        tensors |= {f"module/{name}/{key}": value for key, value in module.state_dict().items()}
    for name, optimiser in learner.optimisers.items():
        for i, state_of in enumerate(optimiser.state):
            tensors |= {f"optimiser/{name}/{i}/{key}": value for key, value in state_of.items()}
    if state.sums is not None:
        tensors["sums"] = state.sums
    if state.trace:
        tensors["trace"] = torch.from_numpy(np.stack(state.trace))
    about = {
        "format": FORMAT,
        "config": config.to_json(),
        "step": state.step,
        "first_loss": state.first_loss,
        "names": state.names,
        "summed": state.summed,
        "history": state.history,
        "rng": state.rng.bit_generator.state,
    }
    write_tensors(path, tensors, about, older=older)


def load_checkpoint(path: Path, config: Config, learner: Learner, state: State) -> None:
    """Restore learner and state from a checkpoint. After BadFile they must not be used any more."""
    tensors, about = read_tensors(path)
    try:
        if Config.from_json(about.get("config")) != config:
            raise BadFile(f"{path} belongs to another run")
        for name, module in learner.modules.items():
            load_weights(module, within(tensors, f"module/{name}/"), path)
        for name, optimiser in learner.optimisers.items():
            for i, state_of in enumerate(optimiser.state):
                for key, value in state_of.items():
                    saved = tensors[f"optimiser/{name}/{i}/{key}"]
                    if saved.shape != value.shape:
                        raise BadFile(f"{path} holds moments of another network")
                    value.copy_(saved)
        state.noise.set_state(tensors["noise"])
        state.rng.bit_generator.state = about["rng"]
        state.step, state.summed = integer("step", about["step"], 0), integer("summed", about["summed"], 0)
        state.first_loss = number("first_loss", about["first_loss"])
        state.names, state.history = list(about["names"]), about["history"]
        for row in state.history:
            if list(row) != ["step", *state.names] or not all(isinstance(value, int | float) for value in row.values()):
                raise BadFile(f"{path} has a history with other columns than its losses")
        state.sums = tensors["sums"].to(state.noise.device) if "sums" in tensors else None
        state.trace = list(tensors["trace"].numpy()) if "trace" in tensors else []
        if "torch" in tensors:  # checkpoints from before this was kept have none
            torch.set_rng_state(tensors["torch"])
    except BadFile:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
        raise BadFile(f"{path} lacks something or holds something odd ({error})") from None


def within(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
