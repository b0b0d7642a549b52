"""Download official files: several mirrors, resumed after a cut, checked, and in place only when whole.

While a file comes in it is NAME.part; running the same command again goes on from there. Checksums and sizes are those
that the data sets' users have published; where there is none, a zip archive is checked by the sums inside it.
"""

import contextlib
import difflib
import gzip
import hashlib
import http.client
import os
import shutil
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from karenina._files import atomic

# Called with the file's name, the bytes that are there, and the bytes in all if the server says so.
Progress = Callable[[str, int, int | None], None]

_CHUNK = 1 << 18
_TIMEOUT = 60


class DownloadError(OSError):
    """No mirror gave the file whole."""


class _WrongFile(Exception):
    """A mirror gave something else than the file."""


@dataclass(frozen=True)
class File:
    """A file to fetch. unpack: "gunzip", "cars", or None to leave it as it is."""

    filename: str
    urls: tuple[str, ...]
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    unpack: str | None = None


def _smallnorb(name: str, size: int, sha256: str) -> File:
    url = f"https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/{name}.mat.gz"
    return File(f"{name}.mat.gz", (url,), sha256=sha256, size=size, unpack="gunzip")


def _mpi3d(version: str, second: str) -> File:
    # The published sums are of files at an address that is gone; whether the mirrors have the same bytes is not known.
    name = f"mpi3d_{version}.npz"
    return File(
        name,
        (
            f"https://huggingface.co/datasets/waleedgondal/mpi3d/resolve/main/{name}",
            f"https://storage.googleapis.com/mpi3d_disentanglement_dataset/data/{second}",
            f"https://storage.googleapis.com/disentanglement_dataset/Final_Dataset/{name}",
        ),
    )


_DSPRITES = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
_TRAINING = "smallnorb-5x46789x9x18x6x2x96x96-training"
_TESTING = "smallnorb-5x01235x9x18x6x2x96x96-testing"

SOURCES: dict[str, tuple[File, ...]] = {
    "dsprites": (
        File(
            _DSPRITES,
            (
                f"https://raw.githubusercontent.com/google-deepmind/dsprites-dataset/master/{_DSPRITES}",
                f"https://github.com/google-deepmind/dsprites-dataset/raw/master/{_DSPRITES}",
            ),
            md5="7da33b31b13a06f4b04a70402ce90c2e",
        ),
    ),
    "shapes3d": (
        File(
            "3dshapes.h5",
            (
                "https://storage.googleapis.com/3d-shapes/3dshapes.h5",
                "https://storage.googleapis.com/storage/v1/b/3d-shapes/o/3dshapes.h5?alt=media",
            ),
            sha256="0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
            size=267573662,
        ),
    ),
    "smallnorb": (
        _smallnorb(f"{_TRAINING}-cat", 348, "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa"),
        _smallnorb(f"{_TRAINING}-info", 71052, "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32"),
        _smallnorb(f"{_TRAINING}-dat", 131896188, "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873"),
        _smallnorb(f"{_TESTING}-cat", 347, "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff"),
        _smallnorb(f"{_TESTING}-info", 10428, "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2"),
        _smallnorb(f"{_TESTING}-dat", 130799817, "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474"),
    ),
    "cars3d": (
        File(
            "nips2015-analogy-data.tar.gz",
            (
                "http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
                "http://www-personal.umich.edu/~reedscot/files/nips2015-analogy-data.tar.gz",
            ),
            md5="4e866a7919c1beedf53964e6f7a23686",
            unpack="cars",
        ),
    ),
    "mpi3d_toy": (_mpi3d("toy", "mpi3d_toy.npz"),),
    "mpi3d_realistic": (_mpi3d("realistic", "mpi3d_realistic.npz"),),
    "mpi3d_real": (_mpi3d("real", "real.npz"),),
}


def get(name: str, data_dir: str | os.PathLike[str], progress: Progress | None = None) -> list[Path]:
    """Fetch and unpack all official files of a data set; those that are there already stay. Gives their paths."""
    if name not in SOURCES:
        close = difflib.get_close_matches(name, SOURCES, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}? There are" if close else "there are"
        raise ValueError(f"no official files to download for {name!r}; {hint}: {', '.join(SOURCES)}")
    folder = Path(data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    return [_get_file(file, folder, progress) for file in SOURCES[name]]


def _get_file(file: File, folder: Path, progress: Progress | None) -> Path:
    target = folder / {"gunzip": file.filename.removesuffix(".gz"), "cars": "cars", None: file.filename}[file.unpack]
    if target.exists():
        return target
    path = folder / file.filename
    if not path.exists():
        download(file.urls, path, sha256=file.sha256, md5=file.md5, size=file.size, progress=progress)
    if file.unpack == "gunzip":
        with atomic(target) as part, gzip.open(path) as packed, part.open("wb") as out:
            shutil.copyfileobj(packed, out, _CHUNK)
    if file.unpack == "cars":
        unpack_cars(path, target)
    if file.unpack:
        path.unlink()
    return target


def unpack_cars(archive: Path, target: Path) -> None:
    """The .mat files in the cars folder of the archive, into a new folder that appears only when all are there.

    Only the last part of a name inside the archive is used, so nothing can be written elsewhere.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".cars-") as scratch:
        part = Path(scratch) / "cars"
        part.mkdir()
        with tarfile.open(archive) as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                if member.isfile() and name.parent.name == "cars" and name.suffix == ".mat":
                    content = tar.extractfile(member)
                    if content is not None:
                        with content, (part / name.name).open("wb") as out:
                            shutil.copyfileobj(content, out, _CHUNK)
        if not any(part.iterdir()):
            raise ValueError(f"{archive} has no files cars/*.mat")
        part.rename(target)


def download(
    urls: Sequence[str],
    path: str | os.PathLike[str],
    *,
    sha256: str | None = None,
    md5: str | None = None,
    size: int | None = None,
    progress: Progress | None = None,
    retries: int = 5,
    backoff: float = 1.0,
) -> Path:
    """Fetch a file from the first of several addresses that gives it whole.

    A cut connection is taken up again where it was cut, up to `retries` times in a row without a new byte, waiting
    `backoff`, 2 `backoff`, 4 `backoff`, ... seconds. A file with a wrong checksum or size is removed, and the next
    address is tried. The file appears at `path` only after the checks.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    report = progress and _named(progress, path.name)
    reasons = []
    for url in urls:
        leftover = part.exists()
        try:
            try:
                _fetch(url, part, size, report, retries, backoff)
                _check(part, path.suffix, sha256, md5, size)
            except _WrongFile:
                part.unlink(missing_ok=True)
                if not leftover:
                    raise
                # The part may have come from another file or mirror: this address deserves a fresh start.
                _fetch(url, part, size, report, retries, backoff)
                _check(part, path.suffix, sha256, md5, size)
        except _WrongFile as error:
            part.unlink(missing_ok=True)
            reasons.append(f"{url}: {error}")
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            reasons.append(f"{url}: {error}")
        else:
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            part.replace(path)
            return path
    raise DownloadError(f"{path.name} could not be downloaded. {'; '.join(reasons) or 'No address was given.'}")


def _named(progress: Progress, name: str) -> Callable[[int, int | None], None]:
    return lambda done, total: progress(name, done, total)


def _fetch(
    url: str,
    part: Path,
    size: int | None,
    progress: Callable[[int, int | None], None] | None,
    retries: int,
    backoff: float,
) -> None:
    """Fill `part` from one address, going on after cuts."""
    failures, started = 0, False
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            _stream(url, part, size, progress)
            return
        except urllib.error.HTTPError as error:
            with contextlib.closing(error):
                if error.code == 416 and before:  # nothing after what we have: it is whole, or it is another file
                    if size is not None and before != size:
                        raise _WrongFile(f"{before:,} bytes were there, expected {size:,}") from None
                    return
                if error.code < 500 and error.code != 429:
                    raise
                reason: Exception = error
        except urllib.error.URLError as error:
            if not started:  # nobody there: the next mirror is a better bet than waiting
                raise
            reason = error
        except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
            reason = error
        grown = part.exists() and part.stat().st_size > before
        started |= grown
        failures = 0 if grown else failures + 1
        if failures > retries:
            raise reason
        time.sleep(backoff * 2 ** max(0, failures - 1))


def _stream(url: str, part: Path, size: int | None, progress: Callable[[int, int | None], None] | None) -> None:
    """One connection: ask for what is missing and append it, or start again if the server does."""
    done = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "karenina", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT) as response:
        resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {done}-")
        if response.status == 206 and not resumed:
            raise _WrongFile("the server sent another part of the file than was asked for")
        if not resumed:
            done = 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length is not None else size
        if total is not None and shutil.disk_usage(part.parent).free < total - done:
            raise OSError(f"{part.parent} has no room for {part.name}: {(total - done) / 1e9:.1f} GB are still to come")
        if size is not None and length is not None and total != size:
            raise _WrongFile(f"the server has {total:,} bytes, expected {size:,}")
        with part.open("ab" if resumed else "wb") as file:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                if progress:
                    progress(done, total)
        if total is not None and done < total:
            raise ConnectionError(f"cut off after {done:,} of {total:,} bytes")


def _check(part: Path, suffix: str, sha256: str | None, md5: str | None, size: int | None) -> None:
    if size is not None and part.stat().st_size != size:
        raise _WrongFile(f"{part.stat().st_size:,} bytes, expected {size:,}")
    for kind, expected in (("sha256", sha256), ("md5", md5)):
        if expected is not None:
            with part.open("rb") as file:
                found = hashlib.file_digest(file, kind).hexdigest()
            if found != expected.lower():
                raise _WrongFile(f"the {kind} is {found}, expected {expected}")
    if sha256 is None and md5 is None and suffix in (".npz", ".zip"):
        try:
            with zipfile.ZipFile(part) as archive:
                broken = archive.testzip()
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise _WrongFile(f"it is no whole zip archive ({error})") from None
        if broken:
            raise _WrongFile(f"{broken} inside it is damaged")
