// The states of the loop, with the current one lit, the ways that the run has gone so far, and where it may go from here.

const PLACES = {
  Initial: [0, 0], Idle: [1, 0], Thinking: [2, 0], Compacting: [3, 0],
  Cancelled: [0, 1], Finishing: [1, 1], Streaming: [2, 1], Backoff: [3, 1],
  Done: [0, 2], HandingOff: [1, 2], Executing: [2, 2], Dispatching: [3, 2], Confirming: [2, 3],
};
const WIDE = 84, HIGH = 24, ACROSS = 112, DOWN = 52;
let diagrams = 0;

class Diagram {
  constructor(run, states) {
    this.run = run;
    this.states = states;
    this.marker = `arrow-${diagrams++}`;
    this.ways = svg("g", {});
    this.boxes = new Map();
    this.root = svg("svg", { class: "diagram", viewBox: `-4 -4 ${3 * ACROSS + WIDE + 8} ${3 * DOWN + HIGH + 8}`, role: "img" });
    const arrow = svg("marker", { id: this.marker, viewBox: "0 0 6 6", refX: 5.5, refY: 3, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto" },
      svg("path", { d: "M0 0L6 3L0 6z" }));
    this.root.append(svg("defs", {}, arrow), this.ways);
    for (const [state, [column, row]] of Object.entries(PLACES)) {
      const label = svg("text", { x: WIDE / 2, y: HIGH / 2 + 4 });
      label.textContent = state;
      const box = svg("g", { transform: `translate(${column * ACROSS} ${row * DOWN})` }, svg("rect", { width: WIDE, height: HIGH, rx: 6 }), label);
      this.boxes.set(state, box);
      this.root.append(box);
    }
  }

  show(number) {
    const been = new Set(["Initial"]), gone = new Set();
    let before = "Initial", last = "";
    for (let at = 0; at < number; at++) {
      const phase = this.run.steps[at].phase;
      last = "";
      if (phase !== before) {
        last = `${before} ${phase}`;
        gone.add(last);
        been.add(phase);
        before = phase;
      }
    }
    for (const [state, box] of this.boxes) {
      box.setAttribute("class", state === before ? "now" : been.has(state) ? "been" : "");
    }
    this.ways.replaceChildren();
    for (const next of this.states[before] ?? []) {
      if (!gone.has(`${before} ${next}`) && next !== before) this.way(before, next, "may");
    }
    for (const way of gone) if (way !== last) this.way(...way.split(" "), "way");
    if (last) this.way(...last.split(" "), "way last");
    this.root.setAttribute("aria-label", `the state is ${before}`);
  }

  way(from, to, kind) {
    const [a, b] = PLACES[from], [c, d] = PLACES[to];
    const across = c - a, down = d - b;
    const start = [a * ACROSS + WIDE / 2, b * DOWN + HIGH / 2], end = [c * ACROSS + WIDE / 2, d * DOWN + HIGH / 2];
    const straight = across === 0 ? [0, Math.sign(down) * HIGH / 2] : [Math.sign(across) * WIDE / 2, 0];
    const shift = across === 0 ? [down > 0 ? 12 : -12, 0] : [0, across > 0 ? -4 : 4];
    const p = [start[0] + straight[0] + shift[0], start[1] + straight[1] + shift[1]];
    const q = [end[0] - straight[0] + shift[0], end[1] - straight[1] + shift[1]];
    const far = Math.abs(across) > 1 && down === 0 || Math.abs(down) > 1 && across === 0;
    const bend = far ? 26 : 5;
    const length = Math.hypot(q[0] - p[0], q[1] - p[1]) || 1;
    const middle = [(p[0] + q[0]) / 2 + (q[1] - p[1]) / length * bend, (p[1] + q[1]) / 2 - (q[0] - p[0]) / length * bend];
    const path = svg("path", { class: kind, d: `M${p}Q${middle} ${q}` });
    if (kind !== "may") path.setAttribute("marker-end", `url(#${this.marker})`);
    this.ways.append(path);
  }
}
