import pytest

from karenina._files import atomic


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
