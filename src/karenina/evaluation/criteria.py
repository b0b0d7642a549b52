"""The criteria by which runs are ranked without labels; the four versions of UDR among them have one name each.

This module is light to import: help pages and a look at a study need no numpy.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karenina.selection import Ranking

UDR_VERSIONS = ("udr_lasso", "udr_spearman", "udr_lasso_a2a", "udr_spearman_a2a")
# Scores of one model; those after a minus sign are better when small.
OF_ONE_MODEL = {
    "elbo": "elbo",
    "reconstruction": "-reconstruction",
    "kl": "-kl",
    "total_correlation": "-total_correlation_sampled",
    "mutual_information": "-mutual_information_mean",
}
CRITERIA = ("consensus", *UDR_VERSIONS, "dynamics", "centrality", "pipe", "orthogonality", "support", *OF_ONE_MODEL)
CRITERIA += ("active_units",)
_SHORT = {"udr": "udr_lasso", "udr_a2a": "udr_lasso_a2a"}


def full_name(name: str) -> str:
    """Return the full name of a version, given in short or with hyphens; other names come back as they are.

    >>> full_name("udr-a2a"), full_name("elbo")
    ('udr_lasso_a2a', 'elbo')
    """
    name = name.replace("-", "_")
    return _SHORT.get(name, name)


def has_partners(version: str, settings: Sequence[str]) -> bool:
    """Return whether UDR can compare models of these settings: two of one setting, or (a2a) any two."""
    return len(settings) > 1 and (version.endswith("a2a") or len(set(settings)) < len(settings))


def compute_udr(
    version: str,
    codes: "Sequence[NDArray[Any]]",
    kl: "Sequence[NDArray[Any]]",
    settings: Sequence[str],
    *,
    partners: int = 50,
    spearman_rows: int = 1000,
    kl_threshold: float | None = None,
    **options: Any,
) -> "Ranking":
    """Return one of UDR_VERSIONS of the models of a data set: the same for tables, `rank` and pages.

    Partners of a model are the other models of its setting or, "a2a", all other models of the data set, whatever their
    method; at most `partners` of them. Duan et al. (2020), section 4 and A.7. The Spearman versions use `spearman_rows`
    rows, drawn at random by `seed`; the lasso versions use all.
    """
    from karenina.selection import udr  # imports numpy and scipy

    lasso = "lasso" in version
    return udr(
        codes,
        kl,
        settings,
        similarity="lasso" if lasso else "spearman",
        all_to_all=version.endswith("a2a"),
        partners=partners,
        n=None if lasso else min(spearman_rows, len(codes[0])),
        kl_threshold=kl_threshold,
        **options,
    )
