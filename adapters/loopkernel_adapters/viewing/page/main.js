// The page: which runs are shown, one or two; the keys; the link in the address; and a run that goes on.

const KEYS = [
  ["\u2190 \u2192", "a step back, a step on (with shift: ten)"], ["Home End", "the first step, the last"],
  ["n p", "the next message, the one before"], ["f F", "the next finding, the one before"],
  ["+ - 0", "the time line: closer, wider, all"], ["t", "the time line by time, or by steps"],
  ["/", "find in steps"], ["s", "two runs side by side, or one"], ["d", "light or dark"], ["?", "these keys"],
];

class Page {
  constructor(told) {
    this.told = told;
    this.runs = told.runs.map((run, number) => new Run(run, number));
    this.panes = element("main", { with: { id: "panes" } });
    this.help = this.keys();
    this.asking = told.live ? new Asking() : null;
    document.body.append(this.header(), ...(this.asking ? [this.asking.root] : []), this.panes, this.help);
    this.asking?.show(told.live.asked ?? []);
    if (told.figures) this.figures = figures(told.figures);
    const asked = this.asked();
    if (told.sides && asked === null) this.showTwo();
    else if (this.runs.length) this.showOne(asked?.run ?? 0, asked?.step ?? (told.live ? this.runs[0].length : 1));
    else this.panes.append(this.figures);
    addEventListener("hashchange", () => {
      const to = this.asked();
      if (to !== null) this.goTo(to.run, to.step);
    });
    addEventListener("keydown", (event) => this.key(event));
    if (told.live) this.follow();
  }

  header() {
    const bar = element("header", {}, element("h1", { text: this.told.title, title: this.told.title }));
    if (this.runs.length > 1 || this.told.live) {
      this.picker = element("select", { with: { "aria-label": "run" } });
      this.runs.forEach((run) => this.pickable(run));
      this.picker.addEventListener("change", () => this.showOne(Number(this.picker.value), 1));
      bar.append(this.picker);
    }
    if (this.told.sides) {
      this.double = element("button", { text: "side by side", click: () => this.toggleTwo() });
      bar.append(this.double, element("span", { class: "parts", text: this.told.sides.text }));
    }
    if (this.told.figures && this.runs.length) {
      bar.append(element("button", { text: "figures", click: () => this.panes.replaceChildren(this.figures) }));
    }
    if (this.told.live) {
      this.followBox = element("input", { with: { type: "checkbox" } });
      this.followBox.checked = true;
      this.liveness = element("span", { class: "live", text: "live" });
      bar.append(this.liveness, element("label", {}, this.followBox, " follow"));
    }
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = this.told.theme ?? (dark ? "dark" : "light");
    bar.append(element("span", { class: "spacer" }), element("button", { text: "\u25d0", title: "light or dark (d)", click: () => this.turnLight() }),
      element("button", { text: "?", title: "keys (?)", click: () => this.help.showModal() }));
    return bar;
  }

  // A run that can be chosen: with one alone there is nothing to choose.
  pickable(run) {
    this.picker.append(element("option", { text: run.name, with: { value: run.number } }));
    this.picker.hidden = this.picker.childElementCount < 2;
  }

  keys() {
    const list = element("dl", { class: "keys" });
    for (const [keys, what] of KEYS) list.append(element("dt", {}, ...keys.split(" ").map((key) => element("kbd", { text: key }))), element("dd", { text: what }));
    const close = element("button", { text: "close", click: () => this.help.close() });
    return element("dialog", {}, element("h3", { text: "Keys" }), list, close);
  }

  showOne(number, step) {
    this.open = [new Pane(this.runs[number], this.told.states, (pane, at) => this.chosen(pane, at))];
    this.settle();
    this.open[0].show(step);
    if (this.picker) this.picker.value = number;
  }

  // Each at the step at which they part.
  showTwo() {
    const { left, right, steps } = this.told.sides;
    this.open = [left, right].map((number) => new Pane(this.runs[number], this.told.states, (pane, at) => this.chosen(pane, at)));
    for (const pane of this.open) pane.root.querySelector(".bar-of-pane").prepend(pane.title);
    this.settle();
    this.open.forEach((pane, side) => {
      pane.part("steps");
      pane.show(steps[side]);
    });
  }

  settle() {
    this.active = this.open[0];
    for (const pane of this.open) pane.root.addEventListener("pointerdown", () => { this.active = pane; });
    this.panes.replaceChildren(...this.open.map((pane) => pane.root));
    this.double?.setAttribute("aria-pressed", this.open.length === 2);
  }

  toggleTwo() {
    if (!this.told.sides) return;
    if (this.open.length === 2) this.showOne(this.active.run.number, this.active.now);
    else this.showTwo();
  }

  // The address says which step is shown, so that it can be sent to somebody; going back does not lead through all of them.
  chosen(pane, step) {
    if (this.followBox) this.followBox.checked = step === pane.run.length;
    if (pane !== this.active || this.open.length > 1) return;
    const run = pane.run.number ? `run=${pane.run.number}&` : "";
    try {
      history.replaceState(null, "", `#${run}step=${step}`);
    } catch {
      // a browser may refuse so many of them in a second
    }
  }

  asked() {
    const said = new URLSearchParams(location.hash.slice(1));
    const step = Number.parseInt(said.get("step") ?? "", 10), run = Number.parseInt(said.get("run") ?? "0", 10);
    return Number.isFinite(step) && this.runs[run] ? { run, step } : null;
  }

  goTo(run, step) {
    const pane = this.open?.find((one) => one.run.number === run);
    if (pane) pane.show(step);
    else this.showOne(run, step);
  }

  turnLight() {
    const root = document.documentElement;
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    for (const pane of this.open ?? []) pane.timeline.draw();
  }

  key(event) {
    const pane = this.active;
    if (event.ctrlKey || event.metaKey || event.altKey || !pane || this.help.open) return;
    const inText = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "range" && event.target.type !== "checkbox";
    if (inText) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const far = event.shiftKey ? 10 : 1;
    const does = {
      ArrowLeft: () => pane.show(pane.now - far), ArrowRight: () => pane.show(pane.now + far),
      Home: () => pane.show(1), End: () => pane.show(pane.run.length),
      n: () => pane.nextMessage(false), p: () => pane.nextMessage(true), f: () => pane.nextFinding(false), F: () => pane.nextFinding(true),
      "+": () => pane.timeline.zoom(0.6), "-": () => pane.timeline.zoom(1.6), 0: () => pane.timeline.zoom(0), t: () => pane.timeline.switchAxis(),
      s: () => this.toggleTwo(), d: () => this.turnLight(), "?": () => this.help.showModal(),
      "/": () => {
        pane.part("steps");
        pane.list.search.focus();
      },
    };
    if (!Object.hasOwn(does, event.key)) return;
    event.preventDefault();
    does[event.key]();
  }

  // What is asked is shown whatever the run holds, and before it.
  hear(news) {
    this.asking.show(news.asked);
    news.runs.forEach((told, number) => {
      const run = this.runs[number], grown = told.steps.length || told.notes.length !== run.notes.length;
      if (!grown) return;
      run.take(told);
      this.open.find((pane) => pane.run === run)?.grown(this.followBox.checked);
    });
    for (const told of news.more) {
      this.runs.push(new Run(told, this.runs.length));
      this.pickable(this.runs.at(-1));
    }
  }

  async follow() {
    for (;;) {
      await new Promise((over) => setTimeout(over, this.told.live.every));
      try {
        const answer = await fetch(`news?since=${this.runs.map((run) => run.length).join(",")}`, { cache: "no-store" });
        if (!answer.ok) throw new Error(String(answer.status));
        this.hear(await answer.json());
        this.liveness.textContent = "live";
      } catch {
        this.liveness.textContent = "the program that showed this has ended, or cannot be reached";
      }
    }
  }
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

unpacked(document.getElementById("document").textContent.trim()).then((told) => { globalThis.page = new Page(told); });
