"""The Bayesian search: two objectives, trials that several processes share, killed trials that are tried again."""

import contextlib
import sqlite3
import sys

import numpy as np
import pytest

import karenina

TINY = {"steps": 30, "latents": 4, "search": "optuna"}


def test_trials_are_kept_and_continued(tmp_path):
    optuna = pytest.importorskip("optuna", reason="the extra `search` is not installed")
    from karenina.fitting.search import DATABASE, SEEDS_OF_A_TRIAL, front

    found = karenina.fit("blobs", out=tmp_path, models=6, **TINY)
    assert len(found.ranking) == 2 * SEEDS_OF_A_TRIAL
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


@pytest.mark.parametrize("name", ["a?b", "a%20b#c", "a b&mode=ro"])
def test_a_search_is_in_its_own_folder_whatever_that_is_called(tmp_path, name):
    pytest.importorskip("optuna", reason="the extra `search` is not installed")
    from karenina.fitting.search import DATABASE, open_study

    folders = [tmp_path / name, tmp_path / name.replace("b", "d")]
    for folder in folders:
        folder.mkdir()
        assert open_study(folder, 0).user_attrs["joined"] == 1
        assert (folder / DATABASE).stat().st_size > 0
    assert sorted(tmp_path.iterdir()) == sorted(folders)


def test_a_damaged_database_is_one_line(tmp_path):
    pytest.importorskip("optuna", reason="the extra `search` is not installed")
    from karenina.fitting.search import DATABASE

    karenina.fit("blobs", out=tmp_path, models=3, **TINY)
    whole = (tmp_path / DATABASE).read_bytes()
    rng = np.random.default_rng(0)
    damages = [b"", b"not a database" * 400, whole[: len(whole) // 2], whole[:4096] + bytes(len(whole) - 4096)]
    for _ in range(12):
        flipped = np.frombuffer(whole, np.uint8).copy()
        flipped[rng.integers(0, len(whole), len(whole) // 20)] ^= 255
        damages.append(flipped.tobytes())
    said = []
    for damage in damages:
        (tmp_path / DATABASE).write_bytes(damage)
        try:
            karenina.fit("blobs", out=tmp_path, models=3, **TINY)
        except ValueError as error:
            said.append(str(error))
    changes = [
        "update trial_user_attributes set value_json = '5'",
        "update trial_params set distribution_json = '{}'",
        "update trials set state = 'HUH'",
        "delete from trial_values",
    ]
    for change in changes:
        (tmp_path / DATABASE).write_bytes(whole)
        with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as database:
            database.execute(change)
            database.commit()
        with pytest.raises(ValueError, match="is damaged, or not of a search") as error:
            karenina.fit("blobs", out=tmp_path, models=3, **TINY)
        said.append(str(error.value))
    assert len(said) >= len(damages) + len(changes) - 2  # an empty file is an empty database
    assert all(line.startswith(str(tmp_path / DATABASE)) and "\n" not in line for line in said)
