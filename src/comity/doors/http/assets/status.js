const FRESH_MS = 2000;
const FIGURES = ["uptime", "calls", "audit_entries", "store", "encryption", "state"];

async function refresh() {
  const lamp = document.getElementById("lamp");
  try {
    const answer = await fetch("/v1/status", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const status = await answer.json();
    for (const name of FIGURES) document.getElementById(name).textContent = status[name];
    lamp.dataset.ready = status.ready ? "True" : "False";
  } catch {
    lamp.dataset.ready = "False";
    document.getElementById("state").textContent = "not reachable";
  }
}

setInterval(() => document.hidden || refresh(), FRESH_MS);
