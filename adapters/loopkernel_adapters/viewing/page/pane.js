// One run on the page: its time line, a slider through its steps, and three parts that show the same step.

const PARTS = ["thread", "steps", "step"];

class Pane {
  constructor(run, states, chosen) {
    this.run = run;
    this.chosen = chosen;
    this.now = 0;
    const choose = (step) => this.show(step);
    this.timeline = new Timeline(run, choose);
    this.list = new StepList(run, choose);
    this.thread = new Thread(run, choose);
    this.details = new Details(run, states);
    this.slider = element("input", { with: { type: "range", min: 1, max: run.length, value: 1, "aria-label": "step" } });
    this.slider.addEventListener("input", () => this.show(Number(this.slider.value)));
    this.where = element("span", { class: "where" });
    this.root = element("section", { class: "pane" }, this.controls(), this.legend = this.timeline.legend(), this.timeline.root, this.notes(), this.tabs(), this.body());
    this.part("thread");
  }

  controls() {
    const to = (text, title, step) => element("button", { text, title, click: () => this.show(step()) });
    this.faults = element("button", { click: () => this.toggleNotes() });
    this.tellFaults();
    this.title = element("h2", { text: this.run.name });
    return element("div", { class: "bar-of-pane" },
      to("\u00ab", "first step (Home)", () => 1), to("\u2039", "step before (\u2190)", () => this.now - 1),
      this.slider,
      to("\u203a", "next step (\u2192)", () => this.now + 1), to("\u00bb", "last step (End)", () => this.run.length),
      this.where, this.faults);
  }

  tellFaults() {
    const count = this.run.notes.length;
    this.faults.textContent = count ? `\u26a0 ${count} ${count === 1 ? "finding" : "findings"}` : "no findings";
    this.faults.disabled = !count;
    this.faults.title = "what was found, and broken laws (f goes to the next)";
  }

  notes() {
    this.found = element("div", { class: "notes" });
    this.found.hidden = true;
    return this.found;
  }

  toggleNotes() {
    this.found.hidden = !this.found.hidden;
    this.found.replaceChildren(...this.run.notes.slice(0, 500).map((note) =>
      noteTold(note, note.step === null ? element("span", { class: "faint", text: note.place }) : stepLink(this.run.number, note.step, `step ${note.step}`))));
  }

  tabs() {
    this.buttons = PARTS.map((part) => element("button", { text: part, with: { role: "tab" }, click: () => this.part(part) }));
    return element("div", { class: "tabs", with: { role: "tablist" } }, ...this.buttons);
  }

  body() {
    const part = (title, content, ...tools) =>
      element("div", { class: "part" }, element("h3", {}, title, ...tools), content);
    this.parts = {
      steps: part("Steps", this.list.root, ...this.list.tools()),
      thread: part("Thread", this.thread.root),
      step: part("Step", this.details.root),
    };
    return element("div", { class: "body" }, ...Object.values(this.parts));
  }

  part(chosen) {
    PARTS.forEach((part, place) => {
      this.parts[part].classList.toggle("chosen", part === chosen);
      this.buttons[place].setAttribute("aria-selected", part === chosen);
    });
    if (this.now) this.reveal();
  }

  show(step) {
    const number = Math.max(1, Math.min(Math.round(step) || 1, this.run.length));
    if (number === this.now || !this.run.length) return;
    this.now = number;
    this.slider.value = number;
    this.chosen(this, number);
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.reveal();
    });
  }

  reveal() {
    const step = this.run.step(this.now);
    this.where.textContent = `step ${this.now} of ${this.run.length}, ${duration(step.at)}, ${step.phase}`;
    this.timeline.show(this.now);
    this.list.show(this.now);
    this.thread.show(this.now);
    this.details.show(this.now);
  }

  nextFinding(back) {
    const marked = [...this.run.marked.keys()].sort((one, other) => one - other);
    const next = back ? marked.reverse().find((step) => step < this.now) : marked.find((step) => step > this.now);
    this.show(next ?? marked[0] ?? this.now);
  }

  nextMessage(back) {
    const steps = this.run.messages.map((message) => message.step).sort((one, other) => one - other);
    const next = back ? steps.reverse().find((step) => step < this.now) : steps.find((step) => step > this.now);
    this.show(next ?? this.now);
  }

  // The run has gone on.
  grown(follows) {
    this.slider.max = this.run.length;
    this.timeline.arrange();
    this.list.sift();
    this.thread.add();
    this.tellFaults();
    if (follows) this.show(this.run.length);
    else this.reveal();
  }
}
