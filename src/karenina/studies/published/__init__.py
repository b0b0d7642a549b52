"""Scores of models that were trained for docs/results, one table per data set: something to compare a score with."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from karenina._files import atomic, checksum
from karenina._words import hint
from karenina.data import split_name
from karenina.metrics.registry import score_name
from karenina.studies.plan import Scoring
from karenina.studies.study import TASK, UNSUPERVISED, schema, write_parquet

if TYPE_CHECKING:
    import pandas as pd

    from karenina.metrics.scoring import Table

TABLES = Path(__file__).parent
CHECKSUMS = "checksums.json"
_EVALUATION = b"evaluation"


def baselines(data: str | None = None) -> "pd.DataFrame":
    """Return the scores of the published models, as `karenina.results` gives those of a study.

    Parameters
    ----------
    data : str, optional
        A data set, with its options ("dsprites:side=16") or without them ("dsprites"); by default all.

    Returns
    -------
    DataFrame
        One row per run x metric x factor: run, data, method, parameters, parameter, strength, setting, seed, latents,
        network, steps, metric, family, property, factor, value, std.

    >>> table = baselines("dsprites")
    >>> bool(table.query("metric == 'mig' and factor == ''").value.between(0, 1).all())
    True
    """
    import pandas as pd

    files = [_file(data)] if data is not None else sorted(TABLES.glob("*.parquet"))
    if not files:
        raise ValueError("no models are published with this version")
    return pd.concat([pq.read_table(_intact(file)).to_pandas() for file in files], ignore_index=True)


def scoring(data: str) -> Scoring:
    """Return how the published models of a data set were scored."""
    return Scoring.from_json(json.loads(pq.read_schema(_intact(_file(data))).metadata[_EVALUATION]))


def standing(table: "Table", data: str) -> "pd.DataFrame":
    """Return where the scores of a representation lie among those of the published models of a data set.

    Parameters
    ----------
    table : Table
        As `karenina.score` gives it, with the protocol of `scoring(data)`.
    data : str
        As for `baselines`.

    Returns
    -------
    DataFrame
        score, value, percentile (share of the published models below it, in percent; half of those equal), models,
        median, best. Only supervised scores that both have.

    >>> import karenina
    >>> rng = np.random.default_rng(0)
    >>> factors = rng.integers(4, size=(1000, 2))
    >>> perfect = karenina.score(factors, factors, metrics=["mig"])
    >>> standing(perfect, "dsprites").percentile.tolist()
    [100.0]
    """
    import pandas as pd

    check_protocol(table.settings.get("protocol"), data)
    frame = baselines(data)
    frame = frame[(frame["factor"] == "") & ~frame["family"].isin([*UNSUPERVISED, TASK])]
    lines = []
    for row in table.rows:
        others = frame[(frame["metric"] == row.metric) & (frame["property"] == row.property)]["value"].dropna()
        if len(others) and np.isfinite(row.value):
            below = ((others < row.value).mean() + (others <= row.value).mean()) / 2
            several = sum(other.metric == row.metric for other in table.rows) > 1
            name = score_name(row.metric, row.property, several=several)
            lines.append((name, row.value, 100 * below, len(others), others.median(), others.max()))
    if not lines:
        raise ValueError(f"none of these scores is published for {data}: {', '.join(frame['metric'].unique())} are")
    return pd.DataFrame(lines, columns=["score", "value", "percentile", "models", "median", "best"])


def check_protocol(protocol: str | None, data: str) -> None:
    """Raise a ValueError if the published models of a data set have scores of another protocol."""
    published = scoring(data).protocol
    if protocol != published:
        given, there = (name or "our own" for name in (protocol, published))
        raise ValueError(
            f"scores of protocol {given} cannot be compared with the published models of {data}, which have {there}"
        )


def publish(frame: "pd.DataFrame", how: Scoring, path: Path) -> None:
    """Write the table of one data set, and its checksum; the inverse of `baselines` and `scoring`."""
    table = pa.Table.from_pandas(frame, schema=schema("results"), preserve_index=False)
    write_parquet(path, table.replace_schema_metadata({_EVALUATION: json.dumps(asdict(how)).encode()}))
    known = _checksums(path.parent) | {path.name: checksum(path)}
    with atomic(path.parent / CHECKSUMS) as part:
        part.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _checksums(folder: Path) -> dict[str, str]:
    file = folder / CHECKSUMS
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _intact(file: Path) -> Path:
    """Return the table, if it is the one that was published; else a ValueError."""
    try:
        known = _checksums(file.parent).get(file.name)
    except (ValueError, AttributeError):
        known = None
    if known is None or checksum(file) != known:
        raise ValueError(f"{file} is damaged or was altered: its checksum is not the published one; reinstall karenina")
    return file


def _file(data: str) -> Path:
    found = {file.stem.replace("+", ":", 1): file for file in sorted(TABLES.glob("*.parquet"))}
    same = [file for name, file in found.items() if data in (name, split_name(name)[0])]
    if not same:
        raise ValueError(f"no published models of {data!r}; {hint(data, found)}")
    return same[0]
