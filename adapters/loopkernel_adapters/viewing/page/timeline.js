// The time line: each bar in a lane of its kind, so that what overlaps lies one below the other. Drawn on a canvas.

const KINDS = ["turn", "model", "tool", "person", "retry", "compaction", "other"];
const KIND_WORDS = {
  turn: "turns", model: "model calls", tool: "tool runs", person: "waiting for a person",
  retry: "waiting to retry", compaction: "compaction", other: "hooks and the like",
};
const BUSY = new Set(["model", "tool", "retry", "compaction", "other"]);
const LANE = 15, FOOT = 20, SIDE = 12, MOST_LANES = 24;

class Timeline {
  constructor(run, choose) {
    this.run = run;
    this.choose = choose;
    this.by = run.duration > 0 ? "time" : "steps";
    this.view = [0, 1];
    this.now = 1;
    this.canvas = element("canvas", { with: { tabindex: -1, "aria-label": "time line; the list of steps tells the same" } });
    this.root = element("div", { class: "timeline" }, this.canvas);
    this.canvas.addEventListener("click", (event) => this.clicked(event));
    this.canvas.addEventListener("mousemove", (event) => this.pointed(event));
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.shareAt(event));
    }, { passive: false });
    new ResizeObserver(() => this.draw()).observe(this.root);
    this.arrange();
  }

  legend() {
    const there = new Set(this.run.bars.map((bar) => bar.kind));
    const by = element("button", { text: "", title: "by time, or as many pixels for each step (t)", click: () => this.switchAxis() });
    const tell = () => { by.textContent = this.by === "time" ? "by time" : "by steps"; };
    this.tellAxis = tell;
    tell();
    const kinds = KINDS.filter((kind) => there.has(kind));
    return element("div", { class: "legend" },
      ...kinds.map((kind) => element("span", {}, element("i", { class: `is-${kind}` }), KIND_WORDS[kind])),
      element("span", { class: "spacer" }), by,
      element("button", { text: "\u2212", title: "show more (-)", click: () => this.zoom(1.6) }),
      element("button", { text: "+", title: "look closer (+)", click: () => this.zoom(0.6) }),
      element("button", { text: "all", title: "show all (0)", click: () => this.zoom(0) }));
  }

  switchAxis() {
    this.by = this.by === "time" ? "steps" : "time";
    this.tellAxis?.();
    this.arrange();
    this.draw();
  }

  zoom(factor, around = this.shareOf(this.now)) {
    const [from, to] = this.view;
    const width = factor === 0 ? 1 : Math.min(1, Math.max((to - from) * factor, 1e-4));
    const at = factor === 0 ? 0 : around - (around - from) * (width / (to - from));
    const left = Math.max(0, Math.min(at, 1 - width));
    this.view = [left, left + width];
    this.draw();
  }

  // Where nothing works but somebody is waited for, or nobody, time is drawn short.
  arrange() {
    const { steps, bars } = this.run;
    this.lanes = this.lanesOf(bars);
    this.position = new Float64Array(steps.length + 1);
    this.pauses = [];
    const busy = new Int32Array(steps.length + 2);
    for (const bar of bars) {
      if (BUSY.has(bar.kind)) { busy[bar.first] += 1; busy[bar.last] -= 1; }
    }
    let work = 0, open = 0;
    const gaps = [];
    for (let at = 1; at < steps.length; at++) {
      open += busy[at];
      const gap = steps[at].at - steps[at - 1].at;
      gaps.push([gap, open > 0]);
      if (open > 0) work += gap;
    }
    const short = Math.max(2000, work * 0.06);
    gaps.forEach(([gap, works], at) => {
      const drawn = this.by === "steps" ? 1 : works || gap <= short ? gap : short;
      if (this.by === "time" && drawn < gap) this.pauses.push([at + 1, gap]);
      this.position[at + 2] = this.position[at + 1] + drawn;
    });
    this.whole = this.position[steps.length] || 1;
  }

  lanesOf(bars) {
    const lanes = [];
    for (const kind of KINDS) {
      const ends = [], base = lanes.length;
      bars.forEach((bar, place) => {
        if (bar.kind !== kind) return;
        let lane = ends.findIndex((end) => end <= bar.first);
        if (lane < 0) lane = ends.length < MOST_LANES ? ends.push(0) - 1 : ends.length - 1;
        ends[lane] = bar.last;
        (lanes[base + lane] ??= []).push(place);
      });
    }
    return lanes;
  }

  shareOf(step) {
    return this.position[Math.max(1, Math.min(step, this.run.length))] / this.whole;
  }

  shareAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const at = (event.clientX - box.left - SIDE) / (box.width - 2 * SIDE);
    return this.view[0] + at * (this.view[1] - this.view[0]);
  }

  stepAt(share) {
    let low = 1, high = this.run.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.position[middle] / this.whole < share) low = middle + 1;
      else high = middle;
    }
    return low > 1 && share - this.shareOf(low - 1) < this.shareOf(low) - share ? low - 1 : low;
  }

  barAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const lane = this.lanes[Math.floor((event.clientY - box.top - 4) / LANE)];
    const share = this.shareAt(event), slack = 3 / (box.width || 1) * (this.view[1] - this.view[0]);
    const hit = (lane ?? []).find((place) => {
      const bar = this.run.bars[place];
      return this.shareOf(bar.first) - slack <= share && share <= this.shareOf(bar.last) + slack;
    });
    return hit === undefined ? null : this.run.bars[hit];
  }

  clicked(event) {
    const bar = this.barAt(event);
    this.choose(bar === null || bar.kind === "turn" ? this.stepAt(this.shareAt(event)) : bar.first);
  }

  pointed(event) {
    const bar = this.barAt(event);
    const told = bar === null ? "" : `${bar.label}\n${duration(bar.to - bar.from)}, steps ${bar.first} to ${bar.last}: ${bar.how || "not over at the end"}`;
    this.canvas.setAttribute("title", told);
  }

  show(step) {
    this.now = step;
    const share = this.shareOf(step), [from, to] = this.view;
    if (share < from || share > to) {
      const left = Math.max(0, Math.min(share - (to - from) / 2, 1 - (to - from)));
      this.view = [left, left + to - from];
    }
    this.draw();
  }

  draw() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.paint();
    });
  }

  paint() {
    const width = this.root.clientWidth, height = this.lanes.length * LANE + FOOT + 4, ratio = devicePixelRatio || 1;
    if (!width || !this.run.length) return;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d"), look = getComputedStyle(document.documentElement);
    const colour = (name) => look.getPropertyValue(`--${name}`).trim();
    const [from, to] = this.view, scale = (width - 2 * SIDE) / (to - from);
    const x = (step) => SIDE + (this.shareOf(step) - from) * scale;
    pen.scale(ratio, ratio);
    pen.font = "10.5px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    this.lanes.forEach((places, lane) => {
      for (const place of places) this.paintBar(pen, this.run.bars[place], 4 + lane * LANE, x, width, colour);
    });
    const foot = 4 + this.lanes.length * LANE;
    this.paintAxis(pen, foot, x, width, colour);
    pen.textAlign = "left";
    for (const step of this.run.marked.keys()) {
      const at = x(step);
      pen.fillStyle = colour("bad");
      pen.beginPath();
      pen.moveTo(at - 5, foot + 9);
      pen.lineTo(at + 5, foot + 9);
      pen.lineTo(at, foot);
      pen.fill();
    }
    pen.fillStyle = colour("edge");
    pen.fillRect(x(this.now) - 1, 0, 2, height);
  }

  paintBar(pen, bar, top, x, width, colour) {
    const left = Math.max(x(bar.first), -2), right = Math.min(Math.max(x(bar.last), x(bar.first) + 2), width + 2);
    if (right < 0 || left > width) return;
    const failed = /^(failed|lost|stopped|retracted|left|did not)/.test(bar.how);
    pen.globalAlpha = bar.how === "" ? 0.6 : 1;
    pen.fillStyle = colour(bar.kind);
    pen.fillRect(left, top, right - left, LANE - 3);
    if (failed) {
      pen.fillStyle = colour("bad");
      pen.fillRect(Math.max(left, right - 4), top, Math.min(4, right - left), LANE - 3);
    }
    pen.globalAlpha = 1;
    if (right - left < 34) return;
    pen.save();
    pen.beginPath();
    pen.rect(left, top, right - left - 2, LANE);
    pen.clip();
    pen.fillStyle = bar.kind === "turn" ? colour("ink") : colour("bar-ink");
    pen.fillText(bar.label, left + 4, top + (LANE - 3) / 2 + 0.5);
    pen.restore();
  }

  paintAxis(pen, foot, x, width, colour) {
    pen.fillStyle = colour("faint");
    const taken = [];
    const write = (text, middle) => {
      const half = pen.measureText(text).width / 2, at = Math.min(Math.max(middle, half + 2), width - half - 2);
      if (taken.some(([from, to]) => at - half < to + 8 && from - 8 < at + half)) return;
      taken.push([at - half, at + half]);
      pen.fillText(text, at, foot + 9);
    };
    pen.textAlign = "center";
    pen.font = "italic 10.5px system-ui, sans-serif";
    for (const [step, gap] of this.pauses) {
      const left = x(step), right = x(step + 1);
      if (right > 0 && left < width) write(`pause ${duration(gap)}`, (left + right) / 2);
    }
    pen.font = "10.5px system-ui, sans-serif";
    const labels = Math.max(2, Math.floor(width / 130));
    for (let at = 0; at <= labels; at++) {
      const step = this.stepAt(this.view[0] + (at / labels) * (this.view[1] - this.view[0]));
      write(this.by === "time" ? duration(this.run.step(step).at) : `step ${step}`, x(step));
    }
  }
}
