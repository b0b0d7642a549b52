import io
import json
import struct
import sys
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

from karenina import cli
from karenina.metrics.files import read_codes

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
        ("a.csv", b"code,factor\n1,2\ny,3\n", "'code' is not numbers: 'y' in row 1"),
        ("a.parquet", b"PAR1", "not readable as a .parquet"),
        ("a.parquet", b"", "not readable as a .parquet"),
        ("a.txt", b"1 2", "expected one .npz"),
    ],
)
def test_wrong_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_codes([tmp_path / name])


def with_holes():
    table = frame().astype({"code_1": "Int64"})
    table.loc[2, "code_1"] = pd.NA
    table.loc[1, "factor_shape"] = None
    table.loc[2, "factor_x"] = np.nan
    return table


@pytest.mark.parametrize("form", ["csv", "parquet", "two", "npz", "npy"])
def test_missing_values_are_counted_and_left_out_on_request(tmp_path, form):
    table, end = with_holes(), "csv" if form == "two" else form
    paths = [tmp_path / f"t.{end}"]
    if form in ("npz", "npy", "two"):
        codes, factors = table.iloc[:, :3].astype(float), table.iloc[:, 3:]
        if form != "two":
            factors = factors.assign(factor_shape=[0.0, np.nan, 0.0, 1.0])
        if form == "npz":
            np.savez(paths[0], codes=codes, factors=factors)
        else:
            paths = [tmp_path / f"codes.{end}", tmp_path / f"factors.{end}"]
            for path, part in zip(paths, (codes, factors)):
                part.to_csv(path, index=False) if form == "two" else np.save(path, part)
    else:
        table.to_csv(paths[0], index=False) if form == "csv" else table.to_parquet(paths[0])
    with pytest.raises(ValueError, match="2 of 4 rows lack a value: .* has no value in row 2.*--missing drop") as said:
        read_codes(paths)
    column = "'code_1'" if form in ("csv", "parquet", "two") else "column 1 of codes"
    assert f"{column} has no value in row 2" in str(said.value)
    with pytest.warns(UserWarning, match="left out 2 of 4 rows"):
        codes, factors, _ = read_codes(paths, missing="drop")
    assert (codes == CODES[[0, 3]]).all()
    assert (factors == FACTORS[[0, 3]]).all()


def test_rows_that_all_lack_a_value_are_refused(tmp_path):
    frame().assign(code_1=np.nan).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="no row has all values: 'code_1' has no value in rows 0, 1, 2 and 1 more"):
        read_codes([tmp_path / "t.csv"], missing="drop")
    with pytest.raises(ValueError, match="missing must be one of refuse, drop, got 'x'"):
        read_codes([tmp_path / "t.csv"], missing="x")


FILES = [f"a{i}.png" for i in range(4)]
ENCODED = pd.DataFrame({"image": FILES, "latent_0": CODES[:, 0], "hair": CODES[:, 1], "latent_2": CODES[:, 2]})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_codes_as_encode_writes_them_are_matched_with_factors_by_the_names_of_images(tmp_path, ending):
    def write(table, name):
        path = tmp_path / f"{name}.{ending}"
        table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
        return path

    codes = write(ENCODED, "codes")
    factors = pd.DataFrame({"file": FILES, "shape": ["cube", "disc", "cube", "disc"], "x": FACTORS[:, 1]})
    turned = factors.iloc[[2, 0, 3, 1]]
    shorter = turned.assign(file=turned.file.str.removesuffix(".png"))
    for there in (factors, turned, shorter, turned.rename(columns={"file": "image"}), factors.drop(columns="file")):
        z, v, names = read_codes([codes, write(there, "factors")])
        assert (z == CODES).all()
        assert (v == FACTORS).all()
        assert names == ("shape", "x")
    with pytest.warns(UserWarning, match="factors.* has rows without codes: a2.png"):
        assert (read_codes([write(ENCODED.drop(2), "codes"), write(turned, "factors")])[1] == FACTORS[[0, 1, 3]]).all()
    with pytest.raises(ValueError, match="none of the names of images .*x/a0.png.* expected such as a0.png"):
        read_codes([write(ENCODED, "codes"), write(factors.assign(file="x/" + factors.file), "factors")])
    with pytest.raises(ValueError, match="'file' names a0.png more than once"):
        read_codes([codes, write(factors.assign(file=["a0.png", *FILES[:3]]), "factors")])
    with pytest.raises(ValueError, match="1 of 4 rows lacks a value: .*factors.* has no row for a1.png"):
        read_codes([codes, write(factors.drop(1), "factors")])
    with pytest.warns(UserWarning, match="left out 1 of 4 rows"):
        z, v, _ = read_codes([codes, write(factors.drop(1), "factors")], missing="drop")
    assert (z == CODES[[0, 2, 3]]).all()
    assert (v == FACTORS[[0, 2, 3]]).all()


def test_codes_of_an_array_are_numbered_and_factors_follow_in_order(tmp_path):
    ENCODED.assign(image=["0", "1", "2", "3"]).to_csv(tmp_path / "codes.csv", index=False)
    np.save(tmp_path / "factors.npy", FACTORS)
    z, v, names = read_codes([tmp_path / "codes.csv", tmp_path / "factors.npy"])
    assert (z == CODES).all()
    assert (v == FACTORS).all()
    assert names is None
    table = pd.DataFrame({"made": ["w", "x", "y", "z"], "x": FACTORS[:, 1]})
    table.to_csv(tmp_path / "factors.csv", index=False)
    np.save(tmp_path / "codes.npy", CODES)
    with pytest.warns(UserWarning, match="left out 'made', which differs in every row"):
        assert read_codes([tmp_path / "codes.npy", tmp_path / "factors.csv"])[2] == ("x",)
    np.save(tmp_path / "factors.npy", FACTORS[:3])
    with pytest.raises(ValueError, match=r"codes.csv has 4 rows and .*factors.npy 3"):
        read_codes([tmp_path / "codes.csv", tmp_path / "factors.npy"])


def test_one_table_with_codes_of_encode(tmp_path):
    table = pd.concat([ENCODED, frame().iloc[:, 3:]], axis=1).assign(image=range(4))
    table.rename(columns={"hair": "latent_1"}).to_csv(tmp_path / "t.csv", index=False)
    assert (read_codes([tmp_path / "t.csv"])[0] == CODES).all()
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="hair could be codes or factors; .*--codes"):
        read_codes([tmp_path / "t.csv"])
    for wanted in (["latent_0", "hair", "latent_2"], "latent_0,hair,latent_2", "*a*t_0, ha*, latent_2"):
        z, v, names = read_codes([tmp_path / "t.csv"], codes=wanted)
        assert (z == CODES).all()
        assert (v == FACTORS).all()
        assert names == ("shape", "x")


def test_columns_and_arrays_are_named(tmp_path):
    table = frame().rename(columns=lambda name: name.replace("code_", "z").removeprefix("factor_"))
    table.to_csv(tmp_path / "t.csv", index=False)
    for given in ({"codes": "z*"}, {"factors": "shape,x"}, {"codes": ["z0", "z1", "z2"], "factors": ["shape", "x"]}):
        z, v, names = read_codes([tmp_path / "t.csv"], **given)
        assert (z == CODES).all()
        assert (v == FACTORS).all()
        assert names == ("shape", "x")
    z, v, names = read_codes([tmp_path / "t.csv", tmp_path / "t.csv"], codes="z2,z0", factors="x")
    assert (z == CODES[:, [2, 0]]).all()
    assert (v == FACTORS[:, [1]]).all()
    np.savez(tmp_path / "a.npz", z=CODES, shape=["cube", "disc", "cube", "disc"], x=FACTORS[:, 1], both=FACTORS)
    z, v, names = read_codes([tmp_path / "a.npz"], codes="z", factors="shape,x")
    assert (z == CODES).all()
    assert (v == FACTORS).all()
    assert names == ("shape", "x")
    assert (read_codes([tmp_path / "a.npz"], codes="z", factors="both")[1] == FACTORS).all()


@pytest.mark.parametrize(
    ("paths", "given", "message"),
    [
        (["t.csv"], {"codes": "code_9"}, "t.csv has no column 'code_9'; did you mean code_"),
        (["t.csv"], {"codes": "q*"}, "no column 'q[*]'"),
        (["t.csv"], {"codes": ""}, "codes names nothing"),
        (["t.csv"], {"factors": "code_0,factor_x", "codes": "code_*"}, "code_0 cannot be both"),
        (["t.csv"], {"codes": "factor_shape", "factors": "factor_x"}, "'factor_shape' is not numbers"),
        (["a.npz"], {"codes": "z"}, "a.npz has no array z; it holds codes, factors"),
        (["a.npz"], {"factors": "codes"}, "codes cannot be both"),
        (["c.npy", "c.npy"], {"codes": "z"}, "c.npy is one array without names"),
        (["t.csv", "t.csv"], {}, "should hold codes, and .*factor_x begin as factors do"),
        (["f.csv", "t.csv"], {}, "should hold factors, and code_0.* begin as codes do"),
        (["t.csv", "a.npz"], {}, "expected one .npz"),
        (["w.csv", "f.csv"], {}, "'latent_0' is not numbers: '[?]' in row 1"),
        (["u.csv", "f.csv"], {}, "u.csv has no columns of codes; it has image, note"),
        (["t.csv", "t.csv", "t.csv"], {}, "expected one .npz"),
    ],
)
def test_wrong_names_are_one_line(tmp_path, paths, given, message):
    frame().to_csv(tmp_path / "t.csv", index=False)
    frame().iloc[:, :3].to_csv(tmp_path / "f.csv", index=False)
    np.savez(tmp_path / "a.npz", codes=CODES, factors=FACTORS)
    np.save(tmp_path / "c.npy", CODES)
    (tmp_path / "w.csv").write_text("image,latent_0\na,1\nb,?\n")
    (tmp_path / "u.csv").write_text("image,note\na,x\nb,y\n")
    with pytest.raises(ValueError, match=message):
        read_codes([tmp_path / path for path in paths], **given)


@pytest.mark.filterwarnings("default")
def test_score_takes_what_encode_wrote(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    factors = rng.integers(4, size=(200, 2))
    codes = pd.DataFrame(factors + 0.01 * rng.normal(size=(200, 2)), columns=["latent_0", "hair"])
    codes.insert(0, "image", [f"{i}.png" for i in range(200)])
    labels = pd.DataFrame(factors, columns=["shape", "x"]).assign(file=codes.image)[["file", "shape", "x"]]
    codes.to_csv(tmp_path / "codes.csv", index=False)
    labels.sample(frac=1, random_state=1).to_csv(tmp_path / "labels.csv", index=False)
    words = ["score", tmp_path / "codes.csv", tmp_path / "labels.csv", "--metrics", "mig", "--json"]
    monkeypatch.setattr(sys, "argv", ["karenina", *map(str, words)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 0
    assert json.loads(capsys.readouterr().out)["scores"][0]["value"] > 0.9
    labels.loc[3, "x"] = np.nan
    labels.to_csv(tmp_path / "labels.csv", index=False)
    code, lines = say(words, monkeypatch, capsys)
    assert code == 2
    assert len(lines) == 1
    assert "'x' has no value for 3.png" in lines[0]
    assert say([*words, "--missing", "drop", "--codes", "hair"], monkeypatch, capsys)[0] == 0
    assert say(["score", tmp_path, "--codes", "x"], monkeypatch, capsys)[0] == 2


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
