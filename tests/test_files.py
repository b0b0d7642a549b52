import errno

import pytest

from karenina._files import atomic, sweep


def test_atomic_replaces_on_success(tmp_path):
    target = tmp_path / "deep" / "a.txt"
    for text in ("old", "new"):
        with atomic(target) as part:
            part.write_text(text)
    assert target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_atomic_keeps_the_old_file_on_failure(tmp_path, error):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write_half() -> None:
        with atomic(target) as part:
            part.write_text("ne")
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_full_disk_is_named_with_the_file(tmp_path):
    resource = pytest.importorskip("resource", reason="Windows has no limits of this kind")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def write(path):
        with atomic(path) as part:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
            try:
                part.write_bytes(bytes(100_000))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)

    with pytest.raises(OSError, match=r"File too large: '.*table.csv'") as said:
        write(tmp_path / "table.csv")
    assert said.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match="other.csv"), atomic(tmp_path / "table.csv"):
        (tmp_path / "other.csv").read_text()  # which names its own file


def test_sweeping_takes_what_nobody_writes_and_nothing_else(tmp_path):
    dead = tmp_path / ".a.txt.abcd1234.part.txt"
    others = [tmp_path / name for name in ("a.txt", ".hidden", ".a.part", "a.txt.part")]
    for path in (dead, *others):
        path.touch()
    with atomic(tmp_path / "b.txt") as part:
        sweep(tmp_path)
        assert part.exists()
        part.write_text("whole")
    assert not dead.exists()
    assert all(path.exists() for path in others)
    assert (tmp_path / "b.txt").read_text() == "whole"
    sweep(tmp_path / "nowhere")


def test_a_file_that_is_swept_before_it_is_locked_is_begun_again(tmp_path, monkeypatch):
    from karenina import _files

    make, made = _files.tempfile.mkstemp, []

    def swept(**options):
        handle, name = make(**options)
        made.append(name)
        if len(made) == 1:
            sweep(tmp_path)
        return handle, name

    monkeypatch.setattr(_files.tempfile, "mkstemp", swept)
    with atomic(tmp_path / "a.txt") as part:
        part.write_text("whole")
    assert len(made) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
