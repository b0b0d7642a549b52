"use strict";
// The table of every model: sorted, filtered, with the columns one chooses, and as CSV.

const ROWS = 12;

function columnsOf() {
  const { models, scores } = DATA, several = (name) => new Set(models[name]).size > 1;
  const own = [["model", models.label, true], ["run", models.run], ["data", models.data, several("data")], ["method", models.method], ["strength", models.strength], ["seed", models.seed], ["latents", models.latents], ["active_latents", models.informative, true]];
  const first = [...new Set([DATA.axes.x, DATA.axes.y, ...DATA.checks, ...(DATA.checks.length ? [] : ["reconstruction", "kl"])])], rank = ({ name }) => (first.includes(name) ? first.indexOf(name) : first.length);
  const found = own.map(([name, values, shown]) => ({ name, values, shown: Boolean(shown), exact: true }));
  for (const { name, values } of [...scores].sort((a, b) => rank(a) - rank(b))) if (name !== "active_latents") found.push({ name, values, shown: first.includes(name) });
  for (const column of found) column.text = typeof column.values.find((v) => v !== null) === "string";
  return found;
}

// "tcvae mig>0.3": every word is in one of the texts of the model, and every comparison holds.
function filterOf(text, columns) {
  const tests = [], texts = columns.filter((column) => column.text);
  for (const word of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    const parts = /^([^<>=]+)(<=|>=|<|>|=)(-?[\d.]+(?:e-?\d+)?)$/.exec(word);
    const column = parts && columns.find(({ name, text: words }) => !words && name.toLowerCase().replaceAll(" ", "_") === parts[1]);
    if (!parts || (!column && parts[2] === "=")) { // "beta=8" is a word of a label
      tests.push((i) => texts.some((column) => column.values[i].toLowerCase().includes(word)));
      continue;
    }
    const bound = Number(parts[3]);
    if (!column) return { error: `There is no column of numbers called ${parts[1]}.` };
    const holds = { "<": (v) => v < bound, ">": (v) => v > bound, "<=": (v) => v <= bound, ">=": (v) => v >= bound, "=": (v) => v === bound }[parts[2]];
    tests.push((i) => column.values[i] !== null && holds(column.values[i]));
  }
  return { test: (i) => tests.every((test) => test(i)) };
}

const cellText = (column, i) => {
  const v = column.values[i];
  return v === null || v === undefined ? "–" : column.text ? v : column.exact ? tidy(v) : number(v, Math.abs(v) >= 100 ? 1 : 3);
};

function csvOf(columns, rows) {
  const quoted = (v) => (v === null || v === undefined ? "" : /[",\n\r]/.test(String(v)) ? `"${String(v).replaceAll('"', '""')}"` : String(v));
  return [columns.map(({ name }) => quoted(name)), ...rows.map((i) => columns.map(({ values }) => quoted(values[i])))].map((line) => line.join(",")).join("\n") + "\n";
}

function setUpTable(box, open) {
  const columns = columnsOf(), place = new Map(DATA.order.map((i, at) => [i, at]));
  let by = null, down = true, at = 0, rows = [];
  const search = make("input", { type: "search", id: "filter", placeholder: "words, or mig>0.3", "aria-label": "Filter models", oninput: () => { at = 0; refresh(); } });
  const status = make("p", { class: "meta", id: "shown", "aria-live": "polite" });
  const save = make("button", {
    type: "button", id: "csv", text: "Download CSV",
    onclick: () => {
      const address = URL.createObjectURL(new Blob([csvOf(columns.filter((column) => column.shown), rows)], { type: "text/csv" }));
      const link = make("a", { href: address, download: "models.csv" });
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    },
  });
  const boxes = columns.slice(1).map((column) => {
    const input = make("input", { type: "checkbox", onchange: () => { column.shown = input.checked; refresh(); } });
    input.checked = column.shown;
    return make("label", {}, input, column.name);
  });
  const chooser = make("details", { class: "chooser" }, make("summary", { text: "Columns" }), make("div", { class: "boxes" }, ...boxes));
  const table = make("table", { class: "models" });
  const page = (step) => { at = clamp(at + step * ROWS, 0, Math.max(0, rows.length - 1)); refresh(); };
  const back = make("button", { type: "button", text: "← previous", onclick: () => page(-1) }), next = make("button", { type: "button", text: "next →", onclick: () => page(1) });
  box.append(make("div", { class: "controls" }, make("label", {}, "filter", search), save), chooser, make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of every model" }, table), make("div", { class: "bar" }, back, next, status));

  function sortBy(column) {
    down = by === column ? !down : !column.text;
    by = column;
    at = 0;
    refresh();
    table.querySelector(`[data-column="${CSS.escape(column.name)}"] button`).focus();
  }

  function refresh() {
    const { test, error } = filterOf(search.value, columns);
    rows = error ? [] : DATA.order.filter(test);
    if (by) {
      const key = (i) => by.values[i], sign = down ? -1 : 1;
      rows.sort((i, j) => {
        const a = key(i), b = key(j);
        if (a === null || b === null) return (a === null) - (b === null) || place.get(i) - place.get(j);
        return sign * (by.text ? a.localeCompare(b, "en", { numeric: true }) : a - b) || place.get(i) - place.get(j);
      });
    }
    const shown = columns.filter((column) => column.shown);
    const head = make("tr", {}, ...shown.map((column) => make("th", { scope: "col", class: column.text ? "left" : null, "data-column": column.name, "aria-sort": column === by ? (down ? "descending" : "ascending") : null },
      make("button", { type: "button", class: "sort", onclick: () => sortBy(column) }, column.name, make("span", { "aria-hidden": "true", text: column === by ? (down ? " ▼" : " ▲") : "" })))));
    const body = rows.slice(at, at + ROWS).map((i) => {
      const line = make("tr", { "data-run": DATA.models.run[i], onclick: (event) => { event.preventDefault(); open(i); } }, ...shown.map((column, c) => {
        const text = cellText(column, i);
        return make("td", { class: column.text ? "left" : null }, c ? text : make("a", { href: `#run=${encodeURIComponent(DATA.models.run[i])}`, text }));
      }));
      return line;
    });
    table.replaceChildren(make("thead", {}, head), make("tbody", {}, ...body));
    const many = rows.length > ROWS ? `${at + 1} to ${Math.min(at + ROWS, rows.length)} of ` : "";
    status.textContent = error || `${many}${rows.length}${rows.length < DATA.order.length ? ` of all ${DATA.order.length}` : ""} model${rows.length === 1 ? "" : "s"}`;
    back.disabled = at === 0;
    next.disabled = at + ROWS >= rows.length;
    back.hidden = next.hidden = rows.length <= ROWS;
    const opened = $("model") && $("model").dataset.run;
    if (opened) window.markRow(opened);
  }

  window.markRow = (run) => table.querySelectorAll("tbody tr").forEach((line) => line.classList.toggle("open", line.dataset.run === run));
  refresh();
}
