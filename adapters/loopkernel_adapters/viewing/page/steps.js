// The list of all steps. Only the rows that are seen exist, so that ten thousand of them cost as much as thirty.

const ROW = 24;

class StepList {
  constructor(run, choose) {
    this.run = run;
    this.choose = choose;
    this.now = 1;
    this.pieces = false;
    this.words = "";
    this.whole = element("div", { class: "whole" });
    this.root = element("div", { class: "steps", with: { role: "listbox", "aria-label": "steps", tabindex: 0 } }, this.whole);
    this.root.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.root);
    this.sift();
  }

  tools() {
    const hasPieces = this.run.steps.some((step) => step.piece);
    const box = element("input", { with: { type: "checkbox" } });
    box.checked = this.pieces;
    box.addEventListener("change", () => {
      this.pieces = box.checked;
      this.sift();
      this.reveal();
    });
    this.search = element("input", { with: { type: "search", placeholder: "find in steps (/)", size: 14, "aria-label": "find in steps" } });
    this.search.addEventListener("input", () => {
      this.words = this.search.value.toLowerCase();
      this.sift();
      this.root.scrollTop = 0;
    });
    const pieces = element("label", { title: "the pieces in which replies came" }, box, " pieces");
    pieces.hidden = !hasPieces;
    return [this.search, pieces];
  }

  // Which steps are listed: pieces of replies only where they are wanted.
  sift() {
    const fits = (step) => !this.words || `${step.n} ${step.delta} ${step.text} ${step.phase}`.toLowerCase().includes(this.words);
    this.listed = this.run.steps.filter((step) => (this.pieces || !step.piece) && fits(step)).map((step) => step.n);
    this.whole.style.height = `${this.listed.length * ROW}px`;
    this.draw();
  }

  // The place in the list of the step, or of the one listed before it.
  placeOf(step) {
    let low = 0, high = this.listed.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.listed[middle] <= step) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  show(step) {
    this.now = step;
    this.reveal();
  }

  reveal() {
    const top = this.placeOf(this.now) * ROW, height = this.root.clientHeight;
    if (height && (top < this.root.scrollTop || top + ROW > this.root.scrollTop + height)) {
      this.root.scrollTop = Math.max(0, top - height / 3);
    }
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.root.scrollTop / ROW) - 4);
    const last = Math.min(this.listed.length, first + Math.ceil((this.root.clientHeight || 600) / ROW) + 8);
    const here = this.placeOf(this.now);
    const rows = [];
    for (let place = first; place < last; place++) rows.push(this.row(place, place === here));
    this.whole.replaceChildren(...rows);
  }

  row(place, isNow) {
    const step = this.run.step(this.listed[place]);
    const marks = `${isNow ? " now" : ""}${step.refused ? " refused" : ""}${this.run.marked.has(step.n) ? " marked" : ""}`;
    const row = element("div", { class: `row${marks}`, with: { role: "option", "aria-selected": isNow }, click: () => this.choose(step.n) },
      element("span", { class: "n", text: this.run.marked.has(step.n) ? `\u26a0 ${step.n}` : step.n }),
      element("span", { class: "what", text: step.delta }),
      element("span", { class: "text", text: step.refused ? `refused; ${step.text}` : step.text }));
    row.style.transform = `translateY(${place * ROW}px)`;
    return row;
  }
}
