"""The papers' studies, each at three scales: smoke (seconds), laptop (two cores, under an hour), paper (their numbers).

>>> len(preset("locatello2019", "paper").points)
12600
"""

from typing import Any

from karenina._words import hint
from karenina.studies.plan.later_presets import later
from karenina.studies.plan.parsing import Source, from_values
from karenina.studies.plan.plan import Plan

SCALES = ("smoke", "laptop", "paper")

Values = dict[str, Any]

# Locatello et al. (2019), Table 3; Duan et al. (2020), Table 5.
_SIX_METHODS: Values = {
    "beta_vae": {"beta": [1, 2, 4, 6, 8, 16]},
    "annealed_vae": {"c_max": [5, 10, 25, 50, 75, 100], "iteration_threshold": 100_000, "gamma": 1000},
    "factor_vae": {"gamma": [10, 20, 30, 40, 50, 100]},
    "dip_vae_i": {"lambda_od": [1, 2, 5, 10, 20, 50]},
    "dip_vae_ii": {"lambda_od": [1, 2, 5, 10, 20, 50]},
    "beta_tcvae": {"beta": [1, 2, 4, 6, 8, 10]},
}
# Locatello et al. (2019), Table 4, and the initial weights of their release.
_PAPER: Values = {
    "network": "conv64",
    "latents": 10,
    "batch": 64,
    "learning_rate": 1e-4,
    "init": "glorot",
    "steps": 300_000,
}
# Found by trial on blobs: strengths at which its four factors come apart within 6,000 steps.
_LAPTOP: Values = {"network": "mlp", "latents": 8, "steps": 6000, "evaluation": {"rows": 3000}}
_SMALL_METHODS: Values = {
    "beta_vae": {"beta": [1, 4, 8, 16]},
    "annealed_vae": {"c_max": [2, 4, 6, 8], "iteration_threshold": 3000, "gamma": 100},
    "factor_vae": {"gamma": [4, 8, 16, 32], "discriminator_layers": 3, "discriminator_units": 64},
    "dip_vae_i": {"lambda_od": [1, 2, 5, 10]},
    "dip_vae_ii": {"lambda_od": [1, 2, 5, 10]},
    "beta_tcvae": {"beta": [1, 4, 8, 16]},
}
# Found by trial on dSprites and blobs at side 16 (benchmarks/strengths.py): at each method's strengths some models
# disentangle and some do not, and some but not all latents are active.
_SIDE_16: Values = {
    "beta_vae": {"beta": [1, 4, 8, 16, 32, 48]},
    "annealed_vae": {"c_max": [2, 4, 6, 8, 12, 25], "iteration_threshold": 3000, "gamma": 100},
    "factor_vae": {
        "gamma": [2, 5, 10, 20, 40, 80],
        "discriminator_layers": 3,
        "discriminator_units": 64,
        "discriminator_learning_rate": 1e-3,
    },
    "dip_vae_i": {"lambda_od": [1, 5, 20, 50, 100, 500]},
    "dip_vae_ii": {"lambda_od": [1, 5, 20, 50, 100, 500]},
    "beta_tcvae": {"beta": [1, 4, 8, 16, 32, 48]},
}
_DCI = "dci_boosted.disentanglement"
# What each paper measured: its metrics, and whatever else its tables and figures show.
_MEASURED: dict[str, Values] = {
    "locatello2019": {
        "metrics": ["z_diff", "z_min_variance", "mig", "modularity", _DCI, "sap"],
        "tasks": True,
    },
    "duan2020": {"metrics": ["z_diff", "z_min_variance", "mig", _DCI], "tasks": True},
    "holtz2022": {"metrics": ["z_diff", "z_min_variance", "mig"], "tasks": True, "also": ["label_noise"]},
    "eastwood2018": {"metrics": ["dci_lasso", "dci_forest"], "also": ["regression", "zero_shot"]},
}
_SMOKE: Values = {"network": "mlp", "latents": 4, "steps": 200, "seeds": 2, "selection": {"spearman_rows": 500}}
# The metrics of Carbonneau et al. (2022) but for DCI by a forest, whose search takes minutes per model.
_NO_TREES = [
    *("z_diff", "z_min_variance", "z_max_variance", "irs", "dci_lasso", "explicitness", "sap"),
    *("mig", "mig_sup", "jemmig", "modularity", "dcimig"),
]
_TWO_METHODS: Values = {"beta_vae": {"beta": [1, 16]}, "beta_tcvae": {"beta": [1, 16]}}
_TINY_BETA: Values = {"beta_vae": {"beta": [0.001, 0.01, 0.1, 1, 10, 100]}}
_SIX_SIZES = [2, 4, 8, 16, 32, 64]
_DCI_METHODS: Values = {"pca": {}, "vae": {}, "beta_vae": {"beta": 6}, "infogan": {"mi_weight": 6}}
_DSPRITES = ["dsprites", "color_dsprites", "noisy_dsprites", "scream_dsprites"]
_LOCATELLO: Values = {**_PAPER, "methods": _SIX_METHODS, "seeds": 50}
_ON_BLOBS: Values = {**_LAPTOP, "data": "blobs"}
_QUICK: Values = {**_SMOKE, "data": "blobs"}

PRESETS: dict[str, dict[str, Values]] = {
    # 7 data sets x 6 methods x 6 strengths x 50 seeds = 12,600.
    "locatello2019": {
        "smoke": {
            **_SMOKE,
            "data": ["blobs", "dsprites"],
            "methods": _TWO_METHODS,
            "evaluation": {**_MEASURED["locatello2019"], "rows": 300},
        },
        # 1,080 models; their scores are published (docs/results), tasks, 20 of 33 s per model, of some seeds alone.
        "laptop": {
            **_LAPTOP,
            "data": ["dsprites:side=16", "blobs", "color_dsprites:side=16"],
            "methods": _SIDE_16,
            "latents": 10,
            "seeds": 10,
            "trace": True,
            "evaluation": {**_MEASURED["locatello2019"], "rows": 3000},
            "selection": {"dynamics_seeds": [10]},
        },
        "paper": {
            **_LOCATELLO,
            "data": [*_DSPRITES, "smallnorb", "cars3d", "shapes3d"],
            "evaluation": {"protocol": "locatello", **_MEASURED["locatello2019"]},
        },
    },
    # 3 data sets x 6 methods x 6 strengths x 50 seeds = 5,400.
    "duan2020": {
        "smoke": {
            **_QUICK,
            "methods": _TWO_METHODS,
            "seeds": 3,
            "evaluation": {**_MEASURED["duan2020"], "rows": 300},
        },
        "laptop": {
            **_ON_BLOBS,
            "methods": _SMALL_METHODS,
            "seeds": 5,
            "evaluation": {**_MEASURED["duan2020"], "rows": 3000},
        },
        "paper": {
            **_LOCATELLO,
            "data": ["dsprites", "shapes3d", "cars3d"],
            "evaluation": {"protocol": "locatello", **_MEASURED["duan2020"]},
            "selection": {"a2a_seeds": 10},
        },
    },
    # Duan et al. (2020), A.9: 2 data sets x 6 strengths x 50 seeds = 600. Folders of photographs in KARENINA_DATA,
    # below paper scale any folder called photos. A.9 does not print the strengths; these are those of Table 5.
    "duan2020_photos": {
        "smoke": {
            **_SMOKE,
            "data": "photos:size=16",
            "methods": {"beta_vae": {"beta": [1, 16]}},
            "evaluation": {"metrics": [], "rows": 200},
        },
        "laptop": {
            **_LAPTOP,
            "data": "photos:size=32",
            "methods": {"beta_vae": _SIX_METHODS["beta_vae"]},
            "seeds": 5,
            "evaluation": {"metrics": [], "rows": 3000},
        },
        "paper": {
            **_PAPER,
            "data": ["celeba:crop=178,size=64", "imagenet:size=64"],
            "methods": {"beta_vae": _SIX_METHODS["beta_vae"]},
            "seeds": 50,
            "evaluation": {"metrics": []},
        },
    },
    # 5 strengths x 5 latent sizes x 25 seeds = 625; Holtz et al. (2022) also report 5 and 10 of the seeds.
    "holtz2022": {
        "smoke": {
            **_QUICK,
            "methods": {"beta_vae": {"beta": [1, 16]}},
            "latents": [2, 4],
            "trace": True,
            "evaluation": {**_MEASURED["holtz2022"], "rows": 300},
            "selection": {"udr": ["udr_spearman"], "spearman_rows": 500, "dynamics_seeds": [2]},
        },
        "laptop": {
            **_LAPTOP,
            "data": "dsprites:side=16",
            "methods": {"beta_vae": {"beta": [1, 4, 8, 16, 32]}},
            "latents": [2, 4, 8, 16, 32],
            "seeds": 10,
            "trace": True,
            "evaluation": {**_MEASURED["holtz2022"], "rows": 3000},
            "selection": {"dynamics_seeds": [5, 10]},
        },
        "paper": {
            **_PAPER,
            "data": "dsprites",
            "methods": {"beta_vae": {"beta": [1, 2, 4, 8, 16]}},
            "latents": [2, 4, 8, 16, 32],
            "seeds": 25,
            "trace": True,
            "evaluation": {"protocol": "locatello", **_MEASURED["holtz2022"]},
        },
    },
    # Carbonneau et al. (2022), section 5.1: 6 strengths x 6 latent sizes x 2 data sets = 72.
    "carbonneau2022": {
        "smoke": {
            **_QUICK,
            "methods": {"beta_vae": {"beta": [0.01, 1, 100]}},
            "latents": [2, 4],
            "seeds": 1,
            "evaluation": {"protocol": "carbonneau", "metrics": _NO_TREES, "rows": 500},
        },
        "laptop": {
            **_ON_BLOBS,
            "methods": _TINY_BETA,
            "latents": _SIX_SIZES,
            "seeds": 1,
            "evaluation": {"protocol": "carbonneau", "rows": 3000},
        },
        "paper": {
            **_PAPER,
            "data": ["cars3d", "smallnorb"],
            "methods": _TINY_BETA,
            "latents": _SIX_SIZES,
            "seeds": 1,
            "evaluation": {"protocol": "carbonneau"},
        },
    },
    # Eastwood & Williams (2018), section 4.2; the number of steps is not in the paper, "he" in the authors' release.
    "eastwood2018": {
        "smoke": {
            **_SMOKE,
            "data": "teapots:gap=exclude",
            "methods": {**_DCI_METHODS, "infogan": {"mi_weight": 6, "critic_steps": 1}},
            "steps": 50,
            "seeds": 1,
            "evaluation": {**_MEASURED["eastwood2018"], "rows": 500},
        },
        # Convolutions on 32 x 32 pixels, trained in the same time, do not know the colours (docs/results/why.md). The
        # rate is the one with which InfoGAN knew the factors best; it has one step of the critic in place of five.
        "laptop": {
            "data": "teapots:gap=exclude,part=train,side=16",
            "network": "mlp256",
            "latents": 10,
            "steps": 30_000,
            "learning_rate": 3e-4,
            "methods": {**_DCI_METHODS, "infogan": {"mi_weight": 6, "critic_steps": 1}},
            "seeds": 3,
            "evaluation": {**_MEASURED["eastwood2018"], "rows": 3000},
        },
        "paper": {
            **_PAPER,
            "network": "resnet",
            "init": "he",
            "steps": 100_000,
            "data": "teapots:gap=exclude,part=train",
            "methods": _DCI_METHODS,
            "seeds": 1,
            "evaluation": _MEASURED["eastwood2018"],
        },
    },
    **later(_SMOKE, _LAPTOP, _PAPER),
}


def preset(name: str, scale: str = "laptop") -> Plan:
    """The plan of a named study."""
    if name not in PRESETS:
        raise ValueError(f"no preset {name!r}; {hint(name, PRESETS)}")
    if scale not in SCALES:
        raise ValueError(f"no scale {scale!r}; {hint(scale, SCALES)}")
    values = {"name": f"{name} at {scale} scale", **PRESETS[name][scale]}
    return from_values(values, Source(f"preset {name}"), check=False)
