// A run as the document tells it: its steps, and its state after each of them, made of the differences.

const KEPT_EVERY = 64;

// What a run holds is never looked up among what every object has, so a key such as __proto__ is a key like others.
function put(value, path, at, news) {
  const copy = Array.isArray(value) ? value.slice() : Object.assign(Object.create(null), value);
  const key = path[at];
  if (at === path.length - 1) {
    if (news.length) copy[key] = news[0];
    else delete copy[key];
  } else {
    copy[key] = put(copy[key] ?? Object.create(null), path, at + 1, news);
  }
  return copy;
}

function found(value, path) {
  for (const key of path) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value;
}

class Run {
  constructor(told, number) {
    Object.assign(this, told);
    this.number = number;
    this.kept = [this.start];
    this.index();
  }

  get length() {
    return this.steps.length;
  }

  index() {
    this.marked = new Map();
    for (const note of this.notes) {
      if (note.step !== null) this.marked.set(note.step, [...(this.marked.get(note.step) ?? []), note]);
    }
  }

  step(number) {
    return this.steps[Math.max(1, Math.min(number, this.length)) - 1];
  }

  stateAfter(number) {
    let at = Math.min(Math.floor(number / KEPT_EVERY), this.kept.length - 1);
    let state = this.kept[at];
    for (let done = at * KEPT_EVERY; done < number; done++) {
      for (const [path, ...news] of this.steps[done].changes) {
        state = path.length ? put(state, path, 0, news) : news[0];
      }
      if ((done + 1) % KEPT_EVERY === 0 && this.kept.length === (done + 1) / KEPT_EVERY) this.kept.push(state);
    }
    return state;
  }

  waitsAt(number) {
    for (let at = number; at > 0; at--) {
      if (this.steps[at - 1].waits) return this.steps[at - 1].waits;
    }
    return [];
  }

  // What is new of a run that goes on.
  take(news) {
    for (const key of ["notes", "rules", "duration", "clock"]) this[key] = news[key];
    this.steps.length = news.since;
    this.steps.push(...news.steps);
    for (const [place, bar] of news.bars) this.bars[place] = bar;
    for (const [place, message] of news.messages) this.messages[place] = message;
    this.index();
  }
}
