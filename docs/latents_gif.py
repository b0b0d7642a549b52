"""docs/pictures/latents.gif: the sliders of a page, moved one after the other in Chromium.

karenina demo --out demo
python docs/latents_gif.py demo/report/index.html docs/pictures/latents.gif
"""

import base64
import io
import math
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

WIDTH = 620
FRAMES = 14  # of one slider, there and back
MOST_SLIDERS = 4
EDGE = 10
MOVE = """
const inputs = [...document.querySelectorAll("#model .slider:not(.off) input")];
inputs[arguments[0]].value = arguments[1];
inputs[arguments[0]].dispatchEvent(new Event("input"));
"""
PLACE = 'const box = document.querySelector("#model .live").getBoundingClientRect();'
PLACE += "return [box.left + scrollX, box.top + scrollY, box.width, box.height]"


def frames(page: Path) -> list[Image.Image]:
    """One picture for each place of each slider; a slider ends where it began."""
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    words = ("headless", "no-sandbox", "disable-gpu", "disable-background-networking", "hide-scrollbars")
    for word in (*words, f"user-data-dir={tempfile.mkdtemp()}", f"window-size={WIDTH + 120},900"):
        options.add_argument(f"--{word}")
    driver = Chrome(options, Service(shutil.which("chromedriver")))
    try:
        driver.get(page.resolve().as_uri())
        for node in ("#model .starts", "#model .live details"):  # what does not move
            driver.execute_script("document.querySelectorAll(arguments[0]).forEach((n) => n.remove())", node)
        sliders = driver.execute_script(
            'return [...document.querySelectorAll("#model .slider:not(.off) input")].map((i) => [+i.value, +i.max])'
        )
        x, y, width, height = driver.execute_script(PLACE)
        clip = {"x": x - EDGE, "y": y - EDGE, "width": width + 2 * EDGE, "height": height + 2 * EDGE, "scale": 1}
        found = []
        for place, (value, reach) in enumerate(sliders[:MOST_SLIDERS]):
            start = math.asin(max(-1.0, min(1.0, value / reach)))
            for i in range(FRAMES):
                driver.execute_script(MOVE, place, reach * math.sin(start + 2 * math.pi * i / FRAMES))
                driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
                shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
                found.append(Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB"))
            driver.execute_script(MOVE, place, value)
        return found
    finally:
        driver.quit()


if __name__ == "__main__":
    first, *rest = (frame.quantize(96) for frame in frames(Path(sys.argv[1])))
    first.save(sys.argv[2], save_all=True, append_images=rest, duration=110, loop=0, optimize=True)
    print(f"{1 + len(rest)} frames of {first.width} x {first.height}, {Path(sys.argv[2]).stat().st_size:,} bytes")
