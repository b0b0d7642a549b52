"""The page in a real browser, opened from the disk."""

import base64
import io
import json
import os
from importlib.resources import files

import numpy as np
import pytest
import torch

import karenina
from karenina._settings import SETTINGS
from karenina.models.networks import build
from karenina.pages.compare import compare
from karenina.pages.model import export_decoder
from karenina.pages.page import show
from karenina.training.methods import Config
from karenina.training.run import Run

READY = "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def visit(browser, page, width=1280):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(page.resolve().as_uri())


def into_view(browser, element):
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)


def canvas(browser, which=0):
    """The pixels (h, w, 3) of a canvas, in [0, 1]."""
    from PIL import Image

    browser.execute_script(READY)
    found = f"document.querySelectorAll('.live canvas, #comparison canvas')[{which}]"
    text = browser.execute_script(f"return {found}.toDataURL('image/png')")
    image = Image.open(io.BytesIO(base64.b64decode(text.split(",")[1]))).convert("RGB")
    return np.asarray(image) / 255


def sliders(browser):
    """latent -> its value, in the order shown."""
    script = (
        "return [...document.querySelectorAll('.slider input')].map((i) => [Number(i.dataset.latent), Number(i.value)])"
    )
    return dict(browser.execute_script(script))


def same_picture(browser, run, which=0, codes=None):
    values = sliders(browser)
    codes = codes if codes is not None else [values[j] for j in range(run.latents)]
    expected = run.decode([codes])[0].transpose(1, 2, 0)
    return np.abs(canvas(browser, which) - expected).mean()


def data_of(browser):
    return browser.execute_script("return DATA")


def test_nothing_is_loaded_from_elsewhere_and_nothing_goes_wrong(browser, page):
    visit(browser, page)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert asked
    assert all(url.startswith(("file:", "data:")) for url in asked)
    assert browser.get_log("browser") == []


def test_the_latents_of_the_answer_move_until_they_are_clicked(browser, page):
    visit(browser, page)
    frame = "return document.querySelector('.movers canvas').toDataURL()"
    wait = "return new Promise((done) => setTimeout(done, 500))"

    def frames():
        found = set()
        for _ in range(4):
            browser.execute_script(wait)
            found.add(browser.execute_script(frame))
        return found

    assert len(frames()) > 1
    browser.execute_script("document.querySelector('.movers').click()")
    assert len(frames()) == 1


def test_every_model_is_a_point_and_a_click_opens_it(browser, page):
    visit(browser, page)
    models = data_of(browser)["models"]
    points = browser.find_elements("css selector", "#scatter .point")
    assert len(points) == len(models["run"]) == 4
    for index in (3, 1):
        point = browser.find_element("css selector", f"#scatter [data-index='{index}']")
        into_view(browser, point)
        point.click()
        panel = browser.find_element("id", "model")
        assert panel.get_attribute("data-run") == models["run"][index]
        assert models["label"][index] == panel.find_element("tag name", "h3").text


def test_hovering_names_a_model(browser, page):
    from selenium.webdriver import ActionChains

    visit(browser, page)
    point = browser.find_element("css selector", "#scatter [data-index='2']")
    into_view(browser, point)
    ActionChains(browser).move_to_element(point).perform()
    assert data_of(browser)["models"]["label"][2] in browser.find_element("id", "hint").text


def test_any_score_against_any(browser, page):
    visit(browser, page)
    script = """
    for (const [id, name] of [["x", "elbo"], ["y", "sap"], ["colour", null]]) {
      const select = document.getElementById(id);
      select.value = name === null ? "method" : DATA.scores.findIndex((score) => score.name === name);
      select.dispatchEvent(new Event("change"));
    }
    return [...document.querySelectorAll("#scatter .title")].map((node) => node.textContent)"""
    assert browser.execute_script(script) == ["elbo", "sap"]
    assert len(browser.find_elements("css selector", "#scatter .point")) == 4
    assert browser.find_element("id", "legend").text.startswith("beta_vae")


def test_the_keyboard_walks_the_models_opens_one_and_moves_a_latent(browser, page, study):
    from selenium.webdriver.common.keys import Keys

    visit(browser, page)
    browser.execute_script("document.querySelector('#scatter [tabindex=\"0\"]').focus()")
    data = data_of(browser)
    x = next(score["values"] for score in data["scores"] if score["name"] == data["axes"]["x"])
    from_the_left = sorted(range(len(x)), key=x.__getitem__)

    def press(key):
        browser.switch_to.active_element.send_keys(key)
        return int(browser.switch_to.active_element.get_attribute("data-index"))

    assert [press(Keys.ARROW_LEFT) for _ in x][-1] == from_the_left[0]
    assert [press(Keys.ARROW_RIGHT) for _ in range(2)] == from_the_left[1:3]
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    name = browser.find_element("id", "model").get_attribute("data-run")
    assert name == data["models"]["run"][from_the_left[2]]
    before = canvas(browser)
    first = browser.find_element("css selector", ".slider input")
    first.send_keys(Keys.END)
    run = karenina.open(study / "runs" / name)
    latent = int(first.get_attribute("data-latent"))
    assert sliders(browser)[latent] == 3
    assert np.abs(canvas(browser) - before).mean() > 1e-4
    start = data_of(browser)["details"][name]["starts"][0]
    assert same_picture(browser, run, codes=[3 if j == latent else v for j, v in enumerate(start)]) < 0.01


def test_sliders_start_from_an_image_with_the_informative_latents_first(browser, page, study):
    visit(browser, page)
    data = data_of(browser)
    details = data["details"][data["best"]]
    assert list(sliders(browser)) == details["order"]
    assert details["kl"][details["order"][0]] == max(details["kl"])
    into_view(browser, button := browser.find_elements("css selector", ".starts button")[2])
    button.click()
    run = karenina.open(study / "runs" / data["best"])
    assert same_picture(browser, run, codes=details["starts"][2]) < 0.01


def test_a_phone_shows_no_horizontal_scrolling(browser, page):
    visit(browser, page, width=390)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert browser.get_log("browser") == []


def test_names_cannot_become_markup(browser, page):
    visit(browser, page)
    assert browser.find_element("tag name", "h1").text == "small <b>study</b> & more"
    assert browser.find_elements("css selector", "h1 b") == []


@pytest.mark.parametrize(
    ("network", "shape", "kind"),
    [
        ("mlp", (1, 16, 16), "bernoulli"),
        ("conv64", (1, 64, 64), "bernoulli"),
        ("conv64", (3, 64, 64), "gaussian"),
        ("conv32", (3, 32, 32), "bernoulli"),
        ("fc", (1, 8, 8), "bernoulli"),
        ("linear", (3, 5, 7), "gaussian"),
    ],
)
def test_the_decoder_in_the_page_draws_what_torch_draws(browser, page, network, shape, kind):
    torch.manual_seed(0)
    model = build(network, shape, 6)
    for parameter in model.decoder.parameters():
        parameter.data *= 3  # pictures with contrast
    chosen = {name: setting.default for name, setting in SETTINGS.items()}
    chosen |= {"network": network, "latents": 6, "decoder": kind, "learning_rate": 1e-4, "reconstruction_weight": 1.0}
    config = Config(data="x", images="", image_shape=shape, method="vae", parameters={}, seed=0, **chosen)
    run = Run(config, model)
    codes = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    browser.get("about:blank")
    source = (files("karenina.pages") / "assets" / "decoder.js").read_text()
    script = f"{source}\nconst decode = makeDecoder(arguments[0]); return arguments[1].map((z) => [...decode(z)])"
    found = np.array(browser.execute_script(script, export_decoder(run), codes.tolist()))
    expected = run.decode(codes).transpose(0, 2, 3, 1)
    assert expected.std() > 0.01
    assert np.abs(found.reshape(expected.shape) - expected).mean() < 0.002


def test_the_page_of_one_run(browser, study, tmp_path):
    run = sorted((study / "runs").iterdir())[0]
    visit(browser, show(run, tmp_path, metrics=["mig"]))
    assert browser.get_log("browser") == []
    assert same_picture(browser, karenina.open(run)) < 0.01
    assert not browser.find_elements("id", "scatter")
    assert browser.title == browser.find_element("tag name", "h1").text
    assert "beta_vae beta=" in browser.title
    assert "seed" in browser.title
    assert f"karenina show {os.path.relpath(run)}" in browser.find_element("css selector", "#how pre").text
    assert "UDR" not in browser.find_element("id", "how").text  # nothing was ranked
    assert len(browser.find_elements("css selector", "#curves .series")) == 1
    assert all((tmp_path / name).exists() for name in ("traversal.png", "traversal.gif", "reconstructions.png"))


def test_two_runs_side_by_side_move_together(browser, study, tmp_path):
    from selenium.webdriver.common.keys import Keys

    first, second = sorted((study / "runs").iterdir())[:2]
    visit(browser, compare(first, second, tmp_path, kl_threshold=0.0001))
    compared = data_of(browser)["compare"]
    row = compared["rows"][0]
    browser.find_element("css selector", ".slider input").send_keys(Keys.HOME)
    expected = [list(codes) for codes in compared["starts"][0]]
    expected[0][row["a"]], expected[1][row["b"]] = -3, -3 * row["sign"]
    for which, (path, codes) in enumerate(zip((first, second), expected)):
        assert same_picture(browser, karenina.open(path), which, codes) < 0.01
    assert browser.get_log("browser") == []
