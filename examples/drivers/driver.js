// A whole driver in another language: `node driver.js PYTHON`. The kernel is a program beside it; its ports are at the
// other end of standard input and output, as specs/testing.md says ("A driver in another language").

const { spawn } = require("node:child_process");
const { createInterface } = require("node:readline");

const AT_REST = new Set(["idle", "cancelled", "confirming", "done"]);
const COMMANDS = new Set(["call-model", "abort-model", "check-call", "start-tool", "abort-tool", "start-timer", "cancel-timer"]);

// The lines of a stream, one at a time, in order.
function linesOf(stream) {
  const lines = createInterface({ input: stream })[Symbol.asyncIterator]();
  return async () => (await lines.next()).value;
}

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const hear = linesOf(process.stdin);
const kernel = spawn(process.argv[2], ["-m", "loopkernel.testing.conformance.kernel_process"], { stdio: ["pipe", "pipe", "inherit"] });
const answer = linesOf(kernel.stdout);

let log = 0; // a number for each log that is opened
let state = null;
let failed = "";

// One step of the kernel: what follows from the record.
async function fold(record) {
  kernel.stdin.write(`${log} ${JSON.stringify(record)}\n`);
  const effects = JSON.parse(await answer());
  state = JSON.parse(await answer());
  return effects;
}

// One step of the run: first the record, then what follows from it.
async function take(delta, now_ms) {
  if (failed) return;
  const record = { delta, now_ms };
  say({ append: [record], durable: true });
  failed = JSON.parse(await hear()).failed ?? "";
  if (failed) return;
  for (const effect of await fold(record)) {
    const { type } = effect.command ?? effect; // a command with a thread stands beside the handle of its thread
    say(COMMANDS.has(type) ? { do: effect } : { show: effect });
  }
}

async function open({ created, records }, now_ms) {
  log += 1;
  failed = "";
  for (const record of records) await fold(record);
  const first = records.length ? [{ type: "resumed" }] : [created, { type: "acquired" }];
  for (const delta of first) await take(delta, now_ms);
}

async function main() {
  for (let text = await hear(); text !== undefined; text = await hear()) {
    const line = JSON.parse(text);
    if (line.open) await open(line.open, line.now_ms);
    if (line.report) await take(line.report, line.now_ms);
    say({ waiting: { rests: failed !== "" || AT_REST.has(state.value.type), state, failed } });
  }
  kernel.stdin.end();
}

main();
