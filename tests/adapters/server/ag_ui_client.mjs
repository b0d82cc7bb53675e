// A front end of AG-UI, made of its own client: it shows a picture, runs a tool of its own, and lets one call run.
//
//     node ag_ui_client.mjs URL TOKEN PICTURE    (in a folder whose node_modules have @ag-ui/client)
//
// What the client has then is printed as JSON: the events by their types, and its messages.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, token, picture] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${process.cwd()}/`));
const { HttpAgent } = require("@ag-ui/client");

const agent = new HttpAgent({ url, threadId: "thread-1", headers: { Authorization: `Bearer ${token}` } });
const tools = [{
  name: "set_colour",
  description: "Sets the colour of the page.",
  parameters: { type: "object", properties: { to: { type: "string" } }, required: ["to"] },
}];
const events = [];
let interrupts = [];
const subscriber = {
  onEvent: ({ event }) => { events.push(event.type); },
  onRunFinishedEvent: ({ event }) => { interrupts = event.outcome?.interrupts ?? []; },
};

async function run(more = {}) {
  interrupts = [];
  await agent.runAgent({ tools, ...more }, subscriber);
}

// The calls of the last message that nobody has answered yet.
function unanswered() {
  const answered = new Set(agent.messages.filter((each) => each.role === "tool").map((each) => each.toolCallId));
  return agent.messages.flatMap((each) => each.toolCalls ?? []).filter((call) => !answered.has(call.id));
}

const source = { type: "data", value: picture, mimeType: "image/png" };
agent.addMessage({ id: "m1", role: "user", content: [{ type: "text", text: "Make the page like this" }, { type: "image", source }] });
await run();
for (const call of unanswered().filter((each) => each.function.name === "set_colour")) {
  const { to } = JSON.parse(call.function.arguments);
  agent.addMessage({ id: `result-${call.id}`, role: "tool", toolCallId: call.id, content: `the page is ${to}` });
}
await run();
await run({ resume: interrupts.map((each) => ({ interruptId: each.id, status: "resolved", payload: { answer: "yes" } })) });
process.stdout.write(JSON.stringify({ events, messages: agent.messages }));
