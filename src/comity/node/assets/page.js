import { copyButton, element, facts, line, matrix, show, table, tick, time } from "./draw.js";

const FRESH_MS = 2000;
const SAMPLES = 150;
const ACTS = 100;
const ORDER = ["agent", "pairs", "directory", "vcp", "rooms", "deliberations", "actions"];
const LAST = ["audit", "limits"];
const FIGURES = ["uptime", "calls", "audit_entries", "state"];
const VERSION = document.documentElement.dataset.version;

const views = new Map();
const load = [];
let lastCalls = null;
let current = "overview";
let readsOnly = false;
let actWords = {};
let after = "";
let before = [];

function duration(uptime) {
  const seconds = Math.floor(uptime);
  const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
  if (days) return `${days} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

function place(id) {
  return document.getElementById(id);
}

function notice(text) {
  const shown = place("notice");
  shown.textContent = text;
  shown.hidden = !text;
}

function lamp(ready) {
  place("lamp").dataset.ready = ready ? "True" : "False";
}

async function ask(path, asked = {}) {
  const answer = await fetch(path, { cache: "no-store", ...asked });
  if (answer.status === 401) throw new Error("this page has expired because the node was restarted; run `comity open` for a new link");
  const reply = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(reply.detail || `the node answers with status ${answer.status}`);
  return reply;
}

function unreachable(reason) {
  show("state", reason instanceof TypeError ? "the node does not answer; trying again" : reason.message);
  lamp(false);
}

async function refresh() {
  try {
    const status = await ask("/v1/status");
    for (const name of FIGURES) show(name, name === "uptime" ? duration(status.uptime) : status[name]);
    lamp(status.ready);
    tick();
    drawPanels(status.panels);
    drawLoad(status.calls);
    notice(status.version === VERSION ? "" : `The node runs release ${status.version}, this page is of ${VERSION}. Reload the page.`);
    if (current !== "overview" && !before.length && document.activeElement?.tagName !== "INPUT") await drawView();
  } catch (reason) {
    unreachable(reason);
  }
}

function drawLoad(calls) {
  const added = lastCalls === null ? 0 : Math.max(0, calls - lastCalls);
  lastCalls = calls;
  load.push(added / (FRESH_MS / 1000));
  if (load.length > SAMPLES) load.shift();
  const most = line(place("load"), load);
  const now = load[load.length - 1];
  const minutes = Math.ceil((load.length * FRESH_MS) / 60000);
  show("load-said", `${now.toFixed(1)} calls per second now, at most ${most.toFixed(1)} in the last ${minutes === 1 ? "minute" : `${minutes} minutes`}`);
}

function drawPanels(panels) {
  const box = place("panels");
  const shown = JSON.stringify(panels);
  if (box.dataset.shown === shown) return;
  box.dataset.shown = shown;
  box.replaceChildren(...Object.entries(panels).map(([name, panel]) => {
    const section = element("section", undefined, { "aria-labelledby": `panel-${name}` });
    section.append(element("h2", panel.title, { id: `panel-${name}` }));
    section.append(facts(panel.rows.map(([label, value]) => ({ label, value }))));
    return section;
  }));
}

const WAYS = { browser: "you, in a browser", model: "your MCP client" };

function who(name) {
  const [kind, way, token] = name.split(":");
  if (kind === "local") return token ? `your token ${token}` : WAYS[way] || "you";
  return { unknown: "anonymous" }[kind] || name.replace(/:-$/, "");
}

function wordsOf(kind) {
  const request = /^MCP_(.*)_(OK|FAILED)$/.exec(kind);
  if (request) return `${request[1].toLowerCase()} ${request[2] === "OK" ? "called" : "failed"}`;
  return kind.toLowerCase().replaceAll("_", " ");
}

function addActs(acts) {
  const rows = place("act-rows");
  for (const act of acts) {
    const row = element("tr", undefined, act.failed ? { class: "failed" } : {});
    const kind = actWords[act.kind] || wordsOf(act.kind);
    const what = act.failed ? `${kind}: ${act.failed}` : kind;
    const when = element("td");
    when.append(time(act.time));
    row.append(when, ...[what, who(act.who || ""), act.what || ""].map((cell) => element("td", cell)));
    row.append(element("td", act.count > 1 ? act.count.toLocaleString("en") : "1", { class: act.count > 1 ? "number" : "number once" }));
    rows.prepend(row);
  }
  while (rows.childElementCount > ACTS) rows.lastElementChild.remove();
  place("acts").hidden = !rows.childElementCount;
  place("quiet").hidden = Boolean(rows.childElementCount);
}

function listen() {
  const first = Math.max(0, Number(document.documentElement.dataset.last) - 30);
  const stream = new EventSource(`/v1/events?since=${first}`);
  stream.onmessage = ({ data }) => addActs(data.split("\n").filter(Boolean).map((one) => JSON.parse(one)));
  stream.onerror = () => unreachable(new TypeError());
}

async function drawView() {
  const text = place("search")?.value || "";
  const query = new URLSearchParams({ after, text });
  const page = await ask(`/v1/views/${current}?${query}`);
  const body = place("view-body");
  const shown = JSON.stringify(page);
  if (body.dataset.shown === shown) return;
  body.dataset.shown = shown;
  const tables = page.tables || [];
  body.replaceChildren();
  if (page.facts?.length) body.append(facts(page.facts));
  body.append(...tables.map((one) => table(one, readsOnly ? null : post)), ...(page.matrices || []).map(matrix));
  const more = tables.find((one) => one.more)?.more;
  if (more || before.length) body.append(pager(more));
}

async function post(path, body) {
  const asked = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  try {
    const reply = await ask(path, asked);
    show("result", reply.started === false ? "Another verification is running. Wait until it is done." : "");
    await drawView();
  } catch (reason) {
    show("result", reason.message);
  }
}

function pager(more) {
  const box = element("p", undefined, { class: "pager" });
  const back = element("button", "Back", { type: "button" });
  const on = element("button", "More", { type: "button" });
  back.disabled = !before.length;
  on.disabled = !more;
  back.addEventListener("click", () => { after = before.pop() ?? ""; refreshView(); });
  on.addEventListener("click", () => { before.push(after); after = more; refreshView(); });
  box.append(back, on);
  return box;
}

function refreshView() {
  drawView().catch(unreachable);
}

const TOOLS = {
  search() {
    const field = element("input", undefined, { type: "search", id: "search", maxlength: "200" });
    field.addEventListener("input", () => { after = ""; before = []; refreshView(); });
    return [element("label", "Search agents", { for: "search" }), field];
  },
  verify() {
    const button = element("button", "Verify now", { type: "button" });
    button.addEventListener("click", () => post("/v1/audit/verify", {}));
    const row = element("p", undefined, { class: "row" });
    row.append(button, element("span", "recomputes every hash, every link and the signed head", { class: "faint" }));
    return [row];
  },
  try() {
    const chosen = element("select", undefined, { id: "action" });
    const form = element("div", undefined, { id: "input", class: "stack" });
    const run = element("button", "Try it", { type: "button", id: "run" });
    const said = element("pre", undefined, { id: "said", tabindex: "0", hidden: "" });
    const choose = () => form.replaceChildren(...inputsOf(contracts.get(chosen.value)));
    ask("/v1/actions").then(({ actions }) => {
      for (const one of actions) contracts.set(one.action, one.inputSchema);
      chosen.append(...actions.map((one) => element("option", one.action)));
      choose();
    }, unreachable);
    chosen.addEventListener("change", choose);
    run.addEventListener("click", async () => {
      run.disabled = true;
      try {
        const asked = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(givenIn(form)) };
        said.textContent = JSON.stringify((await ask(`/v1/actions/${chosen.value}`, asked)).output, null, 2);
      } catch (reason) {
        said.textContent = reason.message;
      }
      said.hidden = false;
      run.disabled = false;
    });
    return [element("label", "Action", { for: "action" }), chosen, form, run, said];
  },
};

const contracts = new Map();

function inputsOf(schema) {
  return Object.entries(schema.properties).flatMap(([name, kind]) => {
    const needed = schema.required.includes(name);
    const made = inputFor(kind, needed);
    if (!made) return [];
    made.id = `input-${name}`;
    made.name = name;
    const label = element("label", needed ? name : `${name} (optional)`, { for: made.id });
    return [label, ...(kind.description ? [element("small", kind.description, { class: "faint" })] : []), made];
  });
}

function inputFor(kind, needed) {
  if (kind.enum) {
    const select = element("select");
    select.append(...kind.enum.map((value) => element("option", value)));
    select.value = kind.default ?? kind.enum[0];
    return select;
  }
  if (kind.type === "string") return needed ? element("textarea", undefined, { rows: "3" }) : element("input", undefined, { placeholder: kind.default ?? "" });
  if (kind.type === "array" && kind.items?.type === "string") return element("input", undefined, { placeholder: "several, with commas between them", "data-list": "" });
  return null;
}

function givenIn(form) {
  const fields = [...form.querySelectorAll("[name]")].filter((field) => field.value.trim());
  return Object.fromEntries(fields.map((field) => [field.name, "list" in field.dataset ? field.value.split(",").map((one) => one.trim()) : field.value]));
}

const ACTING = ["verify", "try"];

function toolsOf(view) {
  if (readsOnly && ACTING.includes(view.kind)) return [element("p", "This page is read-only. `comity open` gives a link that may act.", { class: "faint" })];
  return TOOLS[view.kind]?.() || [];
}

function go() {
  const wanted = location.hash.slice(1);
  current = views.has(wanted) ? wanted : "overview";
  after = "";
  before = [];
  for (const link of place("tabs").querySelectorAll("a")) {
    if (link.hash === `#${current}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  place("overview").hidden = current !== "overview";
  place("view").hidden = current === "overview";
  if (current === "overview") return;
  const view = views.get(current);
  show("view-title", view.title);
  show("result", "");
  place("tools").replaceChildren(...toolsOf(view));
  place("view-body").replaceChildren(element("p", "loading", { class: "faint" }));
  place("view-body").dataset.shown = "";
  refreshView();
}

function rank(name) {
  if (LAST.includes(name)) return 100 + LAST.indexOf(name);
  return ORDER.includes(name) ? ORDER.indexOf(name) : 50;
}

function addCopyButtons() {
  for (const code of document.querySelectorAll("#overview dd code, #overview pre code"))
    code.after(copyButton(code.textContent, code.textContent.slice(0, 40)));
}

async function begin() {
  addCopyButtons();
  await refresh();
  try {
    const { views: listed, read_only: only, acts } = await ask("/v1/views");
    readsOnly = only;
    actWords = acts;
    listed.sort((one, other) => rank(one.name) - rank(other.name));
    for (const view of listed) {
      views.set(view.name, view);
      const item = element("li");
      item.append(element("a", view.title, { href: `#${view.name}` }));
      place("tabs").append(item);
    }
  } catch (reason) {
    unreachable(reason);
  }
  listen();
  addEventListener("hashchange", go);
  go();
  setInterval(() => document.hidden || refresh(), FRESH_MS);
}

begin();
