"""docs/pictures/latents.gif: each active latent of a model moves by itself, above what it tells of.

karenina demo --out demo
python docs/latents_gif.py demo/study docs/pictures/latents.gif
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from karenina.drawing.pictures import to_image, traverse_prior
from karenina.pages.choice import choices
from karenina.pages.contents import read_study
from karenina.pages.model import details
from karenina.training import open as open_run

SIDE, GAP, CAPTION = 192, 16, 30
FRAMES = 32  # there and back


def main(study: str, out: str) -> None:
    contents = read_study(Path(study))
    best = choices(contents)[0].best
    shown = details(contents, [best])[best]
    active = [latent for latent in shown["order"] if shown["kl"][latent] > shown["threshold"]]
    run = open_run(contents.paths[best])
    start = np.array(shown["starts"][0], dtype=np.float32)
    moved = traverse_prior(run, start, np.array(active), FRAMES // 2)
    there = np.sin(np.linspace(-np.pi / 2, np.pi / 2, FRAMES // 2))  # slowly at the ends
    steps = np.round((there + 1) / 2 * (FRAMES // 2 - 1)).astype(int)
    font = ImageFont.load_default(18)
    frames = []
    for step in [*steps, *steps[::-1]]:
        sheet = Image.new("RGB", (len(active) * (SIDE + GAP) - GAP, SIDE + CAPTION), "white")
        for place, latent in enumerate(active):
            picture = to_image(moved[place, step]).convert("RGB")
            left = place * (SIDE + GAP)
            sheet.paste(picture.resize((SIDE, SIDE), Image.Resampling.NEAREST), (left, 0))
            name = (shown["names"][latent] or [""])[0].replace("_", " ")
            ImageDraw.Draw(sheet).text((left, SIDE + 5), f"latent {latent}: {name}", fill="#333333", font=font)
        frames.append(sheet.quantize(128))
    frames[0].save(out, save_all=True, append_images=frames[1:], duration=70, loop=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
