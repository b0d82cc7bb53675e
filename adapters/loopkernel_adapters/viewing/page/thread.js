// The thread as a person reads it. A message is filled when it comes near to what is seen.

const ORIGINS = {
  said: "the user", queued: "the user, from the queue", steered: "the user, while it worked", nudge: "the loop: go on",
  continuation: "the loop: go on", stop_hook: "a stop hook", correction: "a correction", error_feedback: "the loop: an error",
  loop_note: "the loop: you repeat yourself", summary: "a summary of what was before", gap_note: "the loop: a gap",
  background_result: "a background run", call_note: "the loop: about calls", hook: "a hook",
};
const LONG = 1200;

class Thread {
  constructor(run, choose) {
    this.run = run;
    this.choose = choose;
    this.shown = [];
    this.root = element("div", { class: "thread", with: { tabindex: 0, "aria-label": "thread" } });
    this.near = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) if (isIntersecting) this.fill(target);
    }, { root: this.root, rootMargin: "800px" });
    this.places = new Map();
    this.add();
  }

  // Messages that are new, or that have changed since they were shown.
  add() {
    this.run.messages.forEach((message, place) => {
      if (this.shown[place]?.message === message) return;
      const article = element("article", { class: "message" });
      if (this.shown[place]) this.shown[place].article.replaceWith(article);
      else this.root.append(article);
      this.shown[place] = { message, article };
      this.places.set(article, place);
      this.near.observe(article);
    });
  }

  show(step, moves = true) {
    let current = null;
    for (const { message, article } of this.shown) {
      const gone = message.gone !== null && message.gone <= step;
      const look = `message ${message.who}${message.step > step ? " later" : ""}${gone ? " gone" : ""}${message.step === step ? " now" : ""}`;
      if (article.className !== look) article.className = look;
      if (message.step <= step) current = article;
    }
    if (moves && current !== null) this.reveal(current);
  }

  // What stands around it is filled first, since that makes it as high as it is.
  reveal(current) {
    const place = this.places.get(current);
    for (const { article } of this.shown.slice(Math.max(0, place - 12), place + 6)) this.fill(article);
    const top = current.offsetTop - this.root.offsetTop, seen = this.root.scrollTop, height = this.root.clientHeight;
    if (top < seen || top + Math.min(current.offsetHeight, height) > seen + height) {
      this.root.scrollTop = Math.max(0, top - Math.max(20, height - current.offsetHeight - 80));
    }
  }

  fill(article) {
    if (article.childElementCount) return;
    const { message } = this.shown[this.places.get(article)];
    this.near.unobserve(article);
    const who = message.who === "user" ? ORIGINS[message.origin] ?? message.origin : message.who === "model" ? modelTold(message.model) : "tools";
    const head = element("div", { class: "who" }, element("b", { text: who }), stepLink(this.run.number, message.step, `step ${message.step}`));
    if (message.gone !== null) head.append(element("span", {}, "left the thread at ", stepLink(this.run.number, message.gone, `step ${message.gone}`)));
    if (message.who === "model") {
      const [given, made] = message.tokens;
      head.append(element("span", { text: message.cut ? "cut short" : message.stop }));
      if (given || made) head.append(element("span", { text: `${given} tokens in, ${made} out` }));
    }
    article.append(head, ...message.parts.map((part) => this.part(part)));
  }

  part(part) {
    if (part.is === "text") return long(part.text, "said");
    if (part.is === "thought") return long(part.text, "said thought");
    if (part.is === "call" || part.is === "server call") {
      const input = typeof part.input === "string" ? part.input : JSON.stringify(part.input, null, 1);
      const short = typeof part.input === "string" ? part.input : JSON.stringify(part.input);
      return element("details", { class: "call" },
        element("summary", {}, element("span", { class: "name", text: part.tool }), " ", element("code", { class: "faint", text: short.slice(0, 160) })),
        element("pre", { text: input }));
    }
    if (part.is === "result") {
      const bad = part.status !== "done";
      const said = part.parts.map((inner) => inner.text).join("\n");
      const status = element("span", { class: `status ${bad ? "bad" : "done"}`, text: part.reason ? `${part.status}: ${part.reason}` : part.status });
      const folded = element("details", { class: "result" },
        element("summary", {}, element("span", { class: "name", text: part.tool }), " ", status, " ", element("span", { class: "faint", text: said.slice(0, 120) })),
        element("pre", { text: said || "(nothing)" }));
      return folded;
    }
    return element("div", { class: "faint", text: `(${part.text})` });
  }
}

const modelTold = (name) => (!name || name === "default" ? "the model" : name);

function long(text, look) {
  if (text.length <= LONG) return element("div", { class: look, text });
  const rest = element("span", { text: text.slice(LONG) });
  rest.hidden = true;
  const more = element("button", { text: `${text.length - LONG} more characters`, click: () => {
    rest.hidden = false;
    more.hidden = true;
  } });
  return element("div", { class: look }, text.slice(0, LONG), rest, " ", more);
}
