import numpy as np
import pandas as pd
import pytest

from karenina.metrics.files import read_codes

CODES = np.arange(12.0).reshape(4, 3)
FACTORS = np.array([[0, 1], [1, 0], [0, 0], [1, 1]])


def test_every_form_gives_the_same_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", codes=CODES, factors=FACTORS, factor_names=["shape", "x"])
    np.save(tmp_path / "c.npy", CODES)
    np.save(tmp_path / "f.npy", FACTORS)
    frame = pd.DataFrame(CODES, columns=["code_0", "code_1", "code_2"])
    frame["factor_shape"] = ["cube", "disc", "cube", "disc"]
    frame["factor_x"] = FACTORS[:, 1]
    frame["note"] = "ignored"
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for paths, names in [
        (["a.npz"], ("shape", "x")),
        (["c.npy", "f.npy"], None),
        (["t.csv"], ("shape", "x")),
        (["t.parquet"], ("shape", "x")),
    ]:
        codes, factors, found = read_codes([tmp_path / path for path in paths])
        assert (codes == CODES).all()
        assert (factors == FACTORS).all()
        assert found == names


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", b"PK\x03\x04 cut", "not a readable .npz"),
        ("a.npz", b"<html>", "not a readable .npz"),
        ("a.npy", b"", "expected one .npz"),
        ("a.csv", b"a,b\n1,2\n", "must begin with 'code'"),
        ("a.csv", b"", "not a readable .csv"),
        ("a.csv", b"code,factor\n1,2\n3,\n", "'factor' has no value in row 1"),
        ("a.csv", b"code,factor\nx,2\ny,3\n", "'code' is not numbers"),
        ("a.parquet", b"PAR1", "not a readable .parquet"),
        ("a.txt", b"1 2", "expected one .npz"),
    ],
)
def test_wrong_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_codes([tmp_path / name])


def test_missing_arrays_and_pickles(tmp_path):
    np.savez(tmp_path / "a.npz", z=CODES)
    with pytest.raises(ValueError, match="no array codes and no factors; it holds z"):
        read_codes([tmp_path / "a.npz"])
    np.savez(tmp_path / "b.npz", codes=np.array([{}], dtype=object), factors=FACTORS)
    with pytest.raises(ValueError, match="not a readable .npz file of plain numbers"):
        read_codes([tmp_path / "b.npz"])
    with pytest.raises(ValueError, match="no file"):
        read_codes([tmp_path / "none.npz"])
