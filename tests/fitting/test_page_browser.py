"""The page of a fit in a real browser: a name goes from its box into names.json, and from there to a column."""

import json
import time

import pandas as pd

import karenina
from karenina.fitting.encoding import encode


def test_a_name_goes_from_the_page_to_a_column(browser, tmp_path):
    found = karenina.fit("blobs", out=tmp_path / "mine", models=2, steps=150, latents=3)
    where = {"behavior": "allow", "downloadPath": str(tmp_path / "down")}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    browser.get_log("browser")  # of pages before
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
