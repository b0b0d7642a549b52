"use strict";
// Latents to move: sliders beside what a decoder draws, images to start from, and traversals as pictures. All text goes in
// by textContent, so a name cannot become markup.

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter(Boolean));
  return node;
}

// Sliders for latents. models: [{decoder, codes}]; rows: [{label, off, value, reach, latents: [[model, latent, factor], ...]}].
function liveLatents(canvases, models, rows) {
  const decode = models.map((model) => makeDecoder(model.decoder));
  const codes = models.map((model) => model.codes.slice());
  const inputs = [];
  let asked = false;
  const repaint = () => {
    asked = false;
    models.forEach((model, i) => paint(canvases[i], decode[i](codes[i]), model.decoder.shape));
  };
  const refresh = () => {
    if (!asked) requestAnimationFrame(repaint);
    asked = true;
  };
  const box = make("div");
  const rest = make("details", {}, make("summary", { text: "Inactive latents" }));
  for (const row of rows) {
    const output = make("output", { text: number(row.value) });
    const input = make("input", {
      type: "range", min: -row.reach, max: row.reach, step: 0.05, value: row.value, "aria-label": [row.label, row.meaning].filter(Boolean).join(": "),
      "data-latent": row.latents[0][1],
      oninput: () => {
        const value = Number(input.value);
        output.textContent = number(value);
        for (const [model, latent, factor] of row.latents) codes[model][latent] = factor * value;
        refresh();
      },
    });
    inputs.push([input, output, row]);
    const line = make("label", { class: row.off ? "slider off" : "slider" }, make("span", {}, row.label, row.meaning ? make("em", { text: row.meaning }) : ""), input, output);
    (row.off ? rest : box).append(line);
  }
  if (rest.childElementCount > 1) box.append(rest);
  const start = (given) => {
    given.forEach((values, i) => values.forEach((v, j) => (codes[i][j] = v)));
    for (const [input, output, row] of inputs) {
      const [model, latent, factor] = row.latents[0];
      const value = codes[model][latent] / factor;
      input.value = value;
      output.textContent = number(value);
    }
    refresh();
  };
  repaint();
  return { box, start };
}

function startButtons(starts, begin) {
  const buttons = starts.map((codes, i) =>
    make("button", {
      type: "button", text: String(i + 1), "aria-pressed": String(i === 0), "aria-label": `Start from image ${i + 1}`,
      onclick: () => {
        buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(i === j)));
        begin(i);
      },
    }));
  return make("div", { class: "starts", role: "group", "aria-label": "Start from an image" },
    make("span", { class: "soft", text: "start from image" }), ...buttons);
}

// A guess of a latent's meaning, as karenina.pages.model gives it: null, [factor, share] or [word].
function meaningOf(guess) {
  if (!guess) return "";
  return guess.length > 1 ? `${guess[0] || "unclear"}, ${number(guess[1])}` : guess[0];
}

// Pictures in rows with a label before each; rows that are off are grey.
function labelledRows(picture, rows, alt) {
  const labels = make("ul");
  for (const { text, off } of rows) labels.append(make("li", { text, class: off ? "off" : null }));
  const image = pictureOf(picture, alt);
  image.style.maxWidth = "none";
  return make("div", { class: "rows" }, labels, image);
}

const pictureOf = (picture, alt) =>
  make("img", { class: "pixels", src: picture.src, width: picture.width, height: picture.height, alt, style: `width:100%;max-width:${Math.max(picture.width, 420)}px;height:auto` });

// Active latents that move by themselves, from the traversal of a model: {order, kl, threshold, names, traversal}. They
// stand still, in the middle, for those who ask for less motion; a click stops and starts them.
function moveLatents(box, details, most = 6) {
  const { src, width, height, steps } = details.traversal;
  const cell = [width / steps, height / details.order.length];
  const rows = details.order.map((latent, row) => [latent, row]).filter(([latent]) => details.kl[latent] > details.threshold).slice(0, most);
  if (!rows.length) return;
  const sheet = new Image(), screens = rows.map(([latent, row]) => {
    const meaning = meaningOf(details.names[latent]);
    const canvas = make("canvas", { width: cell[0] - 1, height: cell[1] - 1, role: "img", "aria-label": `latent ${latent} moving${meaning ? `: ${meaning}` : ""}` });
    box.append(make("figure", {}, canvas, make("figcaption", { text: `latent ${latent}` }, meaning ? make("em", { text: meaning }) : "")));
    return [canvas.getContext("2d"), row];
  });
  const show = (column) => screens.forEach(([screen, row]) => {
    screen.clearRect(0, 0, cell[0], cell[1]);
    screen.drawImage(sheet, column * cell[0], row * cell[1], cell[0] - 1, cell[1] - 1, 0, 0, cell[0] - 1, cell[1] - 1);
  });
  let at = 0, moving = !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const round = 2 * (steps - 1);
  sheet.onload = () => {
    show(Math.floor(steps / 2));
    setInterval(() => {
      if (!moving || document.hidden) return;
      at = (at + 1) % round;
      show(at < steps ? at : round - at);
    }, 130);
  };
  box.addEventListener("click", () => (moving = !moving));
  sheet.src = src;
}
