// What waits for a person, above all that the run holds, and answered here: each button is for exactly the call beside it.

const WORDS = {
  yes: "Let it run", always: "Let it run, and all later calls of this tool unasked", no: "Do not run it", say: "Answer", decline: "Decline to answer",
  rerun: "Run it again", cancel: "Do not run it again",
};
const BESIDE = { no: ["why", "why not (told to the model)"], say: ["text", "your answer"] };
const NOT_AT_ONCE = 700; // milliseconds: a click that was meant for what stood here before is none

function notAtOnce(button) {
  button.disabled = true;
  setTimeout(() => { button.disabled = false; }, NOT_AT_ONCE);
}

class Asking {
  constructor() {
    this.root = element("section", { class: "asking", with: { "aria-label": "what waits for you", "aria-live": "polite" } });
    this.shown = "";
    this.show([]);
  }

  // What is shown stays as it is, with what was typed, as long as the same is asked.
  show(asked) {
    const now = asked.map((one) => one.asked).join(" ");
    this.root.hidden = asked.length === 0;
    if (now === this.shown) return;
    this.shown = now;
    this.root.replaceChildren(...asked.map((one) => this.question(one)));
  }

  question(one) {
    const said = element("p", { class: "said", with: { role: "status" } });
    const box = element("article", { class: "question" },
      element("h2", { text: one.question === null ? "A call waits for you" : "A running tool asks you" }),
      element("p", {}, "call ", element("b", { text: one.call }), " of the tool ", element("b", { class: "mono", text: one.tool }),
        one.after_crash ? ": it was running when the program ended, and nobody knows how far it came" : ""),
      one.question === null ? null : element("pre", { class: "mono exact", text: one.question }),
      element("p", { class: "faint", text: "its input, all of it:" }),
      element("pre", { class: "mono exact", text: one.input }));
    if (one.answers.length === 0) box.append(element("p", { text: "It cannot be answered here; answer it where the run goes on." }));
    else {
      box.append(this.buttons(one, said));
      if (one.answers.includes("edit")) box.append(this.editing(one, said));
      box.append(said);
    }
    return box;
  }

  buttons(one, said) {
    const row = element("p", { class: "answers" });
    for (const word of one.answers.filter((each) => each !== "edit")) {
      const [name, hint] = BESIDE[word] ?? [];
      const beside = name ? element("input", { with: { type: "text", "aria-label": hint, placeholder: hint } }) : null;
      const button = element("button", { text: WORDS[word], class: `answer-${word}`, click: () => {
        const given = { asked: one.asked, answer: word };
        if (beside?.value) given[name] = beside.value;
        this.send(given, row.parentElement, said);
      } });
      notAtOnce(button);
      row.append(...(beside ? [element("span", { class: "together" }, button, beside)] : [button]));
    }
    return row;
  }

  // Another input: first it is shown as it would run, then a button lets run exactly what is shown.
  editing(one, said) {
    const text = element("textarea", { class: "mono", with: { "aria-label": "the new input, as JSON", rows: Math.min(8, one.editable.split("\n").length + 1), spellcheck: "false" } });
    text.value = one.editable;
    const shown = element("div", { class: "edited", with: { "aria-live": "polite" } });
    const show = element("button", { text: "Show what would run", class: "show-edited", click: async () => {
      shown.replaceChildren();
      const asked = text.value, told = await this.tell("edited", { asked: one.asked, text: asked }, said);
      if (told === null || text.value !== asked) return;
      const run = element("button", { text: "Let it run with this input", class: "answer-edit", click: () => {
        this.send({ asked: one.asked, answer: "edit", text: asked, shown: told.shown }, shown.closest(".question"), said);
      } });
      notAtOnce(run);
      shown.append(element("p", { class: "faint", text: "its new input, all of it:" }), element("pre", { class: "mono exact", text: told.input }), run);
      run.scrollIntoView({ block: "nearest" });
    } });
    text.addEventListener("input", () => shown.replaceChildren()); // what is shown is what is there, or nothing
    return element("details", { class: "editing" }, element("summary", { text: "Change its input" }), text, element("p", {}, show), shown);
  }

  async send(given, box, said) {
    const buttons = [...box.querySelectorAll("button")];
    for (const button of buttons) button.disabled = true;
    if (await this.tell("answer", given, said) !== null) said.textContent = "answered";
    else for (const button of buttons) button.disabled = false;
  }

  // What the program says to it; null where it refuses, which is shown.
  async tell(what, given, said) {
    said.textContent = "is told...";
    try {
      const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(given) };
      const answer = await fetch(what, options);
      said.textContent = answer.ok ? "" : await answer.text();
      if (!answer.ok) said.scrollIntoView({ block: "nearest" });
      return answer.ok ? await answer.json() : null;
    } catch {
      said.textContent = "the program that showed this cannot be reached";
      return null;
    }
  }
}
