const FRESH_MS = 2000;
const FIGURES = ["calls", "audit_entries", "store", "encryption", "state"];

function show(id, value) {
  const place = document.getElementById(id);
  // an unchanged text is left alone: a screen reader would read it out again
  if (place.textContent !== String(value)) place.textContent = value;
}

function duration(uptime) {
  const seconds = Math.floor(uptime);
  const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
  if (days) return `${days} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

function lamp(ready) {
  document.getElementById("lamp").dataset.ready = ready ? "True" : "False";
}

async function refresh() {
  try {
    const answer = await fetch("/v1/status", { cache: "no-store" });
    if (answer.status === 401) throw new Error("this page has expired; `comity open` makes a new link");
    if (!answer.ok) throw new Error(`the node answers with status ${answer.status}`);
    const status = await answer.json();
    for (const name of FIGURES) show(name, status[name]);
    show("uptime", duration(status.uptime));
    for (const [part, panel] of Object.entries(status.panels))
      panel.rows.forEach(([, value], row) => show(`panel-${part}-${row}`, value));
    lamp(status.ready);
  } catch (reason) {
    show("state", reason instanceof TypeError ? "not reachable" : reason.message);
    lamp(false);
  }
}

setInterval(() => document.hidden || refresh(), FRESH_MS);
