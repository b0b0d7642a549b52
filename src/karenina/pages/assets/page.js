"use strict";
// The interactive parts of the page. All text goes in by textContent, so a name cannot become markup.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);
const number = (v, digits = 2) => (v === null || v === undefined ? "–" : (Object.is(v, -0) ? 0 : v).toFixed(digits));

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

function draw(tag, attributes = {}, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
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
  const rest = make("details", {}, make("summary", { text: "Uninformative latents" }));
  for (const row of rows) {
    const output = make("output", { text: number(row.value) });
    const input = make("input", {
      type: "range", min: -row.reach, max: row.reach, step: 0.05, value: row.value, "aria-label": row.label,
      "data-latent": row.latents[0][1],
      oninput: () => {
        const value = Number(input.value);
        output.textContent = number(value);
        for (const [model, latent, factor] of row.latents) codes[model][latent] = factor * value;
        refresh();
      },
    });
    inputs.push([input, output, row]);
    const line = make("label", { class: row.off ? "slider off" : "slider" }, make("span", { text: row.label }), input, output);
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

const pictureOf = (picture, alt) =>
  make("img", { class: "pixels", src: picture.src, width: picture.width, height: picture.height, alt, style: `width:100%;max-width:${Math.max(picture.width, 420)}px;height:auto` });

// One model.

function openModel(i, focus = true) {
  const run = DATA.models.run[i], details = DATA.details[run], panel = $("model");
  panel.replaceChildren();
  panel.dataset.run = run;
  const title = make("h3", { text: DATA.models.label[i], tabindex: -1 });
  panel.append(title);
  const at = DATA.order.indexOf(i);
  const step = (by) => openModel(DATA.order[(at + by + DATA.order.length) % DATA.order.length], false);
  if (DATA.order.length > 1) {
    panel.append(make("div", { class: "bar" },
      make("button", { type: "button", text: "← better", onclick: () => step(-1), disabled: at === 0 }),
      make("button", { type: "button", text: "worse →", onclick: () => step(1), disabled: at === DATA.order.length - 1 }),
      make("span", { class: "soft", text: `number ${at + 1} of ${DATA.order.length}${DATA.ranked ? " by UDR" : ""}` })));
  }
  if (details) {
    panel.append(...liveOf(details));
    panel.append(make("h3", { text: "Traversals" }), traversal(details));
    if (details.reconstructions) {
      panel.append(make("h3", { text: "Images and reconstructions" }), pictureOf(details.reconstructions, "images above, reconstructions below"));
    }
    panel.append(make("h3", { text: "KL from the prior, in nats" }), klBars(details));
    if (details.importance) {
      panel.append(make("h3", { text: "What latents tell of factors" }), hinton(details.importance, details.order),
        make("p", { class: "soft", text: "The area of a square is mutual information over the factor's entropy." }));
    }
  } else {
    panel.append(make("p", { class: "soft", text: `Scores only: the page has room for the pictures of ${Object.keys(DATA.details).length} of ${DATA.models.run.length} models. "karenina show" makes the page of this one.` }));
  }
  panel.append(scoreTable(i), factorTable(i) || "", configTable(i, details));
  document.querySelectorAll("#scatter .open").forEach((node) => node.classList.remove("open"));
  const point = document.querySelector(`#scatter [data-index="${i}"]`);
  if (point) {
    point.classList.add("open");
    point.parentNode.append(point);
  }
  if (focus) title.focus({ preventScroll: true });
  if (focus && panel.getBoundingClientRect().top > window.innerHeight * 0.8) panel.scrollIntoView();
}

function liveOf(details) {
  const heading = make("h3", { text: "Live latents" });
  if (!details.decoder) {
    return [heading, make("p", { class: "soft", text: `No sliders for this model: ${DATA.live} of ${DATA.models.run.length} models have their decoder in the page, which keeps it below 20 MB. "karenina show" makes a page with this one's, where it fits.` })];
  }
  const canvas = make("canvas", { role: "img", "aria-label": "What the decoder draws for these latents" });
  const rows = details.order.map((latent) => ({
    label: `latent ${latent}`, off: details.kl[latent] <= details.threshold,
    value: details.starts[0][latent], reach: details.reach, latents: [[0, latent, 1]],
  }));
  const live = liveLatents([canvas], [{ decoder: details.decoder, codes: details.starts[0] }], rows);
  const buttons = startButtons(details.starts, (i) => live.start([details.starts[i]]));
  return [heading, make("div", { class: "live" }, make("div", {}, canvas, buttons), live.box)];
}

function traversal(details) {
  const labels = make("ul");
  for (const latent of details.order) labels.append(make("li", { text: `latent ${latent}` }));
  const image = pictureOf(details.traversal, `one row per latent, from -${details.span} to ${details.span}, uninformative ones faded`);
  image.style.maxWidth = "none";
  return make("div", { class: "rows" }, labels, image);
}

function klBars(details) {
  const box = make("div", { class: "kl" }), most = Math.max(...details.kl, 1e-9);
  for (const latent of details.order) {
    const value = details.kl[latent], bar = make("i", { class: value <= details.threshold ? "off" : null });
    bar.style.width = `${(100 * Math.max(value, 0)) / most}%`;
    box.append(make("span", { text: `latent ${latent}` }), bar, make("span", { text: number(value) }));
  }
  return box;
}

function hinton(importance, order) {
  const most = Math.max(...importance.matrix.flat(), 1e-9);
  const head = make("tr", {}, make("th", { text: "" }), ...order.map((latent) => make("th", { text: latent, scope: "col" })));
  const body = importance.factors.map((factor, f) =>
    make("tr", {}, make("th", { text: factor, class: "left", scope: "row" }), ...order.map((latent) => {
      const value = importance.matrix[f][latent], square = make("i"), side = 1.6 * Math.sqrt(Math.max(value, 0) / most);
      square.style.width = square.style.height = `${side.toFixed(2)}rem`;
      return make("td", { title: `${factor}, latent ${latent}: ${number(value)}`, "aria-label": number(value) }, square);
    })));
  return make("div", { class: "scroll" }, make("table", { class: "hinton" }, head, ...body));
}

function folded(summary, table) {
  return make("details", {}, make("summary", { text: summary }), make("div", { class: "scroll" }, table));
}

function scoreTable(i) {
  const table = make("table", {}, make("tr", {}, ...["score", "value", "place from the top", "needs labels"].map((text, c) => make("th", { text, scope: "col", class: c ? null : "left" }))));
  for (const score of DATA.scores) {
    const value = score.values[i];
    if (value === null) continue;
    const better = score.values.filter((v, j) => v !== null && v > value && DATA.models.data[j] === DATA.models.data[i]).length;
    table.append(make("tr", {}, make("td", { text: score.name, class: "left" }), make("td", { text: number(value, 3) }), make("td", { text: better + 1 }), make("td", { text: score.supervised ? "yes" : "no" })));
  }
  const box = folded("Scores", table);
  box.open = DATA.models.run.length === 1;
  return box;
}

function factorTable(i) {
  const about = DATA.factors[DATA.models.data[i]], values = about && about.values[DATA.models.run[i]];
  if (!values) return null;
  const table = make("table", {}, make("tr", {}, make("th", { text: "score", class: "left" }), ...about.names.map((text) => make("th", { text, scope: "col" }))));
  about.scores.forEach((name, s) => {
    table.append(make("tr", {}, make("td", { text: name, class: "left" }), ...about.names.map((_, f) => make("td", { text: number(values[s * about.names.length + f]) }))));
  });
  return folded("Scores of each factor", table);
}

function configTable(i, details) {
  const models = DATA.models, shown = { run: models.run[i], data: models.data[i], method: models.method[i], seed: models.seed[i], latents: models.latents[i], "informative latents": models.informative[i], ...(details ? details.config : {}) };
  const table = make("table");
  for (const [name, value] of Object.entries(shown)) table.append(make("tr", {}, make("th", { text: name, class: "left", scope: "row" }), make("td", { text: String(value), class: "left" })));
  return folded("Configuration", table);
}

// The scatter.

const SHAPES = [
  (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
  (r) => `M${-r * 0.9},${-r * 0.9}h${r * 1.8}v${r * 1.8}h${-r * 1.8}z`,
  (r) => `M0,${-r * 1.25}L${r * 1.15},${r * 0.8}H${-r * 1.15}z`,
  (r) => `M0,${-r * 1.3}L${r * 1.3},0L0,${r * 1.3}L${-r * 1.3},0z`,
  (r) => `M0,${r * 1.25}L${r * 1.15},${-r * 0.8}H${-r * 1.15}z`,
  (r) => `M${-r * 0.4},${-r * 1.2}h${r * 0.8}v${r * 0.8}h${r * 0.8}v${r * 0.8}h${-r * 0.8}v${r * 0.8}h${-r * 0.8}v${-r * 0.8}h${-r * 0.8}v${-r * 0.8}h${r * 0.8}z`,
];
// Lightness grows steadily along this ramp, so that it also reads without colour.
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [237, 217, 60]];

function ramp(t) {
  const at = Math.min(RAMP.length - 2, Math.floor(t * (RAMP.length - 1))), part = t * (RAMP.length - 1) - at;
  return `rgb(${RAMP[at].map((v, c) => Math.round(v + part * (RAMP[at + 1][c] - v))).join(",")})`;
}

function ticks(low, high, count) {
  const raw = (high - low) / count, base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= raw);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-6; v += step) found.push(Math.abs(v) < step * 1e-6 ? 0 : v);
  return { found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

function setUpScatter() {
  const svg = $("scatter"), models = DATA.models, count = models.run.length;
  const methods = [...new Set(models.method)];
  const columns = DATA.scores.map((score) => score.name);
  for (const id of ["x", "y"]) {
    for (const [label, supervised] of [["without labels", false], ["with labels", true]]) {
      const group = make("optgroup", { label });
      DATA.scores.forEach((score, s) => score.supervised === supervised && group.append(make("option", { value: s, text: score.name })));
      if (group.childElementCount) $(id).append(group);
    }
    $(id).value = Math.max(0, columns.indexOf(DATA.axes[id]));
  }
  const colourings = [["method", "method"], ["strength", "strength"], ["informative", "informative latents"]];
  if (new Set(models.data).size > 1) colourings.push(["data", "data set"]);
  for (const [value, text] of colourings) $("colour").append(make("option", { value, text }));
  $("colour").value = methods.length > 1 ? "method" : "strength";

  // The papers sweep each method over strengths of its own, so a colour is the place of a strength in its method's sweep.
  const known = (v) => v !== null && v !== undefined;
  const places = methods.map((method) => [...new Set(models.strength.filter((v, i) => known(v) && models.method[i] === method))].sort((a, b) => a - b));
  const informative = models.informative;
  const category = (by) => (by === "data" ? models.data : models.method);

  function colourOf(i, by) {
    if (by === "strength") {
      const all = places[methods.indexOf(models.method[i])];
      return known(models.strength[i]) ? ramp(all.length > 1 ? all.indexOf(models.strength[i]) / (all.length - 1) : 0.5) : "var(--c7)";
    }
    if (by === "informative") return known(informative[i]) ? ramp(Math.min(1, informative[i] / Math.max(...informative, 1))) : "var(--c7)";
    const all = [...new Set(category(by))];
    return `var(--c${all.indexOf(category(by)[i]) % 8})`;
  }

  function legend(by) {
    const box = $("legend"), entries = [];
    const mark = (colour, shape) => {
      const icon = draw("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" });
      icon.append(draw("path", { d: SHAPES[shape % SHAPES.length](5.5), style: `fill:${colour}` }));
      return icon;
    };
    if (by === "strength") {
      methods.forEach((method, m) => places[m].forEach((v, k) => entries.push([ramp(places[m].length > 1 ? k / (places[m].length - 1) : 0.5), m, `${method} ${models.parameter[models.method.indexOf(method)]}=${v}`])));
    } else if (by === "informative") {
      [...new Set(informative.filter(known))].sort((a, b) => a - b).forEach((v) => entries.push([ramp(Math.min(1, v / Math.max(...informative, 1))), 0, `${v} informative`]));
    } else {
      const all = [...new Set(category(by))];
      all.forEach((name, k) => entries.push([`var(--c${k % 8})`, by === "method" ? k : 0, name]));
    }
    box.replaceChildren(...entries.slice(0, 40).map(([colour, shape, text]) => make("span", {}, mark(colour, shape), text)));
    if (DATA.picks.length) box.append(make("span", { text: "dashed ring: a pick" }));
  }

  const W = 560, H = 420, left = 62, bottom = 52, top = 12, right = 14;
  const radius = count > 1500 ? 2.6 : count > 300 ? 3.8 : 6.5;
  const points = [];
  let placed = [];

  function redraw() {
    const xs = DATA.scores[$("x").value].values, ys = DATA.scores[$("y").value].values, by = $("colour").value;
    const shown = [...models.run.keys()].filter((i) => known(xs[i]) && known(ys[i]));
    const range = (values) => {
      let low = Infinity, high = -Infinity;
      for (const i of shown) { low = Math.min(low, values[i]); high = Math.max(high, values[i]); }
      if (!(high > low)) { low = (Number.isFinite(low) ? low : 0) - 0.5; high = low + 1; }
      const pad = 0.06 * (high - low);
      return [low - pad, high + pad];
    };
    const [x0, x1] = range(xs), [y0, y1] = range(ys);
    const px = (v) => left + ((v - x0) / (x1 - x0)) * (W - left - right), py = (v) => H - bottom - ((v - y0) / (y1 - y0)) * (H - top - bottom);
    svg.replaceChildren();
    const xt = ticks(x0, x1, 5), yt = ticks(y0, y1, 5);
    for (const v of xt.found) svg.append(draw("line", { class: "grid", x1: px(v), x2: px(v), y1: top, y2: H - bottom }), draw("text", { x: px(v), y: H - bottom + 18, "text-anchor": "middle" }, v.toFixed(xt.digits)));
    for (const v of yt.found) svg.append(draw("line", { class: "grid", x1: left, x2: W - right, y1: py(v), y2: py(v) }), draw("text", { x: left - 8, y: py(v) + 4, "text-anchor": "end" }, v.toFixed(yt.digits)));
    svg.append(draw("text", { class: "title", x: (left + W - right) / 2, y: H - 10, "text-anchor": "middle" }, columns[$("x").value]));
    svg.append(draw("text", { class: "title", transform: `translate(15 ${(top + H - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, columns[$("y").value]));
    const group = draw("g");
    placed = [];
    points.length = 0;
    const opened = $("model").dataset.run;
    for (const i of shown) {
      const x = px(xs[i]), y = py(ys[i]);
      const point = draw("path", {
        class: models.run[i] === opened ? "point open" : "point", d: SHAPES[methods.indexOf(models.method[i]) % SHAPES.length](radius),
        transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, style: `fill:${colourOf(i, by)}`, "data-index": i, tabindex: -1, role: "button", "aria-label": models.label[i],
      });
      group.append(point);
      points.push(point);
      placed.push([x, y, i]);
    }
    svg.append(group);
    for (const [x, y, i] of placed) if (DATA.picks.includes(models.run[i])) svg.append(draw("circle", { class: "pick", cx: x, cy: y, r: radius + 5 }));
    const order = [...placed.keys()].sort((a, b) => placed[a][0] - placed[b][0] || placed[a][1] - placed[b][1]);
    svg.order = order.map((k) => points[k]);
    if (svg.order.length) (svg.order.find((point) => point.classList.contains("open")) || svg.order[0]).setAttribute("tabindex", 0);
    const missing = count - shown.length;
    $("missing").textContent = missing ? `${missing} of ${count} models lack one of these scores.` : "";
    legend(by);
  }

  function hint(i) {
    const name = (id) => `${columns[$(id).value]} ${number(DATA.scores[$(id).value].values[i], 3)}`;
    $("hint").textContent = i === null ? "Hover or use the arrow keys to name a model; click or press Enter to open it." : `${models.label[i]}: ${name("x")}, ${name("y")}`;
  }

  function nearest(event) {
    const box = svg.getBoundingClientRect(), x = ((event.clientX - box.left) * W) / box.width, y = ((event.clientY - box.top) * H) / box.height;
    let best = null, least = 24 ** 2;
    for (const [px, py, i] of placed) {
      const d = (px - x) ** 2 + (py - y) ** 2;
      if (d < least) { least = d; best = i; }
    }
    return best;
  }

  svg.addEventListener("pointermove", (event) => {
    const i = nearest(event);
    svg.querySelectorAll(".near").forEach((node) => node.classList.remove("near"));
    if (i !== null) svg.querySelector(`[data-index="${i}"]`).classList.add("near");
    hint(i);
  });
  svg.addEventListener("pointerleave", () => {
    svg.querySelectorAll(".near").forEach((node) => node.classList.remove("near"));
    hint(null);
  });
  svg.addEventListener("click", (event) => {
    const i = nearest(event);
    if (i !== null) openModel(i);
  });
  svg.addEventListener("focusin", (event) => event.target.dataset.index && hint(Number(event.target.dataset.index)));
  svg.addEventListener("keydown", (event) => {
    const at = svg.order.indexOf(event.target), by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (at < 0) return;
    if (by) {
      const next = svg.order[Math.min(svg.order.length - 1, Math.max(0, at + by))];
      event.target.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
      event.preventDefault();
    } else if (event.key === "Enter" || event.key === " ") {
      openModel(Number(event.target.dataset.index));
      event.preventDefault();
    }
  });
  for (const id of ["x", "y", "colour"]) $(id).addEventListener("change", redraw);
  hint(null);
  redraw();
}

// Two models whose latents are matched.

function setUpComparison() {
  const { a, b, rows, starts } = DATA.compare;
  const box = $("comparison");
  if (a.decoder && b.decoder) {
    const canvases = [a, b].map((model) => make("canvas", { role: "img", "aria-label": `What ${model.label} draws` }));
    const lines = rows.map((row) => ({ label: `${row.a} ↔ ${row.sign < 0 ? "−" : ""}${row.b}`, off: row.off, value: starts[0][0][row.a], reach: a.reach, latents: [[0, row.a, 1], [1, row.b, row.sign * b.span / a.span]] }));
    const live = liveLatents(canvases, [{ decoder: a.decoder, codes: starts[0][0] }, { decoder: b.decoder, codes: starts[0][1] }], lines);
    const buttons = startButtons(starts, (i) => live.start(starts[i]));
    const pair = make("div", { class: "two" }, ...[a, b].map((model, i) => make("div", {}, make("p", { class: "meta", text: model.label }), canvases[i])));
    box.append(make("div", { class: "live wide" }, make("div", {}, pair, buttons), live.box));
  } else {
    box.append(make("p", { class: "soft", text: "The decoders are too large for the page, so there are no sliders." }));
  }
}

if (DATA.models) {
  if ($("scatter")) setUpScatter();
  const start = DATA.models.run.indexOf(DATA.best);
  if (start >= 0) openModel(start, false);
  document.querySelectorAll("[data-open]").forEach((button) => button.addEventListener("click", () => {
    openModel(DATA.models.run.indexOf(button.dataset.open));
    $("model").scrollIntoView();
  }));
}
if (DATA.compare) setUpComparison();
window.addEventListener("beforeprint", () => document.querySelectorAll("#model details").forEach((node) => (node.open = true)));
