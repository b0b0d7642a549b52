"""The table, links, charts and tips of the page in a real browser."""

import base64
import csv
import io
import json
import re

import numpy as np
import pytest

from karenina.pages.contents import read


def visit(browser, page, width=1280, address="", scheme="light"):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    browser.get("about:blank")  # so that another address of the page is a new visit
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(page.resolve().as_uri() + address)


def rows(browser):
    return browser.execute_script("return [...document.querySelectorAll('.models tbody tr')].map((r) => r.dataset.run)")


def data_of(browser):
    return browser.execute_script("return DATA")


def fill(browser, text):
    script = "const f = $('filter'); f.value = arguments[0]; f.dispatchEvent(new Event('input'))"
    browser.execute_script(script, text)


def test_the_table_sorts_both_ways_and_filters(browser, page):
    visit(browser, page)
    data = data_of(browser)
    runs = data["models"]["run"]
    assert rows(browser) == [runs[i] for i in data["order"]]
    mig = dict(zip(runs, next(score["values"] for score in data["scores"] if score["name"] == "mig")))
    header = "return document.querySelector('[data-column=mig] button').click()"
    browser.execute_script(header)
    assert rows(browser) == sorted(runs, key=lambda run: -mig[run])
    assert browser.find_element("css selector", "[data-column=mig]").get_attribute("aria-sort") == "descending"
    browser.execute_script(header)
    assert rows(browser) == sorted(runs, key=mig.get)
    bound = sorted(mig.values())[1]
    fill(browser, f"mig>{bound}")
    assert set(rows(browser)) == {run for run in runs if mig[run] > bound}
    fill(browser, "beta=8 seed")
    eight = [run for run, label in zip(runs, data["models"]["label"]) if "beta=8," in label]
    assert sorted(rows(browser)) == sorted(eight)
    fill(browser, "nothing>1")
    assert rows(browser) == []
    assert "no column of numbers called nothing" in browser.find_element("id", "shown").text


def test_what_is_shown_is_downloaded(browser, page, tmp_path, study):
    visit(browser, page)
    browser.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    script = """
    const boxes = [...document.querySelectorAll('.chooser label')];
    const named = (name) => boxes.find((label) => label.textContent === name).firstChild;
    for (const name of ["run", "kl"]) named(name).click();
    $("csv").click()"""
    fill(browser, "beta=8")
    browser.execute_script(script)
    file = tmp_path / "models.csv"
    for _ in range(100):
        if file.exists():
            break
        browser.execute_async_script("setTimeout(arguments[0], 100)")
    lines = list(csv.DictReader(io.StringIO(file.read_text())))
    contents = read([study])
    known = dict(zip(contents.about["run"], contents.score("kl")))
    assert len(lines) == contents.about["label"].str.contains("beta=8,").sum()
    assert {"model", "run", "active_latents", "udr_lasso", "mig", "kl"} <= set(lines[0])
    for line in lines:
        assert "beta=8" in line["model"]
        assert float(line["kl"]) == pytest.approx(known[line["run"]], rel=1e-3)


def test_a_click_opens_a_model_and_its_link_opens_it_again(browser, page):
    visit(browser, page)
    last = rows(browser)[-1]
    browser.execute_script("document.querySelector('.models tbody tr:last-child td:last-child').click()")
    assert browser.find_element("id", "model").get_attribute("data-run") == last
    address = browser.execute_script("return location.hash")
    assert address == f"#run={last}"
    visit(browser, page, address=address)
    assert browser.find_element("id", "model").get_attribute("data-run") == last
    first = rows(browser)[0]
    browser.execute_script("location.hash = '#run=' + arguments[0]", first)
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert browser.find_element("id", "model").get_attribute("data-run") == first
    assert browser.find_element("css selector", "tr.open").get_attribute("data-run") == first


def test_the_learning_curve_is_that_of_the_history(browser, page, study):
    import pandas as pd

    visit(browser, page)
    data = data_of(browser)
    run = data["best"]
    i = data["models"]["run"].index(run)
    history = pd.read_parquet(study / "runs" / run / "history.parquet")
    for term in ("loss", "reconstruction", "kl"):
        steps = data["curves"]["steps"][data["curves"]["grid"][i]]
        expected = history.set_index("step").loc[steps, term]
        np.testing.assert_allclose(data["curves"]["values"][term][i], expected, rtol=1e-3)
    script = "$('term').value = 'kl'; $('term').dispatchEvent(new Event('change'))"
    browser.execute_script(script)
    assert len(browser.find_elements("css selector", "#curves .series")) == 1
    others = len(data["models"]["run"]) - 1
    assert browser.find_element("css selector", "#curves .faint").get_attribute("d").count("M") == others
    assert f"other {others} models" in browser.find_element("id", "curves").text


def test_tips_by_mouse_and_by_keyboard(browser, page):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    visit(browser, page)
    spec = data_of(browser)["charts"]["agreement"]["panels"][0]
    figure = browser.find_element("css selector", "#agreement svg")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", figure)
    cells = browser.find_elements("css selector", "#agreement svg text.in, #agreement svg text.on")
    ActionChains(browser).move_to_element(cells[1]).perform()
    tip = browser.find_element("id", "tip")
    start = f"{spec['rows'][0]}, {spec['columns'][1]}: {spec['values'][0][1]:.3f}"
    assert tip.is_displayed()
    assert tip.text.startswith(start)
    browser.execute_script("hideTip()")
    figure.send_keys(Keys.ARROW_RIGHT)
    figure.send_keys(Keys.HOME)
    figure.send_keys(Keys.ARROW_RIGHT)
    assert tip.text.startswith(start)
    figure.send_keys(Keys.ARROW_DOWN)
    assert tip.text.startswith(f"{spec['rows'][1]}, {spec['columns'][1]}: 1.000")
    figure.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()
    line = browser.find_element("css selector", "#by_strength svg")
    line.send_keys(Keys.END)
    greatest = max(strength for strength in data_of(browser)["models"]["strength"])
    assert re.match(rf"beta_vae, beta {greatest:g}: \d", tip.text)


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1400, "dark"), (390, "dark")])
def test_every_width_and_scheme(browser, page, width, scheme):
    visit(browser, page, width, scheme=scheme)
    found = browser.execute_script(
        "const s = getComputedStyle(document.body);"
        "return [document.documentElement.scrollWidth, s.color, s.backgroundColor,"
        "[...document.querySelectorAll('svg.figure text')].map((t) => parseFloat(getComputedStyle(t).fontSize))]"
    )
    ink, ground = (np.mean([int(v) for v in re.findall(r"\d+", colour)[:3]]) for colour in found[1:3])
    assert found[0] <= width
    assert (ink > 200 and ground < 50) if scheme == "dark" else (ink < 50 and ground > 200)
    assert set(found[3]) <= {11, 12}
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert asked
    assert all(url.startswith(("file:", "data:", "about:")) for url in asked)
    assert browser.get_log("browser") == []


def test_print_has_everything_and_no_controls(browser, page):
    visit(browser, page)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
        for hidden in (".toc", "#csv", ".chooser", "#model .bar"):
            assert not browser.find_element("css selector", hidden).is_displayed()
        assert all(one.is_displayed() for one in browser.find_elements("css selector", "#model details table"))
        broken = (
            "return [...document.querySelectorAll('td:not(.left)')].filter((d) => d.getClientRects().length > 1).length"
        )
        assert browser.execute_script(broken) == 0
        pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
        assert pdf[:4] == b"%PDF"
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_sliders_reach_as_far_as_the_images(browser, page):
    visit(browser, page)
    for details in data_of(browser)["details"].values():
        starts = np.abs(details["starts"]).max(axis=0)
        assert (starts <= details["reach"]).all()


def test_chosen_words(page):
    text = re.sub(r"<(script|style).*?</\1>", "", page.read_text(), flags=re.DOTALL)
    for wrong in ("– .. –", r"-0\.00(?!\d)", r"\b1 partners", r"informative.latents", "uninformative", r"\b1 pairs"):
        assert not re.search(wrong, text), wrong
