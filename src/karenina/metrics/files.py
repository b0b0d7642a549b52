"""Codes and factors from the user's files: .npz, .csv, .parquet, or two files, codes first."""

import os
import warnings
import zipfile
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karenina._words import hint
from karenina.numerics.arrays import load_npy, load_npz, npz_keys, readable
from karenina.numerics.checks import as_factors, one_of

if TYPE_CHECKING:
    import pandas as pd

Read = tuple[NDArray[Any], NDArray[Any], tuple[str, ...] | None]
Names = str | Sequence[str] | None

MISSING = ("refuse", "drop")
IMAGE = "image"  # the column in which `karenina encode` names the images
_BEGINNINGS = {"codes": ("code", "latent"), "factors": ("factor",)}
_TABLES = (".csv", ".parquet")
_RULE = (
    "columns of codes must begin with 'code' or 'latent' and columns of factors with 'factor', or be named by codes= "
    "and factors= (--codes, --factors)"
)


class _Part(NamedTuple):
    """Codes or factors as a file holds them: an array, or a data frame. rows: the names of its rows, if it has some."""

    path: Path
    values: Any
    rows: "pd.Series | None" = None

    def holes(self, what: str) -> dict[str, NDArray[np.bool_]]:
        """Return which rows lack a value, for each column that lacks one; the column in words."""
        if hasattr(self.values, "columns"):
            found = {repr(name): self.values[name].isna().to_numpy() for name in self.values.columns}
        elif self.values.dtype.kind == "f" and self.values.ndim in (1, 2):
            columns = np.isnan(self.values.reshape(len(self.values), -1)).T
            found = {f"column {j} of {what}": column for j, column in enumerate(columns)}
        else:
            return {}
        return {name: column for name, column in found.items() if column.any()}

    def keep(self, rows: NDArray[Any]) -> "_Part":
        """Return the part with these rows alone, in this order."""
        if hasattr(self.values, "columns"):
            return self._replace(values=self.values.iloc[rows].reset_index(drop=True))
        return self._replace(values=self.values[rows])


def read_codes(
    paths: Sequence[str | os.PathLike[str]], *, codes: Names = None, factors: Names = None, missing: str = "refuse"
) -> Read:
    """Return codes (n, d), factors (n, k), and the names of the factors or None. Nothing is unpickled.

    Parameters
    ----------
    paths : one file, or two
        One .npz holds `codes`, `factors` and perhaps `factor_names`. One .csv or .parquet has one row per example;
        columns whose names begin with "code" or "latent" are codes, those that begin with "factor" are factors
        ("factor_shape" is named "shape"). Other columns of numbers are an error, other columns of text are left out
        with a warning.
        Of two files (each .npy, .csv or .parquet) the first holds codes and the second factors: all columns but the
        names of rows. A table that `karenina encode` wrote names them in its column `image`; if the table of factors
        has them, too, in `image` or as text in its first column (with or without the ending), rows are matched by
        name, else by their order.
    codes, factors : names, or text with commas between them, optional
        Columns of a table, or arrays of an .npz; * stands for any letters in the name of a column.
    missing : {"refuse", "drop"}
        What becomes of rows that lack a value.

    Text in a column of factors, and integers beyond 2^53, become labels in sorted order.
    """
    one_of("missing", missing, MISSING)
    files = [Path(path) for path in paths]
    for path in files:
        if not path.is_file():
            raise ValueError(f"no file {str(path)!r}")
    endings = [path.suffix.lower() for path in files]
    wanted = {"codes": _listed(codes, "codes"), "factors": _listed(factors, "factors")}
    names = None
    if endings == [".npz"]:
        first, second, names = _of_npz(files[0], wanted)
    elif len(files) == 1 and endings[0] in _TABLES:
        first, second = _of_table(files[0], wanted)
    elif len(files) == 2 and set(endings) <= {".npy", *_TABLES}:
        first = _whole(files[0], "codes", wanted["codes"])
        second = _whole(files[1], "factors", wanted["factors"], first.rows)
    else:
        asked = " ".join(path.name for path in files)
        raise ValueError(
            f"cannot read {asked}: expected one .npz, .csv or .parquet, or two .npy, .csv or .parquet (codes, then "
            "factors)"
        )
    first, second = _complete(first, second, missing)
    if hasattr(second.values, "columns"):
        names = tuple(_factor_name(name) for name in second.values.columns)
        second = second._replace(values=as_factors(second.values, str(second.path)))
    if hasattr(first.values, "columns"):
        first = first._replace(values=first.values.to_numpy(float, na_value=np.nan))
    return first.values, second.values, names


def _listed(names: Names, what: str) -> list[str] | None:
    if names is None:
        return None
    listed = [name.strip() for name in (names.split(",") if isinstance(names, str) else names) if name.strip()]
    if not listed:
        raise ValueError(f"{what} names nothing: expected columns or arrays")
    return listed


def _factor_name(column: str) -> str:
    return column[len("factor") :].lstrip("_:.- ") or column if column.lower().startswith("factor") else column


def _begins(name: str, what: str) -> bool:
    return name.lower().startswith(_BEGINNINGS[what])


def _not_both(codes: Sequence[str], factors: Sequence[str]) -> None:
    both = [name for name in codes if name in factors]
    if both:
        raise ValueError(f"{', '.join(both)} cannot be both a code and a factor")


def _of_npz(path: Path, wanted: dict[str, list[str] | None]) -> tuple[_Part, _Part, tuple[str, ...] | None]:
    import pandas as pd

    keys = {what: names or [what] for what, names in wanted.items()}
    _not_both(keys["codes"], keys["factors"])
    arrays = load_npz(path, *keys["codes"], *keys["factors"], "factor_names")
    missing = [name for names in keys.values() for name in names if name not in arrays]
    if missing:
        with zipfile.ZipFile(path) as archive:
            there = ", ".join(npz_keys(archive)) or "nothing"
        raise ValueError(f"{path} has no array {' and no '.join(missing)}; it holds {there}")
    parts = []
    for names in keys.values():
        found = [arrays[name] for name in names]
        if len(found) > 1:  # columns, which may be of different types
            shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(names, found))
            if any(array.ndim != 1 or len(array) != len(found[0]) for array in found):
                raise ValueError(f"{path}: arrays that are put together are columns of equally many rows, got {shapes}")
        parts.append(_Part(path, found[0] if len(found) == 1 else pd.DataFrame(dict(zip(names, found)))))
    labels = arrays.get("factor_names") if wanted["factors"] is None else None
    if labels is None:
        return parts[0], parts[1], None
    if labels.ndim > 1 or labels.dtype.kind not in "USiu":
        raise ValueError(f"{path}: factor_names is {labels.dtype} {labels.shape}, expected one name per factor")
    if labels.dtype.kind == "S":
        labels = np.strings.decode(labels, "utf-8", "replace")
    return parts[0], parts[1], tuple(map(str, np.atleast_1d(labels)))


def _table(path: Path) -> "pd.DataFrame":
    import pandas as pd

    with readable(path, f"a {path.suffix} table"):
        # Names of images stay text: 007 is not 7.
        frame = pd.read_csv(path, dtype={IMAGE: str}) if path.suffix.lower() == ".csv" else pd.read_parquet(path)
    frame.columns = [str(name).strip() for name in frame.columns]
    if len(set(frame.columns)) < len(frame.columns):
        raise ValueError(f"{path} has several columns of one name: {', '.join(frame.columns)}")
    return frame


def _named(path: Path, columns: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the columns that are wanted, in the order in which they were asked for."""
    found: list[str] = []
    for name in wanted:
        matches = [name] if name in columns else [column for column in columns if fnmatchcase(column, name)]
        if not matches:
            raise ValueError(f"{path} has no column {name!r}; {hint(name, columns)}")
        found += [column for column in matches if column not in found]
    return found


def _is_number(column: Any) -> bool:
    return column.dtype.kind in "biuf"


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(path: Path, frame: "pd.DataFrame") -> "pd.DataFrame":
    for name in frame.columns:
        if not _is_number(frame[name]):
            words = [(row, value) for row, value in enumerate(frame[name].astype(str)) if not _reads_as_number(value)]
            first = f": {words[0][1]!r} in row {words[0][0]}" if words else ""
            raise ValueError(f"{path}: the code column {name!r} is not numbers{first}")
    return frame


def _of_table(path: Path, wanted: dict[str, list[str] | None]) -> tuple[_Part, _Part]:
    """Return the codes and factors of one table."""
    frame = _table(path)
    columns = [name for name in frame.columns if name != IMAGE]
    named = {what: None if names is None else _named(path, columns, names) for what, names in wanted.items()}
    asked = [name for names in named.values() for name in names or ()]
    chosen = {}
    for what, names in named.items():
        found = [name for name in columns if _begins(name, what) and name not in asked]
        if names is None and not found and asked:  # the others are named, so these are the rest
            found = [name for name in columns if name not in asked and (what == "factors" or _is_number(frame[name]))]
        chosen[what] = found if names is None else names
    codes, factors = chosen["codes"], chosen["factors"]
    if not codes or not factors:
        raise ValueError(f"{path} has the columns {', '.join(columns)}; {_RULE}")
    _not_both(codes, factors)
    if None in named.values():  # no column is dropped silently, unless both codes and factors are named
        rest = [name for name in columns if name not in codes and name not in factors]
        rest = [name for name in rest if not any(_begins(name, what) for what in named)]
        unclear = [name for name in rest if _is_number(frame[name]) and not name.startswith("Unnamed: ")]
        if unclear:
            raise ValueError(f"{path}: {', '.join(unclear)} could be codes or factors; {_RULE}, or be removed")
        if rest:
            warnings.warn(f"{path}: left out {', '.join(rest)}; {_RULE}", stacklevel=3)
    return _Part(path, _numbers(path, frame[codes])), _Part(path, frame[factors])


def _whole(path: Path, what: str, wanted: list[str] | None, images: "pd.Series | None" = None) -> _Part:
    """Return the columns of a file that has codes alone, or factors alone. images: the names of the rows that are
    wanted."""
    if path.suffix.lower() == ".npy":
        if wanted is not None:
            raise ValueError(f"{path} is one array without names, so no {what} can be named: {', '.join(wanted)}")
        return _Part(path, load_npy(path))
    frame = _table(path)
    columns = list(frame.columns)
    text = [name for name in columns if not _is_number(frame[name]) and not hasattr(frame[name], "cat")]
    key = IMAGE if IMAGE in columns else None
    if key is None and columns[0] in text:  # names of rows: text that differs in every row, or is what is looked for
        first = frame[columns[0]].astype(str)
        known = () if images is None else (images, _stems(images))
        if any(first.isin(names).any() for names in known) or (first.is_unique and len(frame) > 2):
            key = columns[0]
    if wanted is not None:
        chosen = _named(path, columns, wanted)
    else:
        chosen = [name for name in columns if name != key]
        other = "factors" if what == "codes" else "codes"
        mixed = [name for name in chosen if _begins(name, other)]
        if mixed:
            raise ValueError(
                f"{path} should hold {what}, and {_some(mixed)} begin as {other} do: name {what} by {what}= (--{what})"
            )
        words = [name for name in text if what == "codes" and not _begins(name, what)]
        left = [name for name in chosen if name.startswith("Unnamed: ") or name in words]
        chosen = [name for name in chosen if name not in left]
        if not chosen:
            raise ValueError(f"{path} has no columns of {what}; it has {', '.join(columns) or 'none'}")
        if left:
            warnings.warn(f"{path}: left out {', '.join(left)}, expected columns of {what}", stacklevel=3)
    values = _numbers(path, frame[chosen]) if what == "codes" else frame[chosen]
    return _Part(path, values, None if key is None or key in chosen else frame[key].astype(str))


def _complete(codes: _Part, factors: _Part, missing: str) -> tuple[_Part, _Part]:
    """Return codes and factors of the same rows, in the same order, that have all values."""
    lacking: dict[str, NDArray[np.bool_]] = {}
    matched = codes.rows is not None and factors.rows is not None
    if matched:
        factors, there = _matched(codes, factors)
        if not there.all():
            assert codes.rows is not None
            without = codes.rows[~there].tolist()
            lacking[f"{factors.path} has no row for {_some(without)}"] = ~there
    else:
        for part in (codes, factors):
            if part.rows is not None and part.rows.name != IMAGE:
                other = codes.path if part is factors else factors.path
                why = f"which differs in every row, and {other} has no names of rows to match"
                warnings.warn(f"{part.path}: left out {part.rows.name!r}, {why}", stacklevel=4)
        there = np.ones(np.shape(codes.values)[:1] or 1, bool)
        sizes = [np.shape(part.values)[0] if np.ndim(part.values) else None for part in (codes, factors)]
        if None not in sizes and sizes[0] != sizes[1]:
            raise ValueError(f"{codes.path} has {sizes[0]} rows and {factors.path} {sizes[1]}, expected the same rows")
    for what, part in (("codes", codes), ("factors", factors)):
        for name, holes in part.holes(what).items():
            rows = np.flatnonzero(holes & there)
            if len(rows):
                where = f"in row{'s' * (len(rows) > 1)} {_some(rows.tolist())}"
                if codes.rows is not None and matched:
                    where = f"for {_some(codes.rows[rows].tolist())}"
                lacking[f"{name} has no value {where}"] = holes & there
    if not lacking:
        return codes, factors
    bad = np.logical_or.reduce(list(lacking.values()))
    where = "; ".join([*list(lacking)[:3], *([f"and {len(lacking) - 3} more columns"] if len(lacking) > 3 else [])])
    files = " and ".join(dict.fromkeys(str(part.path) for part in (codes, factors)))
    if bad.all():
        raise ValueError(f"{files}: no row has all values: {where}")
    count = f"{bad.sum():,} of {len(bad):,} rows"
    if missing == "refuse":
        verb = "lacks" if bad.sum() == 1 else "lack"
        raise ValueError(f"{files}: {count} {verb} a value: {where}; missing='drop' (--missing drop) leaves them out")
    warnings.warn(f"{files}: left out {count} that lack a value: {where}", stacklevel=4)
    kept = np.flatnonzero(~bad)
    return codes.keep(kept), factors.keep(kept)


def _matched(codes: _Part, factors: _Part) -> tuple[_Part, NDArray[np.bool_]]:
    """Return factors in the order of the codes, by the names of their rows, and which rows of the codes have some."""
    assert codes.rows is not None
    assert factors.rows is not None
    for part in (codes, factors):
        assert part.rows is not None
        again = part.rows[part.rows.duplicated()]
        if len(again):
            raise ValueError(f"{part.path}: {part.rows.name!r} names {_some(again.tolist())} more than once")
    known = {name: row for row, name in enumerate(factors.rows)}
    names = codes.rows.tolist()
    if not known.keys() & set(names):
        stems = _stems(names)
        if not known.keys() & set(stems):
            raise ValueError(
                f"{factors.path}: {factors.rows.name!r} has none of the names of images in {codes.path}: it has "
                f"{_some(list(known))}, expected such as {names[0]}"
            )
        names = stems
    places = np.array([known.get(name, -1) for name in names])
    unused = [name for name in known if name not in set(names)]
    if unused:
        warnings.warn(f"{factors.path} has rows without codes: {_some(unused)}", stacklevel=5)
    return factors.keep(places), places >= 0


def _stems(names: Iterable[str]) -> list[str]:
    return [name.rsplit(".", 1)[0] for name in names]


def _some(names: list[Any]) -> str:
    """Return the first three of the names, and how many more there are."""
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(map(str, names[:3]))}{rest}"
