// One step in full: where it has led, what came in, what went out and why, what waits for what, what has changed.

class Details {
  constructor(run, states) {
    this.run = run;
    this.diagram = new Diagram(run, states);
    this.told = element("div");
    this.root = element("div", { class: "details", with: { tabindex: 0, "aria-label": "the step" } }, this.diagram.root, this.told);
    this.stateOpen = false;
  }

  show(number) {
    const step = this.run.step(number);
    this.diagram.show(number);
    const parts = [
      element("h2", { text: `Step ${step.n}: ${step.delta}` }),
      element("div", { class: "said", text: step.refused ? `refused; ${step.text}` : step.text }),
      ...this.notes(step.n),
      ...this.effects(step),
      ...this.waits(number),
      ...this.changes(step, number),
      heading("What came in"),
      tree("delta", step.given),
      heading("The state after it"),
      this.state(step, number),
    ];
    this.told.replaceChildren(...parts);
  }

  notes(number) {
    return (this.run.marked.get(number) ?? []).map((note) => noteTold(note));
  }

  effects(step) {
    if (!step.effects.length) return [element("p", { class: "why", text: "Nothing goes out." })];
    return [heading("What goes out, and why"), ...step.effects.map(([kind, text, rule, isEvent]) => {
      const [id, because] = this.run.rules[rule];
      return element("div", { class: `effect ${isEvent ? "event" : "command"}` },
        element("div", { class: "text" }, element("b", { text: kind }), " ", element("span", { text })),
        element("div", { class: "why" }, `since ${because} `, element("code", { text: id })));
    })];
  }

  waits(number) {
    const waits = this.run.waitsAt(number);
    return waits.length ? [heading("What waits"), ...waits.map((text) => element("div", { class: "said", text }))] : [];
  }

  changes(step, number) {
    if (!step.changes.length) return [heading("What has changed"), element("div", { class: "faint", text: "nothing" })];
    const before = this.run.stateAfter(number - 1);
    const rows = step.changes.slice(0, 60).map(([path, ...news]) => {
      const was = found(before, path);
      const row = element("div", { class: "change" }, element("span", { class: "mono", text: path.join(".") || "all" }));
      const told = element("span", { class: "mono" });
      if (was !== undefined && (was === null || typeof was !== "object")) told.append(element("span", { class: "was", text: brief(was) }), " ");
      told.append(news.length ? brief(news[0]) : "(gone)");
      row.append(told);
      return row;
    });
    const more = step.changes.length - rows.length;
    return [heading("What has changed"), ...rows, more > 0 ? element("div", { class: "faint", text: `and ${more} more` }) : ""];
  }

  state(step, number) {
    const changed = new Set(this.stateOpen ? step.changes.map(([path]) => path.join(".")) : []);
    const shown = tree("state", this.run.stateAfter(number), "", changed, this.stateOpen);
    shown.addEventListener("toggle", (event) => {
      if (event.target === shown) this.stateOpen = shown.open;
    });
    return shown;
  }
}

const heading = (text) => element("h4", { text });

function brief(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 240 ? `${text.slice(0, 240)}...` : text;
}

function noteTold(note, link = null) {
  const told = element("div", { class: "note" }, link, link ? " " : "", element("b", { text: note.kind }), " ", note.text);
  if (note.effect) told.append(element("div", { class: "why", text: `Effect: ${note.effect}` }));
  if (note.remedy) told.append(element("div", { class: "why", text: `Repair: ${note.remedy}` }));
  return told;
}
