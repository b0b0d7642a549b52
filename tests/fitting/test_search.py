"""The Bayesian search: two objectives, trials that several processes share, killed trials that are tried again."""

import sys

import pytest

import karenina

TINY = {"steps": 30, "latents": 4, "search": "optuna"}


def test_trials_are_kept_and_continued(tmp_path):
    optuna = pytest.importorskip("optuna", reason="the extra `search` is not installed")
    from karenina.fitting.search import DATABASE, SEEDS, front

    found = karenina.fit("blobs", out=tmp_path, models=6, **TINY)
    assert len(found.ranking) == 2 * SEEDS
    study = optuna.load_study(study_name="fit", storage=f"sqlite:///{tmp_path / DATABASE}")
    assert len(study.trials) == 2
    assert [len(trial.values) for trial in study.trials] == [2, 2]
    for one in front(study):  # nothing beats it in both
        better = [t.values for t in study.trials if t.values[0] > one["agreement"] + 1e-3]
        assert not any(values[1] > one["active"] for values in better)
    # A process that was killed in the middle of a trial: its settings are tried again.
    trial = study.ask()
    params = study.trials[0].params
    storage = study._storage
    for name, distribution in study.trials[0].distributions.items():
        value = distribution.to_internal_repr(params[name])
        storage.set_trial_param(trial._trial_id, name, value, distribution)
    trial.set_user_attr("folder", "runs/1/gone")
    more = karenina.fit("blobs", out=tmp_path, models=9, **TINY)
    study = optuna.load_study(study_name="fit", storage=f"sqlite:///{tmp_path / DATABASE}")
    states = [one.state.name for one in study.trials]
    assert states.count("FAIL") == 1
    assert states.count("COMPLETE") == 3
    assert study.trials[3].params == params
    assert "The front of the search" in more.page.read_text()


def test_without_optuna_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match=r"karenina\[search\]"):
        karenina.fit("blobs", out=tmp_path, models=3, **TINY)
