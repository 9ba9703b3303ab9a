// The least a Node server of lines can do: split, parse, check the envelope, answer a constant of N bytes.
"use strict";

const readline = require("node:readline");

const size = Number(process.argv[2]);
const types = new Set(["list_actions", "invoke"]);
const head = '{"ok":true,"data":"';
const reply = head + "x".repeat(size - head.length - 3) + '"}\n';
const refusal = '{"ok":false,"error":"Invalid request envelope"}\n';

function answer(line) {
  let request;
  try {
    request = JSON.parse(line);
  } catch {
    return '{"ok":false,"error":"Malformed JSON request"}\n';
  }
  if (typeof request !== "object" || request === null || Array.isArray(request)) return refusal;
  if (request.id !== undefined && typeof request.id !== "string") return refusal;
  return types.has(request.type) ? reply : refusal;
}

const lines = readline.createInterface({ input: process.stdin, crlfDelay: Infinity, terminal: false });
lines.on("line", (line) => process.stdout.write(answer(line)));
