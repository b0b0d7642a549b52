"use strict";
// Names stay in the page until they are downloaded: a page on disk cannot write files.
const about = JSON.parse(document.getElementById("data").textContent);
const boxes = Array.from(document.querySelectorAll("input[data-latent]"));
const said = document.getElementById("said");
const save = document.getElementById("save");

function names() {
  const found = {};
  for (const box of boxes) if (box.value.trim()) found[box.dataset.latent] = box.value.trim();
  return found;
}

function check() {
  const given = Object.values(names());
  const twice = given.find((name, i) => given.indexOf(name) !== i);
  if (save) save.disabled = Boolean(twice) || given.length === 0;
  if (said) said.textContent = twice ? `Two latents are called “${twice}”.` : "";
}

for (const box of boxes) box.addEventListener("input", check);
if (save) {
  save.addEventListener("click", () => {
    const text = JSON.stringify({ ...about, names: names() }, null, 2) + "\n";
    const link = document.createElement("a");
    link.href = "data:application/json;charset=utf-8," + encodeURIComponent(text);
    link.download = "names.json";
    document.body.append(link);
    link.click();
    link.remove();
    said.textContent = "Downloaded. Move it to where the text above says.";
  });
}
check();

// The pictures that move in the answer are those of the latents below, which the page carries once.
document.querySelectorAll("[data-copy]").forEach((image) => (image.src = document.querySelector(`#${image.dataset.copy} img`).src));
