"""Download official files: from several mirrors, resumed when interrupted, checked, in place only when complete.

During the download a file is NAME.part, which belongs to one process at a time; the same command again resumes from
there. Checksums and sizes are those that users of the data sets have published; where there is none, a zip archive is
checked by the checksums inside it. Servers are not trusted: the length that they announce, and the time and bytes that
they take, have limits, beyond which the next mirror is tried.
"""

import contextlib
import gzip
import hashlib
import http.client
import io
import os
import secrets
import shutil
import socket
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from karenina._files import atomic
from karenina._words import hint

MOST_BYTES = 1 << 30  # A file whose size is not known may have no more.


@dataclass(frozen=True)
class File:
    """A file to fetch. most: how many bytes it may have where its size is not known. unpack: "gunzip", "cars", or None
    for as it is."""

    filename: str
    urls: tuple[str, ...]
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    most: int = MOST_BYTES
    unpack: str | None = None


# Names of the official files, without the ending where there are several.
DSPRITES = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64"
SHAPES3D = "3dshapes.h5"
SMALLNORB = {
    "training": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "testing": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}


def _smallnorb(part: str, kind: str, size: int, sha256: str) -> File:
    name = f"{SMALLNORB[part]}-{kind}"
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
        most=1 << 34,  # The largest has 12.7 GB.
    )


SOURCES: dict[str, tuple[File, ...]] = {
    "dsprites": (
        File(
            f"{DSPRITES}.npz",
            (
                f"https://raw.githubusercontent.com/google-deepmind/dsprites-dataset/master/{DSPRITES}.npz",
                f"https://github.com/google-deepmind/dsprites-dataset/raw/master/{DSPRITES}.npz",
            ),
            md5="7da33b31b13a06f4b04a70402ce90c2e",
        ),
    ),
    "shapes3d": (
        File(
            SHAPES3D,
            (
                "https://storage.googleapis.com/3d-shapes/3dshapes.h5",
                "https://storage.googleapis.com/storage/v1/b/3d-shapes/o/3dshapes.h5?alt=media",
            ),
            sha256="0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
            size=267573662,
        ),
    ),
    "smallnorb": (
        _smallnorb("training", "cat", 348, "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa"),
        _smallnorb("training", "info", 71052, "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32"),
        _smallnorb("training", "dat", 131896188, "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873"),
        _smallnorb("testing", "cat", 347, "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff"),
        _smallnorb("testing", "info", 10428, "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2"),
        _smallnorb("testing", "dat", 130799817, "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474"),
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


# It is called with the file's name, the bytes that are there, and the bytes in all if the server says so.
Progress = Callable[[str, int, int | None], None]

_CHUNK = 1 << 18
_HEADROOM = 1 << 28  # A file of unknown size leaves so many bytes on the disk.


@dataclass(frozen=True)
class _Limits:
    """The time that servers may take: `seconds` for all headers of an answer, and then for every `seconds` * `slowest`
    bytes.

    retries, backoff: of `get_file`.
    """

    retries: int
    backoff: float
    seconds: float
    slowest: float

    @property
    def block(self) -> float:
        """Return how many bytes come in time on a connection that is not stalled."""
        return self.seconds * self.slowest


class DownloadError(OSError):
    """The error where no mirror gave the complete file."""


class _WrongFile(Exception):
    """The error where a mirror gave something else than the file: what was received is discarded."""


class _BadAnswer(Exception):
    """The error where a mirror announces a size that is impossible or for which there is no room: what was received is
    kept."""


def get(name: str, data_dir: str | os.PathLike[str], progress: Progress | None = None) -> list[Path]:
    """Fetch and unpack all official files of a data set and return their paths; existing files are checked."""
    if name not in SOURCES:
        raise ValueError(f"no official files to download for {name!r}; {hint(name, SOURCES)}")
    folder = Path(data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    return [get_file(file, folder, progress) for file in SOURCES[name]]


def get_file(
    file: File,
    folder: Path,
    progress: Progress | None = None,
    *,
    retries: int = 5,
    backoff: float = 1.0,
    patience: float = 60.0,
    slowest: float = 1000.0,
) -> Path:
    """Fetch a file from the first of its addresses that gives all of it, and unpack it; one in place is checked.

    A connection stalls if its headers are not whole after `patience` seconds, or if then fewer than `slowest` bytes
    per second come in as long a time. A connection that is cut or stalls is resumed, up to `retries` times in
    succession without much progress, waiting `backoff`, 2 `backoff`, 4 `backoff`, ... seconds. A file with a wrong
    checksum or size is removed, and the next address is tried. It appears in the folder only after the checks.
    """
    target = folder / {"gunzip": file.filename.removesuffix(".gz"), "cars": "cars", None: file.filename}[file.unpack]
    packed = folder / file.filename
    if _in_place(target, file):
        return target
    with _only_here(packed) as part:
        if _in_place(target, file):  # Another process did it while we waited.
            return target
        source = packed if packed.exists() else part
        if source == packed:
            _check_in_place(packed, file)
        else:
            _fill(part, file, progress, _Limits(retries, backoff, patience, slowest))
        if file.unpack is None:
            part.replace(target)
        else:
            _unpack(source, target, file.unpack)
            source.unlink()
    return target


def _in_place(target: Path, file: File) -> bool:
    if target.exists() and file.unpack is None:
        _check_in_place(target, file)
    return target.exists()


def _check_in_place(path: Path, file: File) -> None:
    """Raise an error if a file in place is wrong; it may be the user's, so it is kept."""
    try:
        _check(path, file)
    except _WrongFile as error:
        raise DownloadError(f"{path} is there, but {error}; move it away to download it again") from None


def _unpack(source: Path, target: Path, how: str) -> None:
    try:
        if how == "cars":
            unpack_cars(source, target)
        else:
            with atomic(target) as part, gzip.open(source) as packed, part.open("wb") as out:
                shutil.copyfileobj(packed, out, _CHUNK)
    except (gzip.BadGzipFile, zlib.error, EOFError, tarfile.TarError) as error:
        raise DownloadError(f"{source} is damaged: {error}; delete it to download it again") from None


@contextlib.contextmanager
def _only_here(path: Path) -> Iterator[Path]:
    """Hold the path of a download, NAME.part, for this process alone: others wait for its lock.

    If the process dies the system drops the lock, and the next resumes from the part. Where there are no locks
    (Windows, some network disks) every process has a part of its own, which does not outlive it.
    """
    part = path.with_name(f"{path.name}.part")
    handle = _locked(part)
    if handle is None:
        part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
    finally:
        if handle is None:
            part.unlink(missing_ok=True)
        else:
            if _is(part, handle) and part.stat().st_size == 0:
                part.unlink()
            os.close(handle)


def _locked(part: Path) -> int | None:
    try:
        import fcntl
    except ImportError:
        return None
    while True:
        handle = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            warnings.warn(f"another process is downloading to {part}: waiting for it", stacklevel=5)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            os.close(handle)
            if _size(part) == 0:
                part.unlink(missing_ok=True)
            return None
        if _is(part, handle):
            return handle
        os.close(handle)


def _is(part: Path, handle: int) -> bool:
    """Return whether the open file still has that name: the process that had the lock before may have renamed it."""
    try:
        return os.path.samestat(part.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def unpack_cars(archive: Path, target: Path) -> None:
    """Unpack the .mat files in the cars folder of the archive into a new folder that appears only when all are there.

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


def _fill(part: Path, file: File, progress: Progress | None, limits: _Limits) -> None:
    """Fill `part` from the first address that gives the complete file, and check it."""
    report = progress and partial(progress, file.filename)
    reasons = []
    for url in file.urls:
        leftover = _size(part) > 0
        try:
            try:
                _fetch(url, part, file, report, limits)
                _check(part, file)
            except _WrongFile:
                os.truncate(part, 0)
                if not leftover:
                    raise
                # The part may have come from another file or mirror: this address deserves a fresh start.
                _fetch(url, part, file, report, limits)
                _check(part, file)
        except _WrongFile as error:
            os.truncate(part, 0)
            reasons.append(f"{url}: {error}")
        except (
            _BadAnswer,
            urllib.error.URLError,
            http.client.HTTPException,
            ConnectionError,
            TimeoutError,
            ValueError,
        ) as error:
            reasons.append(f"{url}: {error}")
        else:
            with part.open("rb+") as whole:
                os.fsync(whole.fileno())
            return
    raise DownloadError(f"{file.filename} could not be downloaded. {'; '.join(reasons) or 'No address was given.'}")


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _fetch(
    url: str,
    part: Path,
    file: File,
    progress: Callable[[int, int | None], None] | None,
    limits: _Limits,
) -> None:
    """Fill `part` from one address, resuming after cuts."""
    failures, started = 0, False
    while True:
        before = _size(part)
        try:
            _stream(url, part, file, progress, limits)
            return
        except urllib.error.HTTPError as error:
            with contextlib.closing(error):
                if error.code == 416 and before:  # There is nothing after what we have: it is whole, or another file.
                    if file.size is not None and before != file.size:
                        raise _WrongFile(f"{before:,} bytes were there, expected {file.size:,}") from None
                    return
                if error.code < 500 and error.code != 429:
                    raise
                reason: Exception = error
        except urllib.error.URLError as error:
            if not started:  # Nobody answers: the next mirror is a better choice than waiting.
                raise
            reason = error
        except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
            reason = error
        grown = _size(part) - before
        started |= grown > 0
        failures = 0 if grown >= limits.block else failures + 1
        if failures > limits.retries:
            raise reason
        time.sleep(limits.backoff * 2 ** max(0, failures - 1))


class _Deadline:
    """The time by which an answer must be there, and the message if it is not."""

    def __init__(self, limits: _Limits):
        self.limits = limits
        self.extend("no whole answer")

    def extend(self, missing: str) -> None:
        self.at, self.missing = time.monotonic() + self.limits.seconds, missing


class _Timed(io.RawIOBase):
    """The bytes that a socket receives before a deadline. Its own time limit is for each receive, which a server that
    sends a byte at a time never exceeds."""

    def __init__(self, connection: socket.socket, deadline: _Deadline):
        self._connection, self._deadline = connection, deadline
        self._raw: Any = connection.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        late = f"stalled: {self._deadline.missing} in {self._deadline.limits.seconds:g} seconds"
        left = self._deadline.at - time.monotonic()
        if left <= 0:
            raise TimeoutError(late)
        self._connection.settimeout(left)
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            raise TimeoutError(late) from None

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Patient(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """A handler of http and https addresses whose answers, from the status line to the last byte, have a deadline."""

    def __init__(self, deadline: _Deadline):
        super().__init__()
        self._deadline = deadline

    def _connect(self, kind: Any, host: str, **options: Any) -> Any:
        connection = kind(host, **options)
        connection.response_class = partial(_response, self._deadline)
        return connection

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(partial(self._connect, http.client.HTTPConnection), request)  # type: ignore[arg-type]

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(partial(self._connect, http.client.HTTPSConnection), request)  # type: ignore[arg-type]


def _response(deadline: _Deadline, connection: socket.socket, *given: Any, **options: Any) -> http.client.HTTPResponse:
    found = http.client.HTTPResponse(connection, *given, **options)
    plain, found.fp = found.fp, io.BufferedReader(_Timed(connection, deadline))
    plain.close()
    return found


def _stream(
    url: str, part: Path, file: File, progress: Callable[[int, int | None], None] | None, limits: _Limits
) -> None:
    """Open one connection: ask for what is missing and append it, or start again if the server does."""
    done = _size(part)
    headers = {"User-Agent": "karenina", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    deadline = _Deadline(limits)
    opener = urllib.request.build_opener(_Patient(deadline))
    with opener.open(urllib.request.Request(url, headers=headers), timeout=limits.seconds) as response:
        resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {done}-")
        if response.status == 206 and not resumed:
            raise _BadAnswer("the server sent another part of the file than was asked for")
        if not resumed:
            done = 0
        total = _total(response.headers.get("Content-Length"), done, file)
        if shutil.disk_usage(part.parent).free < (total or 0) - done:
            room = f"{((total or 0) - done) / 1e9:.1f} GB are still to come"
            raise _BadAnswer(f"{part.parent} has no room for {part.name}: {room}")
        at, missing = done, f"fewer than {limits.block:,.0f} bytes"
        deadline.extend(missing)
        with part.open("ab" if resumed else "wb") as out:
            while chunk := response.read1(_CHUNK):  # To wait for a full chunk would hide a slow server.
                done += len(chunk)
                if done > (file.most if total is None else total):
                    raise _WrongFile(f"more than {(file.most if total is None else total):,} bytes came")
                if total is None and shutil.disk_usage(part.parent).free < _HEADROOM:
                    raise _BadAnswer(f"{part.parent} has no room for {part.name}, which has no end yet")
                out.write(chunk)
                if progress:
                    progress(done, total)
                if done - at >= limits.block:
                    at = done
                    deadline.extend(missing)
        if total is not None and done < total:
            raise ConnectionError(f"cut off after {done:,} of {total:,} bytes")


def _total(length: str | None, done: int, file: File) -> int | None:
    """Return the size that the file will have, by the server's Content-Length and by what is known of it, or None."""
    if length is None:
        return file.size
    if not (length.isascii() and length.isdecimal() and len(length) < 19):
        raise _BadAnswer(f"the server gives the length {length[:40]!r}")
    total = done + int(length)
    if file.size is not None and total != file.size:
        raise _BadAnswer(f"the server has {total:,} bytes, expected {file.size:,}")
    if file.size is None and total > file.most:
        raise _BadAnswer(f"the server has {total:,} bytes, expected at most {file.most:,}")
    return total


def _check(found: Path, file: File) -> None:
    size = found.stat().st_size
    if file.size is not None and size != file.size:
        raise _WrongFile(f"it has {size:,} bytes, expected {file.size:,}")
    for kind, expected in (("sha256", file.sha256), ("md5", file.md5)):
        if expected is not None:
            with found.open("rb") as content:
                digest = hashlib.file_digest(content, kind).hexdigest()
            if digest != expected.lower():
                raise _WrongFile(f"the {kind} is {digest}, expected {expected}")
    if file.sha256 is None and file.md5 is None and file.filename.endswith((".npz", ".zip")):
        try:
            with zipfile.ZipFile(found) as archive:
                broken = archive.testzip()
        except Exception as error:  # A damaged archive raises anything.
            raise _WrongFile(f"it is no whole zip archive ({error})") from None
        if broken:
            raise _WrongFile(f"{broken} inside it is damaged")
