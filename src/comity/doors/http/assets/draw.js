// Everything that others wrote becomes text, never markup.

export function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function show(id, value) {
  const place = document.getElementById(id);
  // an unchanged text is left alone: a screen reader would read it out again
  if (place.textContent !== String(value)) place.textContent = value;
}

export function copyButton(value, label) {
  const button = element("button", "copy", { type: "button", class: "copy", "aria-label": `Copy ${label}` });
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
    const told = element("dd");
    told.append(element("code", value, mark ? { class: mark } : {}));
    if (copy) told.append(copyButton(value, label));
    row.append(element("dt", label), told);
    list.append(row);
  }
  return list;
}

const SHORT = 24;

export function table({ columns, rows, title = "", empty = "nothing yet", button = null }, press = null) {
  const box = element("div", undefined, { class: "table" });
  if (title) box.append(element("h3", title));
  if (!rows.length) {
    box.append(element("p", empty, { class: "faint" }));
    return box;
  }
  const scroll = element("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": title || columns[0] });
  const made = element("table");
  const head = element("tr");
  const pressed = button && press;
  for (const column of columns) head.append(element("th", column, { scope: "col" }));
  if (pressed) head.append(element("td"));
  const body = element("tbody");
  rows.forEach((row, at) => {
    const line = element("tr");
    row.forEach((cell, column) => line.append(element("td", cell, { "data-label": columns[column], class: cell.length > SHORT ? "" : "short" })));
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
  const made = element("button", label, { type: "button", class: "small", "aria-label": `${label} ${name}` });
  made.addEventListener("click", () => press(path, { [member]: values[at] }));
  return made;
}

export function matrix({ title, names, cells }) {
  const most = Math.max(1, ...cells.flat());
  const drawn = table({ columns: ["", ...names], rows: cells.map((row, at) => [names[at], ...row.map(String)]), title });
  drawn.classList.add("matrix");
  drawn.querySelectorAll("tbody tr").forEach((line, row) => {
    line.querySelectorAll("td").forEach((cell, column) => {
      if (column === 0) return;
      const mine = cells[row][column - 1];
      const theirs = cells[column - 1][row];
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
  const drawn = document.createElementNS(SVG, "polyline");
  drawn.setAttribute("points", points.join(" "));
  svg.replaceChildren(drawn);
  return most;
}
