"use strict";
// Charts from the descriptions of karenina.drawing.charts: SVG at the width there is, so that letters have one
// size. Every mark has a tip with its numbers, for the mouse and, by the arrow keys, for the keyboard.

const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "7 3", "2 2.5", "7 3 2 3", "11 3", "4 1.5"];
const LETTER = 6.7; // mean width of a letter of 12 px
const NARROW = 250, WIDE = 620, NAME = 32;
let CLIPS = 0;
const number = (v, digits = 2) => (v === null || v === undefined ? "–" : v.toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1"));
const tidy = (v) => (v === null || v === undefined ? "–" : Number.isInteger(v) || Math.abs(v) >= 1000 ? String(Math.round(v)) : Number(v.toPrecision(3)).toString());
const range = (count) => Array.from({ length: count }, (_, i) => i);
const clamp = (v, low, high) => Math.min(high, Math.max(low, v));

function draw(tag, attributes = {}, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function ticks(low, high, count) {
  const raw = (high - low) / count, base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= raw * 0.999);
  const found = [];
  for (let v = Math.ceil(low / step - 1e-6) * step; v <= high + step * 1e-6; v += step) found.push(Math.abs(v) < step * 1e-6 ? 0 : v);
  return { found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

const cut = (text, most) => (text.length <= most ? text : `…${text.slice(1 - most)}`);
// A label in one line, or in two when it has more letters than fit: broken before the mark that is nearest to its middle.
function broken(text, most) {
  if (text.length <= most) return [text];
  const places = range(text.length).filter((i) => i && " _".includes(text[i])), middle = text.length / 2;
  const at = places.reduce((best, i) => (Math.abs(i - middle) < Math.abs(best - middle) ? i : best), places[0]);
  return at ? [text.slice(0, at), text.slice(at).trim()].map((part) => cut(part, most)) : [cut(text, most)];
}
const lettersOf = (names, most) => Math.max(1, ...names.flatMap((text) => broken(text, most).map((part) => part.length)));
function labelled(attributes, text, most) {
  const lines = broken(text, most), node = draw("text", attributes), { x = 0 } = attributes;
  lines.forEach((part, i) => node.append(draw("tspan", { x, dy: i ? 12 : lines.length > 1 ? -6 : null }, part)));
  return node;
}
const colourOf = (i) => (i === null || i === undefined ? "var(--ink)" : `var(--c${i % 8})`);

// The one tip of the page.
const TIP = document.createElement("div");
TIP.id = "tip";
TIP.setAttribute("role", "status");
TIP.hidden = true;
document.body.append(TIP);

function showTip(svg, target) {
  const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal, scale = box.width / view.width;
  TIP.textContent = target.text;
  TIP.place = [svg, target];
  TIP.hidden = false;
  const x = box.left + target.x * scale, y = box.top + target.y * scale, own = TIP.getBoundingClientRect();
  TIP.style.left = `${clamp(x - own.width / 2, 4, Math.max(4, document.documentElement.clientWidth - own.width - 4))}px`;
  TIP.style.top = `${y - own.height - 12 < 4 ? y + 14 : y - own.height - 12}px`;
}

function hideTip() { TIP.hidden = true; }

// targets: [{x, y, text, w, h}], in the order in which the right arrow visits them; columns: how far up and down go.
function pointable(svg, targets, columns = 1) {
  if (!targets.length) return;
  const ring = draw("rect", { class: "ring", rx: 3, visibility: "hidden" });
  svg.append(ring);
  let at = -1;
  const point = (i) => {
    at = i;
    const { x, y, w = 14, h = 14 } = targets[i];
    for (const [name, value] of Object.entries({ x: x - w / 2, y: y - h / 2, width: w, height: h, visibility: "visible" })) ring.setAttribute(name, value);
    showTip(svg, targets[i]);
  };
  const leave = () => {
    ring.setAttribute("visibility", "hidden");
    hideTip();
  };
  const nearest = (event) => {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let best = -1, least = 28 ** 2;
    targets.forEach((t, i) => {
      const inside = t.w && Math.abs(t.x - x) <= t.w / 2 && Math.abs(t.y - y) <= t.h / 2;
      const d = inside ? -1 : (t.x - x) ** 2 + (t.y - y) ** 2;
      if (d < least) { least = d; best = i; }
    });
    return best;
  };
  const follow = (event) => {
    const i = nearest(event);
    if (i >= 0) point(i);
    else leave();
  };
  svg.addEventListener("pointermove", follow);
  svg.addEventListener("pointerdown", follow);
  svg.addEventListener("pointerleave", leave);
  svg.setAttribute("tabindex", 0);
  svg.addEventListener("focus", () => svg.matches(":focus-visible") && point(clamp(at, 0, targets.length - 1)));
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    if (event.key === "Escape") leave();
    if (event.key === "Home" || event.key === "End") point(event.key === "Home" ? 0 : targets.length - 1);
    else if (by) point(clamp(at + by, 0, targets.length - 1));
    else return;
    event.preventDefault();
  });
}

// A chart in its box, drawn anew when the width changes.
function chart(box, spec) {
  let width = 0;
  const redraw = () => {
    const now = Math.floor(box.clientWidth);
    if (!now || now === width) return;
    width = now;
    const heat = spec.kind === "heat";
    const natural = heat ? Math.max(...spec.panels.map(heatWidth)) : Math.max(NARROW, ...spec.panels.map(({ ticks: names = [] }) => 22 * names.length)), count = spec.panels.length;
    const fit = clamp(Math.floor((width + 16) / (natural + 16)), 1, count);
    const columns = Math.ceil(count / Math.ceil(count / fit));
    const whole = Math.floor((width - 16 * (columns - 1)) / columns);
    const own = heat ? whole : Math.min(whole, WIDE);
    const panels = spec.panels.map((panel) => (heat ? drawHeat(panel, own, spec.value) : drawAxes(panel, own, spec.kind)));
    const grid = document.createElement("div");
    grid.className = "panels";
    grid.append(...panels);
    box.replaceChildren(grid, ...legendOf(spec));
  };
  redraw();
  new ResizeObserver(redraw).observe(box);
}

function legendOf(spec) {
  const found = [];
  if (spec.legend) {
    const list = document.createElement("div");
    list.className = "legend";
    for (const [text, colour, dash] of spec.legend) {
      const item = document.createElement("span"), icon = draw("svg", { viewBox: "0 0 26 12", class: "line", "aria-hidden": "true" });
      if (spec.kind === "lines") icon.append(draw("line", { x1: 0, x2: 26, y1: 6, y2: 6, style: `stroke:${colourOf(colour)}`, "stroke-width": 2.5, "stroke-dasharray": DASHES[(dash || 0) % 6] }));
      else icon.append(draw("rect", { x: 6, y: 0, width: 12, height: 12, rx: 2, style: `fill:${colourOf(colour)}` }));
      item.append(icon, text);
      list.append(item);
    }
    found.push(list);
  }
  if (spec.note) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = spec.note;
    found.push(note);
  }
  return found;
}

const boxed = (width, height, label, title) => draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "figure", role: "group", "aria-label": [title, label].filter(Boolean).join(": ") });
const HELP = "arrow keys go through the values";

// Ticks of an axis that is logarithmic beyond 0.01: powers of ten, or finer where there are few.
function powers(bend, low, high) {
  const inside = (v) => bend(v) >= low && bend(v) <= high;
  const tens = [0, ...range(7).map((k) => 10 ** (k - 2))].filter(inside);
  return tens.length > 2 ? tens : [0, ...range(7).flatMap((k) => [1, 2, 5].map((m) => m * 10 ** (k - 2)))].filter(inside);
}

// Lines, boxes, bars and dots. panel.faint: [[xs, ys], ...] are drawn behind, as one path.
function drawAxes(panel, W, kind) {
  const H = clamp(Math.round(W * 0.66), 190, 300);
  const all = panel.series, named = panel.ticks;
  const ys = all.flatMap((s) => [...s.y, ...(s.low || []), ...(s.high || []), ...(s.least || []), ...(s.most || [])]).filter((v) => v !== null);
  if (panel.faint) for (const [, values] of panel.faint) for (const v of values) if (v !== null) ys.push(v);
  const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity), most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
  let [y0, y1] = panel.y_range || [least(ys), most(ys)];
  if (kind === "bars" && !panel.y_range) [y0, y1] = [Math.min(0, y0), Math.max(0, y1)];
  if (!(y1 > y0)) [y0, y1] = [(Number.isFinite(y0) ? y0 : 0) - 0.5, (Number.isFinite(y0) ? y0 : 0) + 0.5];
  const bend = panel.symlog ? (v) => Math.asinh(v / 0.02) : (v) => v;
  const pad = panel.y_range ? 0 : 0.06 * (bend(y1) - bend(y0));
  const [b0, b1] = [bend(y0) - (kind === "bars" && y0 === 0 ? 0 : pad), bend(y1) + pad];
  const yt = panel.symlog ? { found: powers(bend, b0, b1), text: tidy } : ticks(b0, b1, 4);
  const yText = yt.text || ((v) => number(v, yt.digits));
  let xs = all.flatMap((s) => s.x);
  if (panel.faint) xs = [...xs, ...panel.faint.flatMap(([values]) => [values[0], values[values.length - 1]])];
  let [x0, x1] = named ? [-0.5, named.length - 0.5] : [least(xs), most(xs)];
  if (!(x1 > x0)) [x0, x1] = [x0 - 0.5, x0 + 0.5];
  if (!named) [x0, x1] = [x0 - 0.03 * (x1 - x0), x1 + 0.03 * (x1 - x0)];
  const title = panel.title ? 22 : 6;
  const axis = panel.bare ? 24 : 12 + (panel.y_label ? 18 : 0) + LETTER * Math.max(...yt.found.map((v) => yText(v).length), 1), right = 10;
  const longest = named ? Math.max(...named.map((text) => text.length)) : 0, letters = named && (W - axis - right) / named.length < 30 ? NAME : 21;
  const turned = named && longest * LETTER > (W - axis - right) / named.length - 4;
  // Names at 60 degrees: the first must not begin left of the chart.
  const left = turned ? Math.max(axis, lettersOf(named.slice(0, 1), letters) * LETTER * 0.5 - (W - axis) / named.length / 2 + 14) : axis;
  const room = (W - left - right) / (named ? named.length : 1), slanted = turned ? lettersOf(named, letters) * LETTER * 0.87 - 4 : 0;
  const bottom = (panel.bare ? 6 : 20 + slanted) + (panel.x_label ? 18 : 4);
  const height = H + slanted;
  const svg = boxed(W, height, HELP, panel.title || panel.y_label);
  const px = (v) => left + ((v - x0) / (x1 - x0)) * (W - left - right), py = (v) => height - bottom - ((bend(v) - b0) / (b1 - b0)) * (height - title - bottom);
  if (panel.title) svg.append(draw("text", { class: "title", x: left, y: 14 }, cut(panel.title, Math.floor((W - left) / LETTER))));
  if (!panel.bare) {
    for (const v of yt.found) {
      if (bend(v) < b0 - 1e-9 || bend(v) > b1 + 1e-9) continue;
      svg.append(draw("line", { class: "grid", x1: left, x2: W - right, y1: py(v), y2: py(v) }), draw("text", { x: left - 6, y: py(v) + 4, "text-anchor": "end" }, yText(v)));
    }
    if (named) {
      named.forEach((text, i) => {
        const turn = turned ? { transform: `translate(${px(i) + 4} ${height - bottom + 8}) rotate(-60)`, "text-anchor": "end" } : { x: px(i), y: height - bottom + 16, "text-anchor": "middle" };
        svg.append(labelled(turn, text, turned ? letters : text.length));
      });
    } else {
      const xt = ticks(x0, x1, Math.max(2, Math.floor((W - left) / 80)));
      for (const v of xt.found) svg.append(draw("line", { class: "grid", x1: px(v), x2: px(v), y1: title, y2: height - bottom }), draw("text", { x: px(v), y: height - bottom + 16, "text-anchor": "middle" }, Math.abs(v) >= 1000 ? v.toLocaleString("en") : number(v, xt.digits)));
    }
  }
  if (panel.x_label) svg.append(draw("text", { x: (left + W - right) / 2, y: height - 4, "text-anchor": "middle" }, cut(panel.x_label, Math.floor((W - 8) / LETTER))));
  if (panel.y_label) svg.append(draw("text", { transform: `translate(12 ${(title + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, cut(panel.y_label, Math.floor((height - title) / LETTER))));
  if (panel.reference !== undefined) svg.append(draw("line", { class: "reference", x1: left, x2: W - right, y1: py(panel.reference), y2: py(panel.reference) }));
  const clip = `clip${(CLIPS += 1)}`, frame = draw("clipPath", { id: clip });
  frame.append(draw("rect", { x: left, y: title - 4, width: W - left - right + 8, height: height - bottom - title + 8 }));
  if (panel.y_range) svg.append(frame);
  const inside = { "clip-path": panel.y_range ? `url(#${clip})` : null };
  if (panel.faint) svg.append(draw("path", { ...inside, class: "faint", d: panel.faint.map(([a, b]) => pathOf(a, b, px, py)).join("") }));
  const targets = [], count = all.length, width = kind === "bars" || kind === "boxes" ? (0.8 * room) / count : 0;
  all.forEach((s, k) => {
    const fill = `fill:${colourOf(s.colour)}`, stroke = `stroke:${colourOf(s.colour)}`, has = (name) => s[name] && s[name].some((v) => v !== null);
    const shift = width ? width * (k + 0.5) - 0.4 * room : 0;
    const group = draw("g", inside);
    if (kind === "lines") {
      if (has("low")) {
        const known = range(s.x.length).filter((i) => s.low[i] !== null && s.high[i] !== null);
        const there = known.map((i) => `${px(s.x[i])},${py(s.high[i])}`), back = known.reverse().map((i) => `${px(s.x[i])},${py(s.low[i])}`);
        group.append(draw("polygon", { class: "band", style: fill, points: [...there, ...back].join(" ") }));
      }
      group.append(draw("path", { class: "series", d: pathOf(s.x, s.y, px, py), style: stroke, "stroke-dasharray": DASHES[(s.dash || 0) % 6] || null }));
    }
    s.y.forEach((v, i) => {
      if (v === null) return;
      const x = px(s.x[i]) + shift, y = py(v), known = (name) => s[name] && s[name][i] !== null && s[name][i] !== undefined;
      const target = { x, y, text: tipOf(panel, s, i, kind) };
      if (kind === "bars") {
        const top = Math.min(y, py(0)), tall = Math.max(1, Math.abs(y - py(Math.max(0, y0))));
        group.append(draw("rect", { x: x - 0.46 * width, y: top, width: 0.92 * width, height: tall, style: fill }));
        if (known("low") && known("high")) group.append(draw("line", { class: "whisker", x1: x, x2: x, y1: py(s.low[i]), y2: py(s.high[i]) }));
        Object.assign(target, { y: top + tall / 2, w: width, h: tall + 4 });
      } else if (kind === "boxes") {
        if (known("least")) group.append(draw("line", { style: stroke, "stroke-width": 1.5, x1: x, x2: x, y1: py(s.least[i]), y2: py(s.most[i]) }));
        const wide = clamp(width * 0.5, 3, 22);
        if (known("low")) group.append(draw("rect", { style: fill, x: x - wide / 2, y: py(s.high[i]), width: wide, height: Math.max(1, py(s.low[i]) - py(s.high[i])) }));
        group.append(draw("circle", { class: "median", cx: x, cy: y, r: 3.5 }));
        if (known("least")) Object.assign(target, { w: Math.max(wide, 14), h: py(s.least[i]) - py(s.most[i]) + 8, y: (py(s.least[i]) + py(s.most[i])) / 2 });
      } else {
        const small = kind === "dots" || s.x.length > 40;
        group.append(draw("circle", { class: kind === "dots" ? "dot" : null, cx: x.toFixed(1), cy: y.toFixed(1), r: small ? 1.8 : 3, style: fill }));
      }
      if (y >= title - 4 && y <= height - bottom + 4) targets.push(target);
    });
    svg.append(group);
  });
  pointable(svg, targets);
  return svg;
}

function pathOf(xs, ys, px, py) {
  let found = "", pen = "M";
  for (let i = 0; i < ys.length; i++) {
    if (ys[i] === null || ys[i] === undefined) { pen = "M"; continue; }
    found += `${pen}${px(xs[i]).toFixed(1)},${py(ys[i]).toFixed(1)}`;
    pen = "L";
  }
  return found;
}

function tipOf(panel, s, i, kind) {
  const digits = (v) => (Math.abs(v) >= 100 ? tidy(v) : number(v, Math.abs(v) < 0.1 && v !== 0 ? 3 : 2));
  const where = s.at ? s.at[i] : panel.ticks ? panel.ticks[s.x[i]] : tidy(s.x[i]);
  const axis = panel.x_label ? panel.x_label.replace(/,.*/, "") : "";
  const place = kind === "dots" && panel.bare ? "" : [axis, where].filter(Boolean).join(" ");
  let text = [s.name, place].filter(Boolean).join(", ");
  if (kind === "dots" && panel.bare) return text;
  text += `: ${digits(s.y[i])}`;
  if (s.low && s.low[i] !== null && s.low[i] !== undefined) text += kind === "boxes" ? `, middle half ${digits(s.low[i])} to ${digits(s.high[i])}` : ` [${digits(s.low[i])}, ${digits(s.high[i])}]`;
  if (s.least && s.least[i] !== null) text += `, all ${digits(s.least[i])} to ${digits(s.most[i])}`;
  if (s.count && s.count[i]) text += `, ${s.count[i]} model${s.count[i] === 1 ? "" : "s"}`;
  return text;
}

// Heat maps and Hinton diagrams.
const labelWidth = (names, most = NAME) => lettersOf(names, most) * LETTER;
const heatWidth = (panel) => labelWidth(panel.rows) + 34 * panel.columns.length + 90;

function drawHeat(panel, room, value) {
  const name = room < 500 ? 21 : NAME; // letters of a label
  const { rows, columns } = panel, off = new Set(panel.off || []), squares = panel.squares;
  const lowest = panel.limits[0], highest = panel.limits[1], reach = Math.max(highest, -lowest) || 1;
  const title = panel.title ? 24 : 6, left = labelWidth(rows, name) + (panel.row_label ? 26 : 10), barRoom = squares ? 10 : 62;
  // No wider than its cells and words, so that print does not shrink it; a box that is too narrow scrolls.
  const words = LETTER * Math.max(...[panel.title, panel.column_label].map((text) => (text || "").length));
  const W = Math.max(Math.min(room, Math.max(left + 46 * columns.length + barRoom, words + 8)), left + 17 * columns.length + barRoom);
  const cell = clamp((W - left - barRoom) / columns.length, 9, 46), least = rows.some((text) => broken(text, name).length > 1) ? 26 : 20;
  const tall = squares ? Math.min(cell, 30) : clamp(cell, least, 28);
  const wide = squares ? tall : cell;
  const longest = Math.max(...columns.map((text) => text.length), 1);
  const turned = longest * LETTER > wide - 4, head = turned ? lettersOf(columns, name) * LETTER * 0.87 + 14 : 20;
  const bottom = title + tall * rows.length, H = bottom + head + (panel.column_label ? 20 : 4);
  const svg = boxed(W, H, HELP, panel.title || value);
  if (W > room) svg.classList.add("wide");
  if (panel.title) svg.append(draw("text", { class: "title", x: 4, y: 14 }, cut(panel.title, Math.floor(W / LETTER))));
  const targets = [], digits = reach < 0.1 ? 3 : 2;
  rows.forEach((row, i) => {
    svg.append(labelled({ x: left - 6, y: title + tall * (i + 0.5) + 4, "text-anchor": "end" }, row, name));
    columns.forEach((column, j) => {
      const v = off.has(j) ? null : panel.values[i][j], x = left + wide * j, y = title + tall * i;
      const part = v === null ? 0 : clamp(Math.abs(v) / reach, 0, 1);
      svg.append(draw("rect", { class: v === null ? "cell none" : "cell", x, y, width: wide, height: tall }));
      if (v !== null && squares) {
        const side = 0.92 * Math.min(wide, tall) * Math.sqrt(part);
        svg.append(draw("rect", { class: "square", x: x + (wide - side) / 2, y: y + (tall - side) / 2, width: side, height: side }));
      } else if (v !== null) {
        svg.append(draw("rect", { class: v < 0 ? "cell low" : "cell high", "fill-opacity": part.toFixed(3), x, y, width: wide, height: tall }));
        if (wide >= 30) svg.append(draw("text", { class: part > 0.75 ? "on" : "in", x: x + wide / 2, y: y + tall / 2 + 4, "text-anchor": "middle" }, number(v, digits)));
      }
      const bounds = v !== null && panel.low && panel.low[i][j] !== null ? ` [${number(panel.low[i][j])}, ${number(panel.high[i][j])}]` : "";
      const names = `${panel.row_label ? `${panel.row_label} ` : ""}${row}, ${panel.column_label ? `${panel.column_label} ` : ""}${column}`;
      targets.push({ x: x + wide / 2, y: y + tall / 2, w: wide, h: tall, text: `${names}: ${off.has(j) ? "inactive" : v === null ? "not known" : number(v, 3)}${bounds}` });
    });
  });
  columns.forEach((column, j) => {
    const x = left + wide * (j + 0.5);
    const turn = turned ? { transform: `translate(${x + 4} ${bottom + 8}) rotate(-60)`, "text-anchor": "end" } : { x, y: bottom + 15, "text-anchor": "middle" };
    svg.append(labelled({ ...turn, class: off.has(j) ? "off" : null }, column, name));
  });
  if (panel.column_label) {
    const text = cut(panel.column_label, Math.floor(W / LETTER)), x = Math.max(left + (wide * columns.length) / 2, (text.length * LETTER) / 2);
    svg.append(draw("text", { x, y: H - 4, "text-anchor": "middle" }, text));
  }
  if (panel.row_label) svg.append(draw("text", { transform: `translate(12 ${(title + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, cut(panel.row_label, Math.max(6, Math.floor((bottom - title) / LETTER)))));
  if (!squares) colourBar(svg, left + wide * columns.length + 14, title, Math.max(60, tall * rows.length), lowest, highest, digits);
  pointable(svg, targets, columns.length);
  return svg;
}

function colourBar(svg, x, y, height, lowest, highest, digits) {
  const steps = 40, reach = Math.max(highest, -lowest) || 1, tall = Math.min(height, 160);
  for (let i = 0; i < steps; i++) {
    const v = highest - ((i + 0.5) / steps) * (highest - lowest);
    svg.append(draw("rect", { class: v < 0 ? "cell low bare" : "cell high bare", "fill-opacity": (Math.abs(v) / reach).toFixed(3), x, y: y + (i * tall) / steps, width: 10, height: tall / steps + 0.3 }));
  }
  svg.append(draw("rect", { class: "frame", x, y, width: 10, height: tall }));
  const marks = lowest < 0 ? [highest, 0, lowest] : [highest, lowest];
  for (const v of marks) svg.append(draw("text", { x: x + 14, y: y + ((highest - v) / (highest - lowest || 1)) * tall + (v === highest ? 9 : v === lowest ? 0 : 4) }, number(v, Number.isInteger(v) ? 0 : digits)));
}

function setUpCharts() {
  document.querySelectorAll("[data-chart]").forEach((box) => chart(box, DATA.charts[box.dataset.chart]));
}
// A tip stays with its mark: focus by the keyboard scrolls a chart into view.
window.addEventListener("scroll", () => TIP.hidden || showTip(...TIP.place), { passive: true });
