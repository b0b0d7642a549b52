"""The page of a fit in a real browser: a name goes from its box into names.json, and from there to a column."""

import json
import shutil
import time
import warnings

import pandas as pd
import pytest

import karenina
from karenina.fitting.encoding import encode


@pytest.fixture
def browser(tmp_path):
    pytest.importorskip("selenium", reason="selenium is not installed")
    paths = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in paths:
        pytest.skip("there is no chromium with its chromedriver")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = paths[0]
    flags = "headless no-sandbox disable-gpu no-first-run disable-background-networking window-size=1200,900"
    for flag in [*flags.split(), f"user-data-dir={tmp_path / 'profile'}"]:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        driver = Chrome(options=options, service=Service(paths[1]))
    where = {"behavior": "allow", "downloadPath": str(tmp_path / "down")}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    yield driver
    driver.quit()


def test_a_name_goes_from_the_page_to_a_column(browser, tmp_path):
    found = karenina.fit("blobs", out=tmp_path / "mine", models=2, steps=150, latents=3)
    browser.get(found.page.resolve().as_uri())
    box = browser.find_element("css selector", "input[data-latent]")
    save = browser.find_element("id", "save")
    assert not save.is_enabled()
    box.send_keys("Größe <b>")
    assert save.is_enabled()
    browser.execute_script("arguments[0].click()", save)  # wherever the page is scrolled to
    file = tmp_path / "down" / "names.json"
    for _ in range(200):
        if file.exists():
            break
        time.sleep(0.1)
    assert json.loads(file.read_text())["names"] == {box.get_attribute("data-latent"): "Größe <b>"}
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    file.rename(found.path / "names.json")
    encode(found.path, "blobs", tmp_path / "codes.parquet")
    assert "Größe <b>" in pd.read_parquet(tmp_path / "codes.parquet").columns
    again = karenina.fit("blobs", out=tmp_path / "mine", models=2, steps=150, latents=3)
    assert "Größe &lt;b&gt;" in again.page.read_text()
