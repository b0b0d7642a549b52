"""Downloads, against a server on this machine that cuts, forgets and lies as asked."""

import contextlib
import gzip
import hashlib
import io
import itertools
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest

from karenina.data import download as module
from karenina.data.download import (
    DSPRITES,
    SHAPES3D,
    SMALLNORB,
    SOURCES,
    DownloadError,
    File,
    get,
    get_file,
    unpack_cars,
)

CONTENT = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8).tobytes()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """files: path -> bytes. cut: bytes after which each of the next `cuts` answers ends. requests: (path, Range).

    lengths: path -> what is said of the length, None for nothing. drip: paths whose bytes come one by one. endless:
    paths that never end. gate: after 300,000 bytes every answer waits for it.
    """

    daemon_threads = True

    def handle_error(self, request, client_address):
        """Say nothing of clients that went away: other tests read what is printed."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {"/file.bin": CONTENT}
        self.cut, self.cuts, self.ranges, self.stall, self.status = 0, 0, True, None, {}
        self.lengths, self.drip, self.endless, self.gate = {}, set(), set(), None
        self.requests = []

    def url(self, path="/file.bin"):
        return f"http://127.0.0.1:{self.server_port}{path}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.requests.append((self.path, wanted))
        if server.status.get(self.path):
            return self.send_error(server.status[self.path].pop(0))
        content = server.files.get(self.path)
        if content is None:
            return self.send_error(404)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and server.ranges else 0
        if start and start >= len(content):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        length = server.lengths.get(self.path, str(len(content) - start))
        if length is not None:
            self.send_header("Content-Length", length)
        self.end_headers()
        body = content[start:]
        self.close_connection = True
        with contextlib.suppress(ConnectionError):
            if server.gate:
                self.wfile.write(body[:300_000])
                server.gate.wait(60)
                return self.wfile.write(body[300_000:])
            while self.path in server.endless:
                self.wfile.write(body)
            if self.path in server.drip:
                self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for i in range(len(body)):
                    self.wfile.write(body[i : i + 1])
                    time.sleep(0.001)
        if server.cuts:
            server.cuts -= 1
            body = body[: server.cut]
        if server.stall:
            self.wfile.write(body[: server.stall])
            self.wfile.flush()
            time.sleep(60)
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def download(urls, path, *, progress=None, retries=5, backoff=1.0, patience=60.0, slowest=1000.0, **known):
    path.parent.mkdir(parents=True, exist_ok=True)
    limits = {"retries": retries, "backoff": backoff, "patience": patience, "slowest": slowest}
    return get_file(File(path.name, tuple(urls), **known), path.parent, progress, **limits)


def test_plain(server, tmp_path):
    seen = []
    path = download(
        [server.url()],
        tmp_path / "new" / "file.bin",
        sha256=SHA256,
        size=len(CONTENT),
        progress=lambda *step: seen.append(step),
    )
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    assert seen[-1] == ("file.bin", len(CONTENT), len(CONTENT))


def test_cut_connections_are_taken_up_where_they_were_cut(server, tmp_path):
    server.cut, server.cuts = 200_000, 3
    path = download([server.url()], tmp_path / "file.bin", sha256=SHA256, backoff=0)
    assert path.read_bytes() == CONTENT
    assert [wanted for _, wanted in server.requests] == [None, "bytes=200000-", "bytes=400000-", "bytes=600000-"]


def test_a_part_from_an_earlier_run_is_continued(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    assert download([server.url()], tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    assert server.requests == [("/file.bin", "bytes=1000-")]


def test_a_whole_part_needs_nothing_more(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert download([server.url()], tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_a_server_that_ignores_ranges_starts_again(server, tmp_path):
    server.ranges = False
    server.cut, server.cuts = 300_000, 1
    assert download([server.url()], tmp_path / "file.bin", sha256=SHA256, backoff=0).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.requests] == [None, "bytes=300000-"]


def test_a_part_of_another_file_is_thrown_away(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"something else")
    assert download([server.url()], tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.requests] == ["bytes=14-", None]


def test_it_gives_up_when_nothing_more_comes(server, tmp_path):
    server.cut, server.cuts = 0, 100
    with pytest.raises(DownloadError, match="cut off after 0 of 1,048,576 bytes"):
        download([server.url()], tmp_path / "file.bin", retries=3, backoff=0)
    assert len(server.requests) == 4


def test_busy_servers_are_asked_again(server, tmp_path):
    server.status["/file.bin"] = [503, 429]
    assert download([server.url()], tmp_path / "file.bin", sha256=SHA256, backoff=0).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    with pytest.raises(DownloadError, match=f"the sha256 is {SHA256}, expected {'0' * 64}"):
        download([server.url()], tmp_path / "file.bin", sha256="0" * 64)
    with pytest.raises(DownloadError, match=f"the md5 is {hashlib.md5(CONTENT).hexdigest()}, expected {'0' * 32}"):
        download([server.url()], tmp_path / "file.bin", md5="0" * 32)
    with pytest.raises(DownloadError, match="1,048,576 bytes, expected 7"):
        download([server.url()], tmp_path / "file.bin", size=7)
    assert list(tmp_path.iterdir()) == []


def test_mirrors_in_order(server, tmp_path):
    server.files["/page.bin"] = b"<html>this file has moved</html>"
    gone = "http://127.0.0.1:9/file.bin"  # the discard port: nobody listens
    urls = [server.url("/missing.bin"), gone, server.url("/page.bin"), server.url()]
    assert download(urls, tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    assert [path for path, _ in server.requests] == ["/missing.bin", "/page.bin", "/file.bin"]


def test_when_all_mirrors_fail_each_is_named(server, tmp_path):
    with pytest.raises(DownloadError, match=r"/a: HTTP Error 404.*/b: HTTP Error 404"):
        download([server.url("/a"), server.url("/b")], tmp_path / "file.bin")
    with pytest.raises(DownloadError, match="No address"):
        download([], tmp_path / "file.bin")
    assert list(tmp_path.iterdir()) == []


def test_no_room_on_the_disk(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: type("usage", (), {"free": 10}))
    with pytest.raises(OSError, match="no room for file.bin.part"):
        download([server.url()], tmp_path / "file.bin")
    assert list(tmp_path.iterdir()) == []


def test_archives_without_a_known_checksum_are_checked_by_their_own(server, tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("images.npy", CONTENT)
    whole = content.getvalue()
    server.files["/whole.npz"] = whole
    server.files["/damaged.npz"] = whole[:5000] + b"!" + whole[5001:]
    server.files["/page.npz"] = b"<html>"
    urls = [server.url("/page.npz"), server.url("/damaged.npz")]
    with pytest.raises(DownloadError, match=r"no whole zip archive.*images.npy inside it is damaged"):
        download(urls, tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []
    assert download([*urls, server.url("/whole.npz")], tmp_path / "a.npz").read_bytes() == whole


def test_a_kill_leaves_a_part_only(server, tmp_path):
    server.stall = 300_000
    code = (
        "import sys; from pathlib import Path; from karenina.data.download import File, get_file;"
        "path = Path(sys.argv[2]);"
        "get_file(File(path.name, (sys.argv[1],)), path.parent, lambda *step: print(*step, flush=True))"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, server.url(), str(tmp_path / "file.bin")], stdout=subprocess.PIPE
    )
    with child:
        child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin.part"]
    server.stall = None
    assert download([server.url()], tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin"]


def test_get_unpacks_and_is_done_once(server, tmp_path, monkeypatch):
    server.files["/x.mat.gz"] = gzip.compress(CONTENT)
    files = (
        File("x.mat.gz", (server.url("/x.mat.gz"),), unpack="gunzip"),
        File("file.bin", (server.url(),), sha256=SHA256),
    )
    monkeypatch.setitem(SOURCES, "mine", files)
    assert get("mine", tmp_path) == [tmp_path / "x.mat", tmp_path / "file.bin"]
    assert (tmp_path / "x.mat").read_bytes() == CONTENT
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.bin", "x.mat"]
    count = len(server.requests)
    assert get("mine", tmp_path) == [tmp_path / "x.mat", tmp_path / "file.bin"]
    assert len(server.requests) == count


@pytest.fixture
def waiting(monkeypatch):
    """Set when a download says that it waits for another."""
    said = threading.Event()
    monkeypatch.setattr(module, "warnings", SimpleNamespace(warn=lambda *args, **kwargs: said.set()))
    return said


def test_of_two_downloads_into_one_folder_the_second_waits_and_takes_what_the_first_got(server, tmp_path, waiting):
    server.gate, begun = threading.Event(), threading.Event()
    path = tmp_path / "file.bin"
    with ThreadPoolExecutor() as pool:
        first = pool.submit(download, [server.url()], path, sha256=SHA256, progress=lambda *step: begun.set())
        assert begun.wait(30)
        second = pool.submit(download, [server.url()], path, sha256=SHA256)
        try:
            assert waiting.wait(30)
        finally:
            server.gate.set()
        assert first.result() == second.result() == path
    assert path.read_bytes() == CONTENT
    assert len(server.requests) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_when_the_first_of_two_is_killed_the_second_resumes(server, tmp_path, waiting):
    server.stall = 300_000
    code = (
        "import sys; from pathlib import Path; from karenina.data.download import File, get_file;"
        "path = Path(sys.argv[2]);"
        "get_file(File(path.name, (sys.argv[1],)), path.parent, lambda *step: print(*step, flush=True))"
    )
    path = tmp_path / "file.bin"
    child = subprocess.Popen([sys.executable, "-c", code, server.url(), str(path)], stdout=subprocess.PIPE)
    with child, ThreadPoolExecutor() as pool:
        child.stdout.readline()
        second = pool.submit(download, [server.url()], path, sha256=SHA256)
        try:
            assert waiting.wait(30)
            server.stall = None
        finally:
            os.kill(child.pid, signal.SIGKILL)
        assert second.result().read_bytes() == CONTENT
    assert server.requests[1][1].startswith("bytes=")
    assert list(tmp_path.iterdir()) == [path]


def test_many_downloads_into_one_folder(server, tmp_path, waiting):
    server.cut, server.cuts = 150_000, 4
    path = tmp_path / "file.bin"
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(download, [server.url()], path, sha256=SHA256, backoff=0) for _ in range(8)]
        assert [job.result() for job in jobs] == [path] * 8
    assert path.read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [path]


def test_two_that_unpack(server, tmp_path, monkeypatch, waiting):
    server.files["/x.mat.gz"] = gzip.compress(CONTENT)
    monkeypatch.setitem(SOURCES, "mine", (File("x.mat.gz", (server.url("/x.mat.gz"),), unpack="gunzip"),))
    server.gate, begun = threading.Event(), threading.Event()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(get, "mine", tmp_path, lambda *step: begun.set())
        assert begun.wait(30)
        second = pool.submit(get, "mine", tmp_path)
        try:
            assert waiting.wait(30)
        finally:
            server.gate.set()
        assert first.result() == second.result() == [tmp_path / "x.mat"]
    assert (tmp_path / "x.mat").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["x.mat"]
    assert len(server.requests) == 1


def test_without_locks_everybody_has_a_part_of_their_own(server, tmp_path, monkeypatch):
    def none(*args):
        raise OSError("no locks here")

    monkeypatch.setattr("fcntl.flock", none)
    server.gate, begun = threading.Event(), [threading.Event(), threading.Event()]
    path = tmp_path / "file.bin"
    with ThreadPoolExecutor() as pool:
        jobs = [
            pool.submit(download, [server.url()], path, sha256=SHA256, progress=lambda *step, one=one: one.set())
            for one in begun
        ]
        try:
            assert all(one.wait(120) for one in begun)
            assert len(list(tmp_path.iterdir())) == 2
        finally:
            server.gate.set()
        assert [job.result() for job in jobs] == [path, path]
    assert path.read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_in_place_is_checked_and_kept(server, tmp_path, monkeypatch):
    files = (
        File("file.bin", (server.url(),), sha256=SHA256),
        File("x.mat.gz", (server.url("/x.mat.gz"),), size=20, unpack="gunzip"),
    )
    for i, (file, message) in enumerate(zip(files, ("the sha256 is", "it has 5 bytes, expected 20"))):
        monkeypatch.setitem(SOURCES, "mine", (file,))
        folder = tmp_path / str(i)
        folder.mkdir()
        (folder / file.filename).write_bytes(b"mine!")
        with pytest.raises(DownloadError, match=f"{file.filename} is there, but {message}"):
            get("mine", folder)
        assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [(file.filename, b"mine!")]
    assert server.requests == []


def test_a_damaged_archive_without_a_checksum(server, tmp_path, monkeypatch):
    packed = gzip.compress(CONTENT)
    for name, unpack in (("x.mat.gz", "gunzip"), ("cars.tar.gz", "cars")):
        for content in (packed[:5000], b"hello", packed[:5000] + b"damaged!" + packed[5008:]):
            server.files[f"/{name}"] = content
            monkeypatch.setitem(SOURCES, "mine", (File(name, (server.url(f"/{name}"),), unpack=unpack),))
            with pytest.raises((DownloadError, ValueError), match="is damaged|has no files"):
                get("mine", tmp_path)
            for path in tmp_path.iterdir():
                path.unlink()  # it says which


@pytest.mark.parametrize(
    ("length", "message"),
    [
        ("12abc", "gives the length '12abc'"),
        ("-5", "gives the length '-5'"),
        ("1e6", "gives the length '1e6'"),
        ("1048576, 1048576", "gives the length"),
        ("9" * 5000, "gives the length '9999"),
        (str(10**16), "has 10,000,000,000,000,000 bytes, expected at most"),
    ],
)
def test_a_server_that_lies_about_the_length_is_left_for_the_next(server, tmp_path, length, message):
    server.files["/lies.bin"], server.lengths["/lies.bin"] = CONTENT, length
    with pytest.raises(DownloadError, match=message):
        download([server.url("/lies.bin")], tmp_path / "file.bin", backoff=0)
    assert list(tmp_path.iterdir()) == []
    # What there was before is not lost on it.
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    server.ranges = True
    urls = [server.url("/lies.bin"), server.url()]
    assert download(urls, tmp_path / "file.bin", sha256=SHA256, backoff=0).read_bytes() == CONTENT
    assert server.requests[-1] == ("/file.bin", "bytes=1000-")


def test_a_mirror_too_large_for_the_disk_is_left_for_the_next(server, tmp_path, monkeypatch):
    server.files["/lies.bin"], server.lengths["/lies.bin"] = CONTENT, str(10**9)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: SimpleNamespace(free=10**8))
    urls = [server.url("/lies.bin"), server.url()]
    assert download(urls, tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT


@pytest.mark.parametrize("known", [{"size": len(CONTENT)}, {"most": 2 * len(CONTENT)}])
def test_a_body_without_end_is_left_for_the_next(server, tmp_path, known):
    server.files["/endless.bin"], server.lengths["/endless.bin"] = CONTENT, None
    server.endless.add("/endless.bin")
    largest = []
    urls = [server.url("/endless.bin"), server.url()]
    path = download(urls, tmp_path / "file.bin", sha256=SHA256, progress=lambda *step: largest.append(step[1]), **known)
    assert path.read_bytes() == CONTENT
    assert max(largest) <= next(iter(known.values()))


def test_a_body_without_end_does_not_fill_the_disk(server, tmp_path, monkeypatch):
    server.lengths["/file.bin"] = None
    server.endless.add("/file.bin")
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: SimpleNamespace(free=10**8))
    with pytest.raises(DownloadError, match="no room for file.bin.part, which has no end yet"):
        download([server.url()], tmp_path / "file.bin")
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_sends_byte_by_byte_is_stalled(server, tmp_path):
    server.files["/slow.bin"] = CONTENT
    server.drip.add("/slow.bin")
    tiny = {"patience": 0.1, "slowest": 100_000, "backoff": 0.0}
    with pytest.raises(DownloadError, match=r"stalled: fewer than 10,000 bytes in 0.1 seconds"):
        download([server.url("/slow.bin")], tmp_path / "file.bin", retries=2, **tiny)
    assert len(server.requests) == 3
    kept = (tmp_path / "file.bin.part").read_bytes()
    assert kept
    assert CONTENT.startswith(kept)
    urls = [server.url("/slow.bin"), server.url()]
    assert download(urls, tmp_path / "file.bin", sha256=SHA256, retries=0, **tiny).read_bytes() == CONTENT
    path, asked = server.requests[-1]
    assert (path, asked.startswith("bytes=")) == ("/file.bin", True)


DRIPS = {
    "status line": (b"", b"HTTP/1.1 200 OK" + b"K" * 1000),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"A: " + b"a" * 1000),
    "continues": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "length of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0" * 1000),
    "extension of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;" + b"x" * 999),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),
    "nothing": (b"", b""),
}


@pytest.fixture
def dripping():
    """A function that opens a server which answers with some bytes at once, and then others one by one, for ever."""
    with contextlib.ExitStack() as stack:
        over = threading.Event()

        def serve(listener, first, then):
            with contextlib.suppress(OSError):
                while not over.is_set():
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.recv(65536)
                        connection.sendall(first)
                        for byte in itertools.cycle(then or [None]):
                            if byte is not None:
                                connection.send(bytes([byte]))
                            if over.wait(0.002):
                                break

        def begin(first, then):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            thread = threading.Thread(target=serve, args=(listener, first, then), daemon=True)
            thread.start()
            return f"http://127.0.0.1:{listener.getsockname()[1]}/file.bin"

        yield begin
        over.set()


@pytest.mark.parametrize("what", DRIPS)
def test_no_part_of_an_answer_may_drip_for_ever(what, dripping, server, tmp_path):
    slow, tiny = dripping(*DRIPS[what]), {"patience": 0.15, "slowest": 100_000, "backoff": 0.0, "retries": 0}
    began = time.monotonic()
    with pytest.raises(DownloadError, match=r"stalled: (no whole answer|fewer than 15,000 bytes) in 0.15 seconds"):
        download([slow], tmp_path / "file.bin", **tiny)
    assert time.monotonic() - began < 5
    assert download([slow, server.url()], tmp_path / "file.bin", sha256=SHA256, **tiny).read_bytes() == CONTENT


def test_addresses_without_encryption_have_their_files_checked():
    files = [file for files in SOURCES.values() for file in files if any(url.startswith("http:") for url in file.urls)]
    assert [file.filename for file in files] == ["nips2015-analogy-data.tar.gz"]
    assert all(file.sha256 or file.md5 for file in files)


def tar(path, names):
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"car"))
        link = tarfile.TarInfo("data/cars/car_009_mesh.mat")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)


def test_cars_are_unpacked_and_nothing_else(server, tmp_path, monkeypatch):
    names = ["data/cars/car_001_mesh.mat", "data/cars/list.txt", "data/shapes48.mat", "../../cars/car_002_mesh.mat"]
    tar(tmp_path / "cars.tar.gz", names)
    server.files["/cars.tar.gz"] = (tmp_path / "cars.tar.gz").read_bytes()
    monkeypatch.setitem(SOURCES, "cars3d", (File("cars.tar.gz", (server.url("/cars.tar.gz"),), unpack="cars"),))
    folder = tmp_path / "deep" / "folder"
    assert get("cars3d", folder) == [folder / "cars"]
    assert sorted(path.name for path in (folder / "cars").iterdir()) == ["car_001_mesh.mat", "car_002_mesh.mat"]
    assert [path.name for path in folder.iterdir()] == ["cars"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cars.tar.gz", "deep"]


def test_an_archive_without_cars(tmp_path):
    tar(tmp_path / "a.tar.gz", ["data/sprites/a.mat"])
    with pytest.raises(ValueError, match="no files cars"):
        unpack_cars(tmp_path / "a.tar.gz", tmp_path / "cars")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]


def test_unknown_names(tmp_path):
    with pytest.raises(ValueError, match="did you mean shapes3d"):
        get("shapes3", tmp_path)
    with pytest.raises(ValueError, match="known: dsprites"):
        get("zzz", tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_sources_name_the_files_that_the_readers_look_for():
    names = {name: [file.filename for file in files] for name, files in SOURCES.items()}
    assert names["dsprites"] == [f"{DSPRITES}.npz"]
    assert names["shapes3d"] == [SHAPES3D]
    kinds = ("cat", "dat", "info")
    assert sorted(names["smallnorb"]) == sorted(f"{s}-{k}.mat.gz" for s in SMALLNORB.values() for k in kinds)
    for version in ("toy", "realistic", "real"):
        assert names[f"mpi3d_{version}"] == [f"mpi3d_{version}.npz"]
    for files in SOURCES.values():
        for file in files:
            assert all(url.startswith(("http://", "https://")) for url in file.urls)
            assert file.sha256 is None or len(file.sha256) == 64
            assert file.md5 is None or len(file.md5) == 32
