// Foreign text becomes text, never markup. Characters that change or hide text are escaped: control characters, those that
// change the direction, those without a width. In most scripts but Latin the
// joiners U+200C and U+200D are part of the spelling, and stay.

const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb]|(?<![^\u0000-\u024f])[\u200c\u200d]/gu;
const MAX_LENGTH = 240;

function spelled(character) {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

export function readable(text) {
  const whole = String(text);
  const shown = whole.slice(0, MAX_LENGTH).replace(/[\ud800-\udbff]$/, "").replace(CONTROLS, spelled);
  return whole.length > MAX_LENGTH ? `${shown}… (${whole.length.toLocaleString("en")} characters)` : shown;
}

export function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = readable(text);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function show(id, value) {
  const place = document.getElementById(id);
  // do not touch an unchanged text: a screen reader would read it again
  const text = typeof value === "number" ? value.toLocaleString("en") : readable(value);
  if (place.textContent !== text) place.textContent = text;
}

const UNITS = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"]];

function ago(moment) {
  const seconds = Math.max(0, (Date.now() - moment) / 1000);
  if (seconds < 2) return "now";
  const unit = UNITS.find(([most]) => seconds < most);
  return unit ? `${Math.floor(seconds / unit[1])} ${unit[2]} ago` : new Date(moment).toISOString().slice(0, 10);
}

export function time(moment) {
  const title = `${moment.slice(0, 19).replace("T", " ")} UTC`;
  return element("time", ago(Date.parse(moment)), { datetime: moment, title });
}

export function tick() {
  for (const one of document.querySelectorAll("time")) {
    const text = ago(Date.parse(one.dateTime));
    if (one.textContent !== text) one.textContent = text;
  }
}

// A command in backquotes gets a copy button and the flags that lead to this node.
function sentence(text) {
  const said = element("p", undefined, { class: "faint" });
  text.split("`").forEach((part, at) => {
    if (at % 2 === 0) return said.append(readable(part));
    const command = part.endsWith("--help") ? part : part + document.documentElement.dataset.flags;
    return said.append(element("code", command), " ", copyButton(command, command));
  });
  return said;
}

export function copyButton(value, label) {
  const button = element("button", "copy", { type: "button", class: "copy", "aria-label": `Copy ${readable(label)}` });
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(value);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  return button;
}

export function facts(rows) {
  const list = element("dl");
  for (const { label, value, copy, mark } of rows) {
    const row = element("div");
    const shown = element("dd");
    shown.append(element("code", value, mark ? { class: mark } : {}));
    if (copy) shown.append(copyButton(value, label));
    row.append(element("dt", label), shown);
    list.append(row);
  }
  return list;
}

const SHORT = 24;
const SHORT_WORD = 40;
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
const NUMBER = /^[\d,]+(\.\d+)?( ?(%|[KMG]iB))?$/;
const ID = /^([a-z]+[_:])?[0-9a-f]{8,64}$/;

function isNumeric(rows, column) {
  return rows.some((row) => row[column]) && rows.every((row) => !row[column] || NUMBER.test(row[column]));
}

function cellOf(text, label, numeric) {
  const short = text.length <= SHORT || (text.length <= SHORT_WORD && !/\s/.test(text));
  const kinds = [short ? "short" : "", numeric ? "number" : "", !numeric && ID.test(text) ? "id" : ""].filter(Boolean);
  const isMoment = MOMENT.test(text);
  const made = element("td", isMoment ? undefined : text, { "data-label": label, class: kinds.join(" ") });
  if (isMoment) made.append(time(text));
  return made;
}

export function table({ columns, rows, title = "", empty = "nothing yet", button = null }, press = null) {
  const box = element("div", undefined, { class: "table" });
  if (title) box.append(element("h3", title));
  if (!rows.length) {
    box.append(sentence(empty));
    return box;
  }
  const scroll = element("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": title || columns[0] });
  const made = element("table");
  const head = element("tr");
  const pressed = button && press;
  const numeric = columns.map((_, at) => isNumeric(rows, at));
  columns.forEach((column, at) => head.append(element("th", column, { scope: "col", class: numeric[at] ? "number" : "" })));
  if (pressed) head.append(element("td"));
  const body = element("tbody");
  rows.forEach((row, at) => {
    const line = element("tr");
    row.forEach((cell, column) => line.append(cellOf(cell, columns[column], numeric[column])));
    if (pressed) {
      const place = element("td");
      if (button.values[at]) place.append(rowButton(button, at, row[0], press));
      line.append(place);
    }
    body.append(line);
  });
  const top = element("thead");
  top.append(head);
  made.append(top, body);
  scroll.append(made);
  box.append(scroll);
  return box;
}

function rowButton({ label, path, member, values }, at, name, press) {
  const made = element("button", label, { type: "button", class: "small", "aria-label": readable(`${label} ${name}`) });
  made.addEventListener("click", () => press(path, { [member]: values[at] }));
  return made;
}

export function matrix({ title, names, cells }) {
  const most = Math.max(1, ...cells.flat());
  const drawn = table({ columns: ["", ...names], rows: cells.map((row, at) => [names[at], ...row.map(String)]), title });
  drawn.classList.add("matrix");
  drawn.querySelectorAll("tbody tr").forEach((line, row) => {
    line.firstChild.replaceWith(element("th", names[row], { scope: "row" }));
    line.querySelectorAll("td").forEach((cell, column) => {
      const mine = cells[row][column];
      const theirs = cells[column][row];
      cell.dataset.weight = Math.round((4 * mine) / most);
      if (mine > theirs) cell.classList.add("wins");
    });
  });
  return drawn;
}

const SVG = "http://www.w3.org/2000/svg";

export function line(svg, values, width = 300, height = 60) {
  const most = Math.max(0, ...values);
  const step = width / Math.max(1, values.length - 1);
  const points = values.map((value, at) => `${(at * step).toFixed(1)},${(height - 2 - (value / Math.max(1, most)) * (height - 4)).toFixed(1)}`);
  const area = document.createElementNS(SVG, "polygon");
  area.setAttribute("points", `0,${height} ${points.join(" ")} ${((values.length - 1) * step).toFixed(1)},${height}`);
  const drawn = document.createElementNS(SVG, "polyline");
  drawn.setAttribute("points", points.join(" "));
  svg.replaceChildren(area, drawn);
  return most;
}
