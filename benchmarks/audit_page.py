"""Write the results in docs/audit.md, rules and tables and pictures, from the folder of an audit.

karenina audit --protocol ours --protocol quantile --protocol locatello --protocol carbonneau --out FOLDER
karenina audit dci_forest dci_boosted --protocol ours --seeds 3 --out TREES           # and likewise: hours of a core
karenina audit infomec dci_es mcc mcc_rank r2_affine --protocol ours --out FOLDER2    # metrics that came later
python benchmarks/audit_page.py FOLDER FOLDER2

Folders must have the same rows; metrics that take long may have fewer seeds, which the page says. Pictures are those
of the metrics of all folders.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from pages import DOCS, write_part
from PIL import Image

from karenina.audit import Audit, read, write
from karenina.audit.pages import characteristics_text, markdown_table, rules_text, table_1_text
from karenina.papers import printed

TITLES = {"ours": "Ours", "quantile": "Ours, with bins of equal population"}
PICTURES = {
    "curves-ours.png": ("audit-ours.png", "Ours, the experiments of Carbonneau et al."),
    "failures-ours.png": ("audit-failures.png", "Ours, failures"),
    "curves-carbonneau.png": ("audit-carbonneau.png", "carbonneau, the experiments of Carbonneau et al."),
}


def results(audit: Audit, pictures: list[str]) -> str:
    """The rules, a table of characteristics per protocol, Table 1 and the pictures."""
    about = audit.about
    parts = [
        f"{audit.seeds_text}, {about['rows']:,} rows ({about['tree_rows']:,} for metrics that grow trees). "
        "A cell has the tick and the number behind it.",
        rules_text(),
    ]
    cells, cases = characteristics_text(audit), table_1_text(audit)
    table_1 = (
        printed("carbonneau2022", "table_1").frame.groupby(["metric", "property"], sort=False)["value"].apply(tuple)
    )
    for protocol in dict.fromkeys(cells.protocol):
        parts.append(f"### {TITLES.get(protocol, protocol)}")
        parts.append(markdown_table(cells[cells.protocol == protocol].drop(columns="protocol")))
    for at, (protocol, metric, measured) in enumerate(audit.keys):
        theirs = table_1.get((metric, measured), ()) if protocol == "carbonneau" else ()
        for column, number in zip(cases.columns[3:], theirs):
            cases.loc[at, column] += f" ({number})"
    parts.append("### Modular, not compact (Table 1 of Carbonneau et al., 2022)")
    parts.append("In brackets the numbers that they print, for their protocol.")
    parts.append(markdown_table(cases))
    parts += ["### Curves", *(f"![{PICTURES[name][1]}](pictures/{PICTURES[name][0]})" for name in pictures)]
    return "\n\n".join(parts)


def _shrink(path: Path, out: Path, width: int = 1600) -> None:
    """A picture of lines at the width of a page, in as many colours as it has lines and greys."""
    picture = Image.open(path).convert("RGB")
    picture = picture.resize((width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS)
    picture.quantize(128, dither=Image.Dither.NONE).save(out, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", help="of audits: first the one with all experiments")
    parser.add_argument("--page", type=Path, default=DOCS / "audit.md")
    options = parser.parse_args()
    if not options.folders:
        parser.print_usage()
        return
    try:
        audit = read(*options.folders)
    except ValueError as error:
        sys.exit(f"audit_page.py: {error}")
    with tempfile.TemporaryDirectory() as drawn:
        pictures = [path.name for path in write(audit, drawn) if path.name in PICTURES]
        for name in pictures:
            _shrink(Path(drawn) / name, options.page.parent / "pictures" / PICTURES[name][0])
    write_part(str(options.page), Path(__file__).name, results(audit, pictures))


if __name__ == "__main__":
    main()
