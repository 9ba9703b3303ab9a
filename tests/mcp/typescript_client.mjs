// A client of the TypeScript SDK: does what a client does, and prints what it found as one JSON object.
// Its one argument is JSON: where the SDK is, and the server, as { url, headers } or { command, args, cwd }.
import { pathToFileURL } from "node:url";

const { sdk, server, hello } = JSON.parse(process.argv[2]);
const load = (path) => import(pathToFileURL(`${sdk}/dist/esm/${path}`).href);
const { Client } = await load("client/index.js");
const { ElicitRequestSchema, ToolListChangedNotificationSchema } = await load("types.js");

async function transport() {
  if (server.url) {
    const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
    return new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers: server.headers ?? {} } });
  }
  const { StdioClientTransport } = await load("client/stdio.js");
  return new StdioClientTransport({ ...server, stderr: "inherit" });
}

const capabilities = { elicitation: {}, extensions: hello ? { "space.creed/vcp": { hello } } : {} };
const client = new Client({ name: "typescript", version: "1" }, { capabilities });
let changed = 0;
client.setNotificationHandler(ToolListChangedNotificationSchema, () => void changed++);
client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: { name: "Ada" } }));
const carrier = await transport();
await client.connect(carrier);

const found = {
  server: client.getServerVersion(),
  capabilities: client.getServerCapabilities(),
  instructions: client.getInstructions(),
  tools: (await client.listTools()).tools.map((tool) => tool.name),
};
if (found.tools.includes("echo")) {
  found.echo = (await client.callTool({ name: "echo", arguments: { text: "grüß dich 🐝" } })).content[0].text;
  found.measured = (await client.callTool({ name: "measure", arguments: { text: "four" } })).structuredContent;
  found.wrong = (await client.callTool({ name: "echo", arguments: { text: 7 } })).isError;
  found.unknown = await client.callTool({ name: "burn", arguments: {} }).catch((error) => error.code);
  found.resources = (await client.listResources()).resources.map((resource) => resource.uri);
  found.templates = (await client.listResourceTemplates()).resourceTemplates.map((one) => one.uriTemplate);
  found.read = (await client.readResource({ uri: "shop://shelf/7" })).contents[0].text;
  found.prompt = (await client.getPrompt({ name: "greet", arguments: { who: "Ada" } })).messages[0].content.text;
  found.completed = (
    await client.complete({ ref: { type: "ref/prompt", name: "greet" }, argument: { name: "who", value: "A" } })
  ).completion.values;
  found.asked = (await client.callTool({ name: "ask", arguments: {} })).structuredContent;
  const given = new AbortController();
  const waiting = client.callTool({ name: "wait", arguments: {} }, undefined, { signal: given.signal });
  setTimeout(() => given.abort("enough"), 50);
  found.cancelled = await waiting.then(
    () => "answered",
    () => "rejected",
  );
  // The SDK forgets who wants to hear of progress when the answer comes in the same piece: so it comes later.
  found.progress = [];
  await client.callTool({ name: "slowly", arguments: {} }, undefined, {
    onprogress: (told) => {
      if (!found.progress.length) client.callTool({ name: "open_gate", arguments: {} });
      found.progress.push([told.progress, told.total]);
    },
  });
  await client.callTool({ name: "add", arguments: {} });
  for (let tries = 0; !changed && tries < 200; tries++) await new Promise((go) => setTimeout(go, 10));
  found.changed = changed;
} else {
  const listed = (await client.listTools()).tools;
  found.listed = JSON.stringify(listed).length;
  found.wrong = await client
    .callTool({ name: "vcp_encode_context", arguments: { dimensions: { time: "never" } } })
    .catch((error) => ({ thrown: error.code, message: error.message }));
  found.status = (await client.callTool({ name: "vcp_status", arguments: {} })).structuredContent;
}
found.ping = await client.ping();
if (server.url) await carrier.terminateSession();
await client.close();
console.log(JSON.stringify(found));
