"""A table beside the paper's: merged by its keys, as CSV (tidy) and as Markdown (in the paper's form)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from karenina.data import split_name
from karenina.papers import Item, Printed, printed

Metrics = Mapping[str, tuple[str, str]]  # the paper's name -> metric and property in the results

BETAVAE: Metrics = {"BetaVAE score": ("z_diff", "modularity")}
FACTORVAE: Metrics = {"FactorVAE score": ("z_min_variance", "modularity")}
MIG: Metrics = {"MIG": ("mig", "compactness")}
DCI: Metrics = {"DCI Disentanglement": ("dci_boosted", "modularity")}

# How pages spell what tables key by.
NAMES = {
    "beta_vae": "β-VAE",
    "annealed_vae": "AnnealedVAE (CCI-VAE)",
    "factor_vae": "FactorVAE",
    "beta_tcvae": "β-TCVAE",
    "dip_vae": "DIP-VAE-I and -II",
    "dip_vae_i": "DIP-VAE-I",
    "dip_vae_ii": "DIP-VAE-II",
    "vae": "VAE",
    "pca": "PCA",
    "infogan": "InfoGAN",
    "ada_gvae": "Ada-GVAE",
    "ada_mlvae": "Ada-ML-VAE",
    "hfs": "β-VAE + HFS",
    "qlae": "QLAE",
    "dsprites": "dSprites",
    "color_dsprites": "Color-dSprites",
    "noisy_dsprites": "Noisy-dSprites",
    "scream_dsprites": "Scream-dSprites",
    "shapes3d": "Shapes3D",
    "cars3d": "Cars3D",
    "smallnorb": "SmallNORB",
}


@dataclass(frozen=True, eq=False)
class PaperTable:
    """Our side of a paper's table.

    frame: keys, then "value" and perhaps "std" and more. rows, columns: keys down and across. digits: as the paper
    prints. note: what a reader must know.
    """

    frame: pd.DataFrame
    rows: Sequence[str]
    columns: Sequence[str] = ()
    digits: int = 2
    note: str = ""


def compared(frame: pd.DataFrame, paper: Printed | None) -> pd.DataFrame:
    """Return the frame with columns paper, paper_std and difference (ours minus the paper's); NaN where it prints
    nothing.

    A data set matches by its name without options.
    """
    if paper is None:
        return frame.assign(paper=np.nan, difference=np.nan)
    keys = [key for key in paper.keys if key in frame]
    ours = frame.assign(**{f"_{key}": _plain(frame[key], key) for key in keys})
    theirs = paper.frame.rename(columns={"value": "paper", "std": "paper_std", **{key: f"_{key}" for key in keys}})
    if not keys or theirs.empty:
        return frame.assign(paper=np.nan, difference=np.nan)
    found = ours.merge(theirs, on=[f"_{key}" for key in keys], how="left", validate="many_to_one")
    found = found.drop(columns=[f"_{key}" for key in keys])
    return found.assign(difference=found["value"] - found["paper"])


def _plain(column: "pd.Series[Any]", key: str) -> "pd.Series[Any]":
    return column.map(lambda name: split_name(str(name))[0]) if key == "data" else column


def markdown(item: Item, table: PaperTable) -> str:
    """Return our results in the form of the paper's table, each cell with the paper's value and the difference, if it
    prints one."""
    paper = printed(item.paper, item.name)
    found = compared(table.frame, paper)
    lines = [f"# {heading(item)}", item.title + "."]
    if paper is not None:
        lines.append(f"Source: {paper.source}. " + paper.note)
    if table.note:
        lines.append(table.note)
    matched = int(found["paper"].notna().sum())
    ours = "ours, ± a standard deviation or [a 95 % interval]" if {"std", "low"} & set(found.columns) else "ours"
    if matched:
        lines.append(f"Each cell: {ours} (the paper's, difference).")
    lines.append(_pivot(found, table.rows, table.columns, lambda row: _cell(row, table.digits)))
    if paper is not None and len(paper.frame):
        if matched < len(paper.frame):
            lines.append(f"{len(paper.frame) - matched} of the paper's {len(paper.frame)} values have no counterpart.")
        across = [key for key in table.columns if key in paper.frame]
        lines += ["## As printed", _pivot(paper.frame, [k for k in paper.keys if k not in across], across, _printed)]
    return "\n\n".join(line.strip() for line in lines if line.strip()) + "\n"


def heading(item: Item) -> str:
    """Return the heading of an item: "Table 7", "Figure 22" or "Appendix A10"."""
    kind, _, number = item.name.partition("_")
    return f"{kind.capitalize()} {number.upper()}"


def _cell(row: "pd.Series[Any]", digits: int) -> str:
    if pd.isna(row["value"]):
        return "–"
    text = f"{row['value']:z.{digits}f}"
    if "std" in row and pd.notna(row["std"]):
        text += f" ± {row['std']:z.{digits}f}"
    elif "low" in row and pd.notna(row["low"]) and pd.notna(row["high"]):
        text += f" [{row['low']:z.{digits}f}, {row['high']:z.{digits}f}]"
    if pd.notna(row["paper"]):
        text += f" ({row['paper']:z.{digits}f}, {row['difference']:+z.{digits}f})"
    return text


def _printed(row: "pd.Series[Any]") -> str:
    return f"{row['value']:g}" + (f" ± {row['std']:g}" if "std" in row and pd.notna(row["std"]) else "")


def _pivot(frame: pd.DataFrame, rows: Sequence[str], columns: Sequence[str], cell: Any) -> str:
    """Return a Markdown table of rows by columns; without `columns` it has one column of values."""
    lines: dict[tuple[Any, ...], dict[str, str]] = {}
    for _, row in frame.iterrows():
        across = ", ".join(name(row[key]) for key in columns) or "value"
        lines.setdefault(tuple(row[key] for key in rows), {})[across] = cell(row)
    titles = list(dict.fromkeys(title for line in lines.values() for title in line))
    table = [[*rows, *titles], ["---"] * (len(rows) + len(titles))]
    table += [[*map(name, key), *(line.get(title, "") for title in titles)] for key, line in lines.items()]
    return "\n".join("| " + " | ".join(line) + " |" for line in table)


def name(key: object) -> str:
    """Return a key as pages show it."""
    text = str(key).replace("|", "\\|").replace("\n", " ")
    return NAMES.get(text, text)
