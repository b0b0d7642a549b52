"""The page of a fit in a real browser: a name goes from its box into names.json, and from there to a column."""

import json
import time

import pandas as pd
import pytest

import karenina
from karenina.fitting.encoding import encode


@pytest.fixture
def browser(tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,1600"):
        options.add_argument(word)
    options.add_experimental_option("prefs", {"download.default_directory": str(tmp_path / "down")})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        opened = webdriver.Chrome(options=options)
    except Exception as error:
        pytest.skip(f"Chromium or chromedriver is missing: {type(error).__name__}")
    yield opened
    opened.quit()


def test_a_name_goes_from_the_page_to_a_column(browser, tmp_path):
    found = karenina.fit("blobs", out=tmp_path / "mine", models=2, steps=150, latents=3)
    browser.get(found.page.resolve().as_uri())
    box = browser.find_element("css selector", "input[data-latent]")
    save = browser.find_element("id", "save")
    assert not save.is_enabled()
    box.send_keys("Größe <b>")
    assert save.is_enabled()
    save.click()
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
