"""The clustering task: the sprite world, the environment, and agents that know the truth."""

import colorsys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.metrics import davies_bouldin_score

from karenina.papers.duan2020.clustering.agent import (
    OracleVision,
    Slots,
    TrueReward,
    TrueTransition,
    clicks,
    learn,
    random_actions,
    search,
    steps_to_success,
    success_rate,
)
from karenina.papers.duan2020.clustering.world import (
    SHAPES,
    Environment,
    animation,
    clicked,
    coverage,
    davies_bouldin,
    hsv_to_rgb,
    random_sprites,
    render,
    render_with_masks,
)


def one(shape, scale=0.5, x=0.5, y=0.5):
    return np.array([[x, y, SHAPES.index(shape), scale, 0.0, 1.0, 1.0]])


def test_rewards_and_success_agree_with_scikit_learn_on_1000_scenes():
    rng = np.random.default_rng(0)
    environment = Environment(0)
    successes = 0
    for _ in range(1000):
        environment.reset()
        labels = environment.scene[:, 4] > 0.45  # blue or green
        # Around two centres with any scatter, so that both outcomes are common.
        centre, scatter = np.where(labels[:, None], 0.3, 0.7), rng.uniform(0.01, 0.25)
        environment.scene[:, :2] = np.clip(centre + scatter * rng.normal(size=(4, 2)), 0, 1)
        step = environment.step(rng.random(4))
        quality = 1 / davies_bouldin_score(environment.scene[:, :2], labels)
        assert step.reward == pytest.approx((quality - 2.5) * 5, rel=1e-9)
        assert (step.last(), step.discount) == ((True, 0.0) if quality >= 2.5 else (False, 1.0))
        successes += step.last()
    assert 100 < successes < 900


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5), st.integers(1, 4), st.integers(0, 10_000))
def test_index_of_any_number_of_clusters_is_scikit_learns(clusters, dimensions, seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(clusters), 3))
    points = rng.normal(size=(len(labels), dimensions))
    assert davies_bouldin(points, labels) == pytest.approx(davies_bouldin_score(points, labels), rel=1e-9)


def test_index_where_it_has_no_plain_value():
    assert davies_bouldin([[0, 0], [2, 0], [1, -1], [1, 1]], [0, 0, 1, 1]) == np.inf  # the same centroid
    assert davies_bouldin([[0, 0], [0, 0], [1, 1], [1, 1]], [0, 0, 1, 1]) == 0
    assert davies_bouldin(np.zeros((4, 2)), [0, 0, 1, 1]) == np.inf  # not apart
    with pytest.raises(ValueError, match="at least 2 clusters, got 1"):
        davies_bouldin(np.zeros((4, 2)), [1, 1, 1, 1])
    with pytest.raises(ValueError, match="points must be"):
        davies_bouldin(np.zeros(4), [0, 0, 1, 1])


def test_rewards_stay_finite_where_the_index_does_not():
    environment = Environment(0)
    environment.reset()
    blue = environment.scene[:, 4] > 0.45
    environment.scene[:, :2] = np.where(blue[:, None], 0.2, 0.8)
    step = environment.step([0.5, 0.5, 0.5, 0.5])
    assert step.reward == pytest.approx(5 * (100 - 2.5))
    assert step.last()
    environment.reset()
    environment.scene[:, :2] = 0.5
    assert environment.step([0.0, 0.0, 0.5, 0.5]).reward == -12.5


def test_a_click_moves_the_foremost_sprite_by_a_quarter_of_the_direction():
    environment = Environment(3)
    environment.reset()
    environment.scene[:, :2] = [[0.2, 0.2], [0.2, 0.2], [0.8, 0.8], [0.95, 0.5]]
    before = environment.scene.copy()
    after = environment.step([0.2, 0.2, 1.0, 0.3]).observation
    np.testing.assert_allclose(after[1, :2] - before[1, :2], [0.125, -0.05])
    np.testing.assert_array_equal(np.delete(after, 1, 0), np.delete(before, 1, 0))
    np.testing.assert_array_equal(environment.step([0.5, 0.05, 1, 1]).observation, after)  # a click beside all sprites
    assert environment.step([0.95, 0.5, 1.0, 0.5]).observation[3, 0] == 1.0  # centres stay in the frame


def test_episodes_end_after_50_steps_and_begin_again():
    environment = Environment(0)
    first = environment.step([0, 0, 0, 0])  # as with dm_env, the first step resets
    assert first.first()
    assert first.reward is None
    steps = [environment.step([0, 0, 0, 0]) for _ in range(50)]
    assert [step.last() for step in steps] == [False] * 49 + [True]
    assert steps[-1].discount == 1.0
    assert environment.step([0, 0, 0, 0]).first()


def test_same_seed_same_scenes_and_never_solved_from_the_start():
    one, two, other = Environment(1), Environment(1), Environment(2)
    for _ in range(200):
        scene = one.reset().observation
        np.testing.assert_array_equal(scene, two.reset().observation)
        assert one.quality() < 2.5
        assert not np.array_equal(scene, other.reset().observation)
        assert sorted(np.round((scene[:, 4] - 0.32) / 0.28).astype(int)) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([np.nan, 0.5, 0.5, 0.5], r"in \[0, 1\], got \[nan"),
        ([0.5, 0.5, 0.5, np.inf], r"in \[0, 1\]"),
        ([1.2, 0.5, 0.5, 0.5], r"in \[0, 1\], got \[1.2"),
        ([0.5, 0.5, 0.5], r"4 numbers .* got shape \(3,\)"),
        ("up", "4 numbers"),
        (None, "4 numbers"),
    ],
)
def test_bad_actions_are_refused_and_change_nothing(action, message):
    environment = Environment(0)
    before = environment.reset().observation
    with pytest.raises(ValueError, match=message):
        environment.step(action)
    np.testing.assert_array_equal(environment.scene, before)
    assert not environment.step([0, 0, 0, 0]).first()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hues": ()}, "at least 2 different hues"),
        ({"hues": ("blue", "blue")}, "at least 2 different hues"),
        ({"hues": ("blue", "mauve")}, "no hue 'mauve'"),
        ({"per_cluster": 0}, "at least 2 sprites, got 0"),
        ({"per_cluster": 1}, "at least 2 sprites, got 1"),
        ({"episode": 0}, "at least 1 step"),
        ({"motion": 0}, "motion must be above 0"),
        ({"scale": 0}, "scale must be between 0 and 1"),
    ],
)
def test_bad_environments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Environment(0, **options)


def test_no_sprites_are_a_black_image():
    scenes = random_sprites([], np.random.default_rng(0), scenes=3)
    images, masks = render_with_masks(scenes, 16)
    assert scenes.shape == (3, 0, 7)
    assert images.shape == (3, 3, 16, 16)
    assert not images.any()
    assert (masks == 1).all()
    assert clicked(scenes[0], np.array([0.5, 0.5])) is None


@pytest.mark.parametrize("shape", SHAPES)
def test_sprites_have_the_area_of_their_scale_and_soft_edges(shape):
    cover = coverage(one(shape)[None], 256)[0, 0]
    assert cover.mean() == pytest.approx(0.25, rel=0.005)
    assert ((cover > 0) & (cover < 1)).mean() < 0.02
    # Four times as many pixels, averaged: the same picture up to how an edge is softened.
    coarse = coverage(one(shape)[None], 32)[0, 0]
    np.testing.assert_allclose(coarse, cover.reshape(32, 8, 32, 8).mean(axis=(1, 3)), atol=0.2)
    assert abs(coarse - cover.reshape(32, 8, 32, 8).mean(axis=(1, 3))).mean() < 0.005


@pytest.mark.parametrize("shape", SHAPES)
def test_a_click_hits_where_the_picture_shows_the_sprite(shape):
    scene = one(shape, x=0.4, y=0.6)
    cover = coverage(scene[None], 64)[0, 0]
    for row, column in np.random.default_rng(0).integers(64, size=(300, 2)):
        hit = clicked(scene, (np.array([column, row]) + 0.5) / 64) is not None
        assert hit == (cover[row, column] >= 0.5)


def test_masks_sum_to_one_and_the_foremost_hides_the_others():
    scenes = random_sprites(["any"] * 4, np.random.default_rng(0), scenes=50, scale=0.3)
    images, masks = render_with_masks(scenes, 32)
    np.testing.assert_allclose(masks.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(masks[:, -1], coverage(scenes, 32)[:, -1], atol=1e-6)
    x, y = (scenes[:, -1, :2] * 32).astype(int).T
    shown = images[np.arange(50), :, y, x] / 255
    expected = [colorsys.hsv_to_rgb(*scene[-1, 4:]) for scene in scenes]
    np.testing.assert_allclose(shown, expected, atol=1 / 255)
    np.testing.assert_array_equal(render(scenes[0], 32), images[0])


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_colours_are_those_of_colorsys(h, s, v):
    np.testing.assert_allclose(hsv_to_rgb(np.array([h, s, v])), colorsys.hsv_to_rgb(h, s, v), atol=1e-9)


@pytest.mark.parametrize("hues", [("blue", "green"), ("red", "yellow")])
def test_an_agent_that_knows_the_truth_succeeds_and_a_random_one_does_not(hues):
    environments = [Environment(i, hues=hues) for i in range(10)]
    rngs = [np.random.default_rng(i) for i in range(10)]
    vision, transition, reward = OracleVision(32), TrueTransition(), TrueReward(hues)

    def best(scenes):
        slots = vision.see(scenes)
        actions = np.stack([random_actions(slots.masks[i], 32, rngs[i]) for i in range(10)])
        return actions[np.arange(10), search(slots.codes, actions, transition, reward)]

    def random(scenes):
        masks = vision.see(scenes).masks
        return np.stack([random_actions(masks[i], 1, rngs[i])[0] for i in range(10)])

    rate, length = success_rate(environments, best, 60)
    assert rate >= 0.95
    assert length < 12
    assert success_rate(environments, random, 40)[0] < 0.35


def test_the_true_transition_is_the_environments():
    rng = np.random.default_rng(0)
    environment = Environment(0, scale=0.3)
    vision, transition, reward = OracleVision(32), TrueTransition(), TrueReward()
    for _ in range(100):
        environment.reset()
        slots = vision.see(environment.scene[None])
        action = random_actions(slots.masks[0], 1, rng)
        predicted = transition.predict(slots.codes, action[None])
        step = environment.step(action[0])
        np.testing.assert_allclose(predicted[0, 0], step.observation)
        assert reward.predict(predicted)[0, 0] == pytest.approx(step.reward)


def test_clicks_lie_inside_masks_and_reach_every_slot():
    masks = render_with_masks(random_sprites(["any"] * 4, np.random.default_rng(1), scale=0.2), 32)[1]
    points = clicks(masks, 2000, np.random.default_rng(0))
    x, y = np.floor(points * 32).astype(int).T
    owner = masks.argmax(axis=0)[y, x]
    assert (masks[owner, y, x] > 0.5).all()
    assert np.bincount(owner, minlength=5).min() > 250
    nothing = clicks(np.full((5, 8, 8), 0.2), 10, np.random.default_rng(0))  # no pixel belongs to anyone
    assert ((nothing >= 0) & (nothing < 1)).all()


class ConstantVision:
    """Every scene looks the same."""

    def see(self, scenes):
        masks = render_with_masks(scenes, 16)[1]
        return Slots(np.ones((len(scenes), 5, 3), np.float32), masks)


class Unmoved:
    def predict(self, codes, actions):
        return np.repeat(codes[:, None], actions.shape[1], axis=1)


class Mean:
    """Predicts one number for all slots."""

    def __init__(self):
        self.mean = 0.0

    def predict(self, codes):
        return np.full(codes.shape[:2], self.mean)

    def learn(self, codes, rewards):
        assert np.isfinite(rewards).all()
        self.mean = float(rewards.mean())


def test_constant_slots_never_succeed_and_are_censored():
    environments = [Environment(i) for i in range(3)]
    rngs = [np.random.default_rng(i) for i in range(3)]
    found = learn(environments, ConstantVision(), Unmoved(), Mean(), rngs, cap=300, window=4, candidates=4, batch=8)
    assert found.censored.all()
    assert found.steps.tolist() == [300] * 3
    assert [len(rows) >= 6 for rows in found.episodes] == [True] * 3


def test_an_agent_that_knows_the_truth_learns_at_once_and_the_same_seed_gives_the_same():
    def again():
        environments = [Environment(i) for i in range(3)]
        rngs = [np.random.default_rng(i) for i in range(3)]
        return learn(
            environments, OracleVision(16), TrueTransition(), TrueReward(), rngs, cap=400, window=5, warmup=0, batch=1
        )

    first, second = again(), again()
    assert not first.censored.any()
    assert first.steps.max() < 120
    np.testing.assert_array_equal(first.steps, second.steps)
    assert all(np.array_equal(a, b) for a, b in zip(first.episodes, second.episodes))


class Groups:
    """Vision, transition and reward that know the truth and note what they keep."""

    def __init__(self):
        self.vision, self.transition, self.kept = OracleVision(16), TrueTransition(), []

    def keep(self, which):
        self.kept.append(which)

    def see(self, scenes):
        return self.vision.see(scenes)

    def predict(self, codes, actions=None):
        return TrueReward().predict(codes) if actions is None else self.transition.predict(codes, actions)

    def learn(self, codes, rewards):
        assert len(codes) == len(rewards)


def test_groups_that_have_learned_are_dropped_and_nothing_else_changes():
    def learned(group, vision, transition, reward):
        environments = [Environment(i) for i in range(4)]
        rngs = [np.random.default_rng(i) for i in range(4)]
        return learn(environments, vision, transition, reward, rngs, cap=400, window=4, batch=2, group=group)

    watched = Groups(), Groups(), Groups()
    whole, part = learned(None, Groups(), Groups(), Groups()), learned(2, *watched)
    np.testing.assert_array_equal(whole.steps, part.steps)
    assert all(np.array_equal(a, b) for a, b in zip(whole.episodes, part.episodes))
    vision, transition, reward = (one.kept for one in watched)
    assert vision == transition == [[int(whole.steps[:2].max() < whole.steps[2:].max())]]
    assert reward == [[2, 3] if vision == [[1]] else [0, 1]]


def test_codes_that_are_not_finite_are_refused():
    class Broken(ConstantVision):
        def see(self, scenes):
            slots = super().see(scenes)
            return Slots(slots.codes * np.nan, slots.masks)

    with pytest.raises(ValueError, match="not finite"):
        learn([Environment(0)], Broken(), Unmoved(), Mean(), [np.random.default_rng(0)], cap=5)
    with pytest.raises(ValueError, match="cap must be an integer of at least 1, got 0"):
        learn([Environment(0)], ConstantVision(), Unmoved(), Mean(), [np.random.default_rng(0)], cap=0)


def test_steps_to_success_by_hand():
    rows = np.array([[50, 0], [60, 1], [70, 1], [120, 0], [130, 1], [140, 1], [150, 1]])
    assert steps_to_success(rows, window=2, level=1.0) == 70
    assert steps_to_success(rows, window=3, level=1.0) == 150
    assert steps_to_success(rows, window=4, level=0.75) == 130
    assert steps_to_success(rows, window=4, level=0.9) is None
    assert steps_to_success(rows[:0], window=1, level=0.9) is None
    # 18 of 20 are 90 %, whatever 0.9 * 20 is in floating point.
    assert steps_to_success(np.array([[i, i > 2] for i in range(1, 21)]), window=20, level=0.9) == 20


def test_animation_of_an_episode(tmp_path):
    environment = Environment(0)
    scenes, actions = [environment.reset().observation], np.random.default_rng(0).random((4, 4))
    scenes += [environment.step(action).observation for action in actions]
    animation(tmp_path / "episode.gif", scenes, actions, side=32)
    with Image.open(tmp_path / "episode.gif") as picture:
        assert (picture.n_frames, picture.size) == (5, (32, 32))
        x, y = (actions[0, :2] * 32).astype(int)
        assert picture.convert("RGB").getpixel((int(x), int(y))) == (255, 255, 255)
    with pytest.raises(ValueError, match="scenes must have shape"):
        animation(tmp_path / "none.gif", [])
    assert not (tmp_path / "none.gif").exists()
