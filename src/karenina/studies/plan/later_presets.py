"""Presets of papers since 2020: pairs, few labels, correlated factors, quantised codes.

What a paper's text was not at hand for is ours, and says so.
"""

from typing import Any

from karenina.metrics.registry import METRICS

Values = dict[str, Any]

_BETAS = [1, 2, 4, 6, 8, 16]
_SCORES: Values = {"metrics": ["z_diff", "z_min_variance", "mig", "modularity", "dci_boosted", "sap"]}
_QUICK_SCORES: Values = {"metrics": ["mig", "sap"], "rows": 500}
_BLOBS_SCORES: Values = {"metrics": ["mig", "dci_boosted"], "rows": 3000}
_INFOMEC = [name for name in ("infomec",) if name in METRICS] or ["mig", "modularity", "explicitness"]
_STRENGTHS: Values = {
    "beta_vae": {"beta": _BETAS},
    "factor_vae": {"gamma": [10, 20, 30, 40, 50, 100]},
    "annealed_vae": {"c_max": [5, 10, 25, 50, 75, 100], "iteration_threshold": 100_000, "gamma": 1000},
    "dip_vae_i": {"lambda_od": [1, 2, 5, 10, 20, 50]},
    "dip_vae_ii": {"lambda_od": [1, 2, 5, 10, 20, 50]},
    "beta_tcvae": {"beta": [1, 2, 4, 6, 8, 10]},
}


def _with_labels(methods: Values, labels: list[int]) -> Values:
    return {name: {**given, "supervised": labels} for name, given in methods.items()}


def _correlated(name: str, sigmas: list[Any]) -> list[str]:
    """The set with uniform factors, and with these two drawn together."""
    base, _, pair = name.partition(" ")
    head, _, options = base.partition(":")
    rest = f",{options}" if options else ""
    return [base, *(f"{head}:correlate={pair}{rest},sigma={sigma}" for sigma in sigmas)]


def later(smoke: Values, laptop: Values, paper: Values) -> dict[str, dict[str, Values]]:
    """The presets; smoke, laptop and paper: what all of a scale share."""
    return {
        # Locatello et al. (2020), "Weakly-supervised disentanglement without compromises": 5 data sets x (2 methods x
        # 6 strengths x k = 1 or random + 6 strengths of the beta-VAE) x 10 seeds.
        "locatello2020_pairs": {
            "smoke": {
                **smoke,
                "data": "blobs",
                "methods": {"beta_vae": {"beta": [1, 16]}, "ada_gvae": {"beta": [1, 16]}},
                "evaluation": _QUICK_SCORES,
            },
            "laptop": {
                **laptop,
                "data": "blobs",
                "methods": {
                    "beta_vae": {"beta": [1, 4, 16]},
                    "ada_gvae": {"beta": [1, 4, 16], "k": [1, "random"]},
                    "ada_mlvae": {"beta": [1, 4, 16], "k": [1, "random"]},
                },
                "seeds": 5,
                "evaluation": _BLOBS_SCORES,
            },
            "paper": {
                **paper,
                "data": ["dsprites", "cars3d", "smallnorb", "shapes3d", "mpi3d_real"],
                "methods": {
                    "beta_vae": {"beta": _BETAS},
                    "ada_gvae": {"beta": _BETAS, "k": [1, "random"]},
                    "ada_mlvae": {"beta": _BETAS, "k": [1, "random"]},
                },
                "seeds": 10,
                "evaluation": {"protocol": "locatello", **_SCORES, "tasks": True},
            },
        },
        # Locatello et al. (2020), "Disentangling factors of variation using few labels". Seeds and weights are ours.
        "locatello2020_few_labels": {
            "smoke": {
                **smoke,
                "data": "blobs",
                "methods": _with_labels({"beta_vae": {"beta": [1, 16]}}, [0, 100]),
                "evaluation": _QUICK_SCORES,
            },
            "laptop": {
                **laptop,
                "data": "blobs",
                "methods": _with_labels({"beta_vae": {"beta": [4, 16]}, "beta_tcvae": {"beta": [4, 16]}}, [0, 100]),
                "seeds": 5,
                "evaluation": _BLOBS_SCORES,
            },
            "paper": {
                **paper,
                "data": ["cars3d", "dsprites", "smallnorb", "shapes3d"],
                "methods": _with_labels(
                    {name: _STRENGTHS[name] for name in ("beta_vae", "factor_vae", "dip_vae_i", "beta_tcvae")},
                    [0, 100, 1000],
                ),
                "seeds": 10,
                "evaluation": {"protocol": "locatello", **_SCORES},
            },
        },
        # Träuble et al. (2021). Which pairs of factors they correlate we could not check; these are ours.
        "traeuble2021": {
            "smoke": {
                **smoke,
                "data": _correlated("blobs x+y", [0.2]),
                "methods": {"beta_vae": {"beta": [1, 16]}, "hfs": {"gamma": [100]}},
                "evaluation": _QUICK_SCORES,
            },
            "laptop": {
                **laptop,
                "data": _correlated("blobs x+y", [0.1, 0.4]),
                "methods": {
                    "beta_vae": {"beta": [1, 4, 16]},
                    "beta_tcvae": {"beta": [1, 4, 16]},
                    "ada_gvae": {"beta": [1, 4]},
                    "hfs": {"gamma": [100, 1000], "beta": 4},
                },
                "seeds": 5,
                "evaluation": _BLOBS_SCORES,
            },
            "paper": {
                **paper,
                "data": [
                    *_correlated("dsprites orientation+x", [0.2, 0.4, 0.7]),
                    *_correlated("shapes3d scale+orientation", [0.2, 0.4, 0.7]),
                    *_correlated("mpi3d_real horizontal_axis+vertical_axis", [0.2, 0.4, 0.7]),
                ],
                "methods": {**_STRENGTHS, "ada_gvae": {"beta": _BETAS, "k": [1, "random"]}},
                "seeds": 5,
                "evaluation": {"protocol": "locatello", **_SCORES},
            },
        },
        # Hsu et al. (2023): latents twice the number of factors, 200,000 steps of 1e-3, batches of 128, as released.
        "hsu2023": {
            "smoke": {
                **smoke,
                "data": "blobs",
                "methods": {"beta_vae": {"beta": [1, 16]}, "qlae": {}},
                "evaluation": {**_QUICK_SCORES, "metrics": ["mig", "modularity"]},
            },
            "laptop": {
                **laptop,
                "data": "blobs",
                "methods": {"beta_vae": {"beta": [1, 4, 16]}, "beta_tcvae": {"beta": [1, 4, 16]}, "qlae": {}},
                "seeds": 5,
                "evaluation": {"metrics": [*_INFOMEC, "dci_boosted"], "rows": 3000},
            },
            "paper": {
                **paper,
                "data": ["shapes3d", "mpi3d_realistic"],
                "methods": {"beta_vae": {"beta": _BETAS}, "beta_tcvae": {"beta": [1, 2, 4, 6, 8, 10]}, "qlae": {}},
                "latents": 12,
                "batch": 128,
                "learning_rate": 1e-3,
                "init": "he",
                "steps": 200_000,
                "seeds": 5,
                "evaluation": {"metrics": [*_INFOMEC, "dci_boosted"]},
            },
        },
    }
