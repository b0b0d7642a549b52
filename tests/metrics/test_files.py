import io
import struct
import sys
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

from karenina import cli
from karenina.metrics.files import read_codes
from karenina.metrics.scoring import score

CODES = np.arange(12.0).reshape(4, 3)
FACTORS = np.array([[0, 1], [1, 0], [0, 0], [1, 1]])


def frame():
    table = pd.DataFrame(CODES, columns=["code_0", "code_1", "code_2"])
    table["factor_shape"] = ["cube", "disc", "cube", "disc"]
    table["factor_x"] = FACTORS[:, 1]
    return table


def test_every_form_gives_the_same_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", codes=CODES, factors=FACTORS, factor_names=["shape", "x"])
    np.savez_compressed(tmp_path / "b.npz", codes=CODES, factors=FACTORS, factor_names=np.array([b"shape", b"x"]))
    np.save(tmp_path / "c.npy", CODES)
    np.save(tmp_path / "f.npy", np.asfortranarray(FACTORS))
    frame().to_csv(tmp_path / "t.csv", index=False)
    frame().rename(columns=" {}".format).to_csv(tmp_path / "spaces.csv", index=False)
    frame().to_parquet(tmp_path / "t.parquet")
    for paths, names in [
        (["a.npz"], ("shape", "x")),
        (["b.npz"], ("shape", "x")),
        (["c.npy", "f.npy"], None),
        (["t.csv"], ("shape", "x")),
        (["spaces.csv"], ("shape", "x")),
        (["t.parquet"], ("shape", "x")),
    ]:
        codes, factors, found = read_codes([tmp_path / path for path in paths])
        assert (codes == CODES).all()
        assert (factors == FACTORS).all()
        assert found == names


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_no_column_is_dropped_silently(tmp_path, ending):
    def write(table):
        path = tmp_path / f"t.{ending}"
        table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
        return path

    path = write(frame().rename(columns={"code_0": "z0", "code_1": "z1"}))
    with pytest.raises(ValueError, match=f"t.{ending}: z0, z1 could be codes or factors; columns of codes must begin"):
        read_codes([path])
    path = write(frame().assign(note="text", when="Monday"))
    with pytest.warns(UserWarning, match=f"t.{ending}: left out note, when; columns of codes must begin with 'code'"):
        codes, factors, _ = read_codes([path])
    assert (codes == CODES).all()
    assert (factors == FACTORS).all()


def test_an_index_without_a_name_is_no_code(tmp_path):
    frame().to_csv(tmp_path / "t.csv")
    with pytest.warns(UserWarning, match="left out Unnamed: 0"):
        assert (read_codes([tmp_path / "t.csv"])[0] == CODES).all()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_large_integers_in_tables_are_labels(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    table = frame().assign(factor_x=2**60 + FACTORS[:, 1], factor_y=np.uint64(2**63) + np.arange(4, dtype=np.uint64))
    table["factor_z"] = [-(2**63), 0, 2**62, 0]
    table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
    assert read_codes([path])[1].T.tolist() == [
        FACTORS[:, 0].tolist(),
        FACTORS[:, 1].tolist(),
        [0, 1, 2, 3],
        [0, 1, 2, 1],
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", b"PK\x03\x04 cut", "not readable as an .npz"),
        ("a.npz", b"<html>", "not readable as an .npz"),
        ("a.npz", b"", "not readable as an .npz"),
        ("a.npy", b"", "expected one .npz"),
        ("a.csv", b"a,b\n1,2\n", "must begin with 'code'"),
        ("a.csv", b"", "not readable as a .csv"),
        ("a.csv", b"\xff\xfe\x00", "not readable as a .csv"),
        ("a.csv", b"code,factor\n1,2\n3,\n", "'factor' has no value in row 1"),
        ("a.csv", b"code,factor\nx,2\ny,3\n", "'code' is not numbers"),
        ("a.parquet", b"PAR1", "not readable as a .parquet"),
        ("a.parquet", b"", "not readable as a .parquet"),
        ("a.txt", b"1 2", "expected one .npz"),
    ],
)
def test_wrong_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_codes([tmp_path / name])


def test_missing_values_of_codes_are_named(tmp_path):
    table = frame().astype({"code_1": "Int64"})
    table.loc[2, "code_1"] = pd.NA
    table.to_parquet(tmp_path / "t.parquet")
    codes, factors, _ = read_codes([tmp_path / "t.parquet"])
    with pytest.raises(ValueError, match="nan at row 2, column 1"):
        score(codes, factors)


def test_missing_arrays_and_pickles(tmp_path):
    np.savez(tmp_path / "a.npz", z=CODES)
    with pytest.raises(ValueError, match="no array codes and no factors; it holds z"):
        read_codes([tmp_path / "a.npz"])
    np.savez(tmp_path / "b.npz", codes=np.array([{}], dtype=object), factors=FACTORS)
    with pytest.raises(ValueError, match="Python objects, which are not loaded"):
        read_codes([tmp_path / "b.npz"])
    with pytest.raises(ValueError, match="no file"):
        read_codes([tmp_path / "none.npz"])


def test_arrays_that_nobody_asked_for_are_not_read(tmp_path):
    np.savez(tmp_path / "a.npz", codes=CODES, factors=FACTORS, images=np.array([{}], dtype=object))
    assert (read_codes([tmp_path / "a.npz"])[0] == CODES).all()


def npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def claim(header):
    """A .npy with this header and a few bytes of data."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(64)


def npz(compression=zipfile.ZIP_STORED, **members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, data in {"codes": npy(CODES), "factors": npy(FACTORS), **members}.items():
            archive.writestr(f"{name}.npy", data)
    return content.getvalue()


def flagged(content, field, value):
    """The archive with a field of its members' headers changed: 6 flags, 8 compression (in the local header)."""
    content = bytearray(content)
    for magic, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        at = content.find(magic)
        while at >= 0:
            content[at + field + shift] = value
            at = content.find(magic, at + 1)
    return bytes(content)


HEADER = "{{'descr': {!r}, 'fortran_order': False, 'shape': {}}}"
HOSTILE_NPZ = {
    "encrypted": flagged(npz(), 6, 1),
    "unknown compression": flagged(npz(), 8, 97),
    "deflated, it says": flagged(npz(), 8, 8),
    "lzma, it says": flagged(npz(), 8, 14),
    "bz2, it says": flagged(npz(), 8, 12),
    "100 GB": npz(codes=claim(HEADER.format("<f8", (4, 3_125_000_000)))),
    "100 GB of names": npz(factor_names=claim(HEADER.format("<U25000000000", (1,)))),
    "more than can be counted": npz(factors=claim(HEADER.format("<i8", (10**30, 2)))),
    "negative": npz(codes=claim(HEADER.format("<f8", (-4, -3)))),
    "half a header": npz(codes=claim("{'descr': (((")),
    "deep header": npz(codes=claim("[" * 9000)),
    "no dictionary": npz(codes=claim("[1, 2]")),
    "no such type": npz(codes=claim(HEADER.format("<q9", (4, 3)))),
    "header of another version": npz(codes=npy(CODES)[:6] + b"\x09\x00" + npy(CODES)[8:]),
    "empty member": npz(codes=b""),
    "cut member": npz(factors=npy(FACTORS)[:-8]),
    "text as a member": npz(codes=b"hello"),
    "objects": npz(factors=claim(HEADER.format("|O", (4, 2)))),
    "complex factors": npz(factors=npy(FACTORS * 1j)),
    "dates": npz(factors=npy(FACTORS.astype("datetime64[D]"))),
    "records": npz(factors=npy(np.zeros(4, [("a", int), ("b", float)]))),
    "one factor for all": npz(factors=npy(np.array(3))),
    "a cube of factors": npz(factors=npy(np.zeros((4, 2, 2)))),
    "no rows": npz(codes=npy(CODES[:0]), factors=npy(FACTORS[:0])),
    "no columns": npz(factors=npy(FACTORS[:, :0])),
    "large labels": npz(factors=npy(2**60 + FACTORS)),
    "not a number": npz(codes=npy(CODES * np.nan)),
    "names in a square": npz(factor_names=npy(np.full((2, 2), "x"))),
    "one name": npz(factor_names=npy(np.array("x"))),
    "names that are numbers": npz(factor_names=npy(np.array([0.5, 1.5]))),
    "a single array": npy(CODES),
    "directory alone": npz()[-300:],
}


def say(words, monkeypatch, capsys):
    """What the command line answers: (exit code, the lines on stderr)."""
    monkeypatch.setattr(sys, "argv", ["karenina", *map(str, words)])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as left:
        cli.main()
    return left.value.code, capsys.readouterr().err.splitlines()


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", HOSTILE_NPZ)
def test_hostile_npz_is_one_line(kind, tmp_path, monkeypatch, capsys):
    path = tmp_path / "a.npz"
    path.write_bytes(HOSTILE_NPZ[kind])
    code, lines = say(["score", path, "--metrics", "mig"], monkeypatch, capsys)
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith("karenina: ")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY", npy(CODES)[:40], npy(CODES)[:-1], b"hello", HOSTILE_NPZ["100 GB"]]
)
@pytest.mark.parametrize("place", [0, 1])
def test_hostile_npy_is_one_line(content, place, tmp_path, monkeypatch, capsys):
    paths = [tmp_path / "codes.npy", tmp_path / "factors.npy"]
    for i, path in enumerate(paths):
        path.write_bytes(content if i == place else npy(CODES))
    code, lines = say(["score", *paths, "--metrics", "mig"], monkeypatch, capsys)
    assert code == 2
    assert len(lines) == 1
    assert paths[place].name in lines[0]


@pytest.mark.parametrize("whole", [npz(), npz(zipfile.ZIP_DEFLATED), npz(zipfile.ZIP_BZIP2), npz(zipfile.ZIP_LZMA)])
def test_any_damage_is_found_or_harmless(whole, tmp_path):
    """A bit changed or the end cut off, anywhere: an error of one line, or the numbers that were written."""
    path = tmp_path / "a.npz"
    rng = np.random.default_rng(0)
    messages = []
    for _ in range(150):
        content = bytearray(whole)
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(content if rng.random() < 0.8 else content[: rng.integers(len(content))])
        try:
            codes, factors, _ = read_codes([path])
        except ValueError as error:
            messages.append(str(error))
        else:
            assert np.array_equal(codes, CODES)
            assert np.array_equal(factors, FACTORS)
    assert len(messages) > 50
    assert not any("\n" in message for message in messages)
