"use strict";
// The page: one model opened, every model as a point, two models compared.

const DATA = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

// One model.

function openModel(i, focus = true) {
  const run = DATA.models.run[i], details = DATA.details[run], panel = $("model");
  panel.replaceChildren();
  panel.dataset.run = run;
  const address = `#run=${encodeURIComponent(run)}`;
  const title = make("h3", { text: DATA.models.label[i], tabindex: -1 });
  panel.append(title);
  const at = DATA.order.indexOf(i);
  const step = (by) => openModel(DATA.order[(at + by + DATA.order.length) % DATA.order.length], false);
  if (DATA.order.length > 1) {
    if (focus && location.hash !== address) history.replaceState(null, "", address);
    panel.append(make("div", { class: "bar" },
      make("button", { type: "button", text: "← better", onclick: () => step(-1), disabled: at === 0 }),
      make("button", { type: "button", text: "worse →", onclick: () => step(1), disabled: at === DATA.order.length - 1 }),
      make("span", { class: "soft", text: `number ${at + 1} of ${DATA.order.length}${DATA.ranked ? " by UDR" : ""}` }),
      make("a", { href: address, class: "own", text: "link to this model" })));
  }
  const live = details ? details.kl.filter((v) => v > details.threshold).length : DATA.models.informative[i];
  panel.append(make("p", { class: "soft", text: `${live} of ${DATA.models.latents[i]} latents ${live === 1 ? "is" : "are"} active.` }));
  if (details) {
    panel.append(...liveOf(details));
    panel.append(make("h3", { text: "Traversals" }), traversal(details));
    if (details.reconstructions) {
      panel.append(make("h3", { text: "Images and reconstructions" }), pictureOf(details.reconstructions, "images above, reconstructions below"));
    }
    panel.append(make("h3", { text: "KL from the prior, in nats" }), klBars(details));
    if (details.importance && live) panel.append(make("h3", { text: "What latents tell of factors" }), hinton(details));
  } else {
    panel.append(make("p", { class: "soft", text: `Scores only: the page has room for the pictures of ${Object.keys(DATA.details).length} of ${DATA.models.run.length} models. "karenina show" makes the page of this one.` }));
  }
  panel.append(learning(i), scoreTable(i), factorTable(i) || "", configTable(i, details));
  panel.querySelectorAll("[data-later]").forEach((box) => chart(box, box.spec));
  document.querySelectorAll("#scatter .open").forEach((node) => node.classList.remove("open"));
  const point = document.querySelector(`#scatter [data-index="${i}"]`);
  if (point) {
    point.classList.add("open");
    point.parentNode.append(point);
  }
  if (window.markRow) window.markRow(run);
  if (focus) title.focus({ preventScroll: true });
  const top = panel.getBoundingClientRect().top;
  if (focus && (top > window.innerHeight * 0.8 || top < 0)) panel.scrollIntoView();
}

// A chart that is drawn when it stands in the page, where its width is known.
const later = (spec) => Object.assign(make("div", { class: "chart", "data-later": true }), { spec });

const nameOf = (details, latent) => ({ label: `latent ${latent}`, meaning: meaningOf(details.names[latent]), off: details.kl[latent] <= details.threshold });

function liveOf(details) {
  const heading = make("h3", { text: "Live latents" });
  if (!details.decoder) {
    return [heading, make("p", { class: "soft", text: `No sliders for this model: ${DATA.live} of ${DATA.models.run.length} models have their decoder in the page, which keeps it small. "karenina show" makes a page with this one's, where it fits.` })];
  }
  const canvas = make("canvas", { role: "img", "aria-label": "What the decoder draws for these latents" });
  const rows = details.order.map((latent) => ({ ...nameOf(details, latent), value: details.starts[0][latent], reach: details.reach[latent], latents: [[0, latent, 1]] }));
  const live = liveLatents([canvas], [{ decoder: details.decoder, codes: details.starts[0] }], rows);
  const buttons = startButtons(details.starts, (i) => live.start([details.starts[i]]));
  const labelled = Boolean(details.importance);
  const guess = rows.some((row) => row.meaning) ? make("p", { class: "soft", text: labelled ? "In italics: the factor of which a latent tells most, and the share of its entropy." : "In italics: a guess from what a latent does to the picture." }) : "";
  return [heading, make("div", { class: "live" }, make("div", {}, canvas, buttons), make("div", {}, live.box, guess))];
}

function traversal(details) {
  const rows = details.order.map((latent) => nameOf(details, latent)).map(({ label, meaning, off }) => ({ text: [label, meaning].filter(Boolean).join(": "), off }));
  return labelledRows(details.traversal, rows, `one row per latent, from -${details.span} to ${details.span}, inactive ones faded`);
}

function klBars(details) {
  const box = make("div", { class: "kl" }), most = Math.max(...details.kl, 1e-9);
  for (const latent of details.order) {
    const value = details.kl[latent], off = value <= details.threshold ? "off" : null, bar = make("i", { class: off });
    bar.style.width = `${(100 * Math.max(value, 0)) / most}%`;
    box.append(make("span", { text: `latent ${latent}`, class: off }), bar, make("span", { text: number(value), class: off }));
  }
  return make("div", {}, box, make("p", { class: "soft", text: `Grey: inactive, at most ${details.threshold} nats.` }));
}

function hinton({ importance, order, kl, threshold }) {
  const off = order.flatMap((latent, j) => (kl[latent] <= threshold ? [j] : []));
  const values = importance.matrix.map((row) => order.map((latent) => row[latent]));
  const panel = { rows: importance.factors, columns: order.map(String), column_label: "latent", values, limits: [0, Math.max(...values.flat(), 1e-9)], off, squares: true };
  return later({ kind: "heat", panels: [panel], value: "mutual information over the factor's entropy", note: "The area of a square is mutual information over the factor's entropy. Grey: inactive latents, whose codes are too small to carry anything." });
}

// The learning curve of a model, on faint ones of all that have this term.
function learning(i) {
  const { terms, steps, grid, values } = DATA.curves, own = terms.filter((term) => grid[i] !== null && values[term][i]);
  const box = make("div", { id: "curves" }, make("h3", { text: "Learning curve" }));
  if (!own.length) {
    box.append(make("p", { class: "soft", text: "This model has no history of its training." }));
    return box;
  }
  const select = make("select", { id: "term", "aria-label": "What the learning curve shows" }, ...own.map((term) => make("option", { value: term, text: term })));
  const place = make("div");
  const specOf = (term) => {
    const others = DATA.models.run.map((_, j) => j).filter((j) => j !== i && grid[j] !== null && values[term][j] && DATA.models.data[j] === DATA.models.data[i]);
    const faint = others.map((j) => [steps[grid[j]], values[term][j]]);
    const panel = { title: "", x_label: "step", y_label: term, series: [{ name: term, colour: 0, x: steps[grid[i]], y: values[term][i] }], faint, y_range: spread(values[term][i], faint) };
    return { kind: "lines", panels: [panel], note: faint.length ? `Thick: this model. Faint: the other ${faint.length} model${faint.length === 1 ? "" : "s"} of its data set.` : "" };
  };
  // A redrawn chart needs a box of its own: the old one watches its width.
  const refresh = (now) => {
    const fresh = later(specOf(select.value));
    place.replaceChildren(fresh);
    if (now) chart(fresh, fresh.spec);
  };
  select.addEventListener("change", () => refresh(true));
  refresh(false);
  box.append(make("div", { class: "bar" }, select), place);
  return box;
}

// From the least to the highest value, without the first steps of training, which would flatten all that follows.
function spread(own, faint) {
  const late = [own, ...faint.map(([, ys]) => ys)].flatMap((ys) => ys.slice(ys.length > 8 ? Math.ceil(ys.length / 20) : 0)).filter((v) => v !== null);
  if (!late.length) return undefined;
  let low = Infinity, high = -Infinity;
  for (const v of late) { low = Math.min(low, v); high = Math.max(high, v); }
  const pad = 0.05 * (high - low) || 0.5;
  return [low - pad, high + pad];
}

function folded(summary, table) {
  return make("details", {}, make("summary", { text: summary }), make("div", { class: "scroll" }, table));
}

function scoreTable(i) {
  const several = DATA.models.data.filter((data) => data === DATA.models.data[i]).length > 1; // one model has no place
  const table = make("table", {}, make("tr", {}, ...["score", "value", ...(several ? ["place from the top"] : []), "needs labels"].map((text, c) => make("th", { text, scope: "col", class: c ? null : "left" }))));
  for (const score of DATA.scores) {
    const value = score.values[i];
    if (value === null) continue;
    const better = score.values.filter((v, j) => v !== null && v > value && DATA.models.data[j] === DATA.models.data[i]).length;
    table.append(make("tr", {}, make("td", { text: score.name, class: "left" }), make("td", { text: score.name === "active_latents" ? tidy(value) : number(value, 3) }), ...(several ? [make("td", { text: better + 1 })] : []), make("td", { text: score.supervised ? "yes" : "no" })));
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
  const models = DATA.models, shown = { run: models.run[i], data: models.data[i], method: models.method[i], seed: models.seed[i], latents: models.latents[i], "active latents": models.informative[i], ...(details ? details.config : {}) };
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

function setUpScatter() {
  const svg = $("scatter"), models = DATA.models, count = models.run.length;
  const methods = [...new Set(models.method)], picks = new Set(DATA.picks);
  const columns = DATA.scores.map((score) => score.name);
  for (const id of ["x", "y"]) {
    for (const [label, supervised] of [["without labels", false], ["with labels", true]]) {
      const group = make("optgroup", { label });
      DATA.scores.forEach((score, s) => score.supervised === supervised && group.append(make("option", { value: s, text: score.name })));
      if (group.childElementCount) $(id).append(group);
    }
    $(id).value = Math.max(0, columns.indexOf(DATA.axes[id]));
  }
  const colourings = [["method", "method"], ["strength", "strength"], ["informative", "active latents"]];
  if (new Set(models.data).size > 1) colourings.push(["data", "data set"]);
  for (const [value, text] of colourings) $("colour").append(make("option", { value, text }));
  $("colour").value = methods.length > 1 ? "method" : "strength";

  // The papers sweep each method over strengths of its own, so a colour is the place of a strength in its method's sweep.
  const known = (v) => v !== null && v !== undefined;
  const places = methods.map((method) => [...new Set(models.strength.filter((v, i) => known(v) && models.method[i] === method))].sort((a, b) => a - b));
  const informative = models.informative;
  const category = (by) => (by === "data" ? models.data : models.method);

  function shade(i, by) {
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
      [...new Set(informative.filter(known))].sort((a, b) => a - b).forEach((v) => entries.push([ramp(Math.min(1, v / Math.max(...informative, 1))), 0, `${v} active`]));
    } else {
      const all = [...new Set(category(by))];
      all.forEach((name, k) => entries.push([`var(--c${k % 8})`, by === "method" ? k : 0, name]));
    }
    box.replaceChildren(...entries.slice(0, 40).map(([colour, shape, text]) => make("span", {}, mark(colour, shape), text)));
    if (DATA.picks.length) box.append(make("span", { text: "dashed ring: a pick" }));
  }

  let W = 560;
  const H = 400, left = 62, bottom = 52, top = 12, right = 14;
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
    W = Math.max(280, Math.floor(svg.parentNode.clientWidth - 36));
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    svg.replaceChildren();
    const xt = ticks(x0, x1, 5), yt = ticks(y0, y1, 5);
    for (const v of xt.found) svg.append(draw("line", { class: "grid", x1: px(v), x2: px(v), y1: top, y2: H - bottom }), draw("text", { x: px(v), y: H - bottom + 18, "text-anchor": "middle" }, number(v, xt.digits)));
    for (const v of yt.found) svg.append(draw("line", { class: "grid", x1: left, x2: W - right, y1: py(v), y2: py(v) }), draw("text", { x: left - 8, y: py(v) + 4, "text-anchor": "end" }, number(v, yt.digits)));
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
        transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, style: `fill:${shade(i, by)}`, "data-index": i, tabindex: -1, role: "button", "aria-label": models.label[i],
      });
      group.append(point);
      points.push(point);
      placed.push([x, y, i]);
    }
    svg.append(group);
    for (const [x, y, i] of placed) if (picks.has(models.run[i])) svg.append(draw("circle", { class: "pick", cx: x, cy: y, r: radius + 5 }));
    const order = [...placed.keys()].sort((a, b) => placed[a][0] - placed[b][0] || placed[a][1] - placed[b][1]);
    svg.order = order.map((k) => points[k]);
    if (svg.order.length) (svg.order.find((point) => point.classList.contains("open")) || svg.order[0]).setAttribute("tabindex", 0);
    const missing = count - shown.length;
    $("missing").textContent = missing ? `${missing} of ${count} models lack one of these scores.` : "";
    legend(by);
  }

  function hint(i) {
    const name = (id) => `${columns[$(id).value]} ${number(DATA.scores[$(id).value].values[i], 3)}`;
    if (i === null) hideTip();
    $("hint").textContent = i === null ? "Hover or use the arrow keys to name a model; click or press Enter to open it." : `${models.label[i]}: ${name("x")}, ${name("y")}`;
    const place = placed.find(([, , j]) => j === i);
    if (place) showTip(svg, { x: place[0], y: place[1], text: $("hint").textContent });
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
  svg.addEventListener("focusout", () => hint(null));
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
  let width = svg.parentNode.clientWidth;
  new ResizeObserver(() => {
    if (svg.parentNode.clientWidth === width) return;
    width = svg.parentNode.clientWidth;
    redraw();
  }).observe(svg.parentNode);
}

// Two models whose latents are matched.

function setUpComparison() {
  const { a, b, rows, starts } = DATA.compare;
  const box = $("comparison");
  if (a.decoder && b.decoder) {
    const canvases = [a, b].map((model) => make("canvas", { role: "img", "aria-label": `What ${model.label} draws` }));
    const lines = rows.map((row) => ({ label: `${row.a} ↔ ${row.sign < 0 ? "−" : ""}${row.b}`, off: row.off, value: starts[0][0][row.a], reach: a.reach[row.a], latents: [[0, row.a, 1], [1, row.b, row.sign * b.span / a.span]] }));
    const live = liveLatents(canvases, [{ decoder: a.decoder, codes: starts[0][0] }, { decoder: b.decoder, codes: starts[0][1] }], lines);
    const buttons = startButtons(starts, (i) => live.start(starts[i]));
    const pair = make("div", { class: "two" }, ...[a, b].map((model, i) => make("div", {}, make("p", { class: "meta", text: model.label }), canvases[i])));
    box.append(make("div", { class: "live wide" }, make("div", {}, pair, buttons), live.box));
  } else {
    box.append(make("p", { class: "soft", text: "The decoders are too large for the page, so there are no sliders." }));
  }
}

// "#run=NAME" is the address of a model.
function modelOfAddress() {
  const found = /^#run=(.+)$/.exec(location.hash);
  try { return found ? DATA.models.run.indexOf(decodeURIComponent(found[1])) : -1; } catch { return -1; } // a link that was cut
}

function watchSections() {
  const links = new Map([...document.querySelectorAll(".toc a")].map((link) => [link.hash.slice(1), link]));
  const seen = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) (entry.isIntersecting ? seen.add(entry.target.id) : seen.delete(entry.target.id));
    const first = [...links.keys()].find((id) => seen.has(id));
    if (!first) return;
    links.forEach((link, id) => (id === first ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  }, { rootMargin: "-10% 0px -60% 0px" });
  links.forEach((_, id) => $(id) && observer.observe($(id)));
}

if (DATA.models) {
  if ($("table")) setUpTable($("table"), openModel);
  if ($("scatter")) setUpScatter();
  const asked = modelOfAddress(), start = asked >= 0 ? asked : DATA.models.run.indexOf(DATA.best);
  if (start >= 0) openModel(start, false);
  if (asked >= 0) $("model").scrollIntoView();
  window.addEventListener("hashchange", () => {
    const i = modelOfAddress();
    if (i < 0) return;
    if ($("model").dataset.run !== DATA.models.run[i]) openModel(i, false);
    $("model").scrollIntoView();
  });
}
document.querySelectorAll("[data-movers]").forEach((box) => DATA.details[box.dataset.movers] && moveLatents(box, DATA.details[box.dataset.movers]));
if (DATA.charts) setUpCharts();
if (DATA.compare) setUpComparison();
watchSections();
window.addEventListener("beforeprint", () => {
  document.querySelectorAll("#model details, .answer details, details.figure").forEach((node) => (node.open = true));
  hideTip();
});
