// Playing a recording (see recording.py): the clock, the state after each step, and the player of an exported page.
// A module without imports, so that an exported page can hold it whole; the playground uses the same functions.

/**
 * @typedef {{position: number, text: string | null, glue: number, log_prob: number | null, entropy: number | null}} Drawn
 * @typedef {{length: number, given: Drawn[], steps: Drawn[][], breaks: number[], title: string, note: string}} Recording
 */

const EDGES = [0.01, 0.03, 0.1, 0.3, 0.6, 0.9];

/** The class that colours a probability, p0 (below 1 %) to p6 (90 % and more); none for what was given.
 * @param {number | null} logProb @returns {string} */
export function shade(logProb) {
  if (logProb === null) return "";
  const p = Math.exp(logProb);
  return `p${EDGES.filter((edge) => p >= edge).length}`;
}

/** A probability for people: 42 %, 0.31 %, <0.001 %.
 * @param {number} p @returns {string} */
export function percent(p) {
  const value = 100 * p;
  const number = value === 0 ? "0" : value < 0.001 ? "<0.001" : value >= 9.95 ? value.toFixed(0) : value.toPrecision(2);
  return `${number}\u00a0%`; // one word: no line ends before the sign
}

/** The text after `step` steps, null where nothing stands, and what the last of them drew.
 * @param {Recording} recording @param {number} step
 * @returns {{tokens: (Drawn | null)[], fresh: Set<number>}} */
export function stateAt(recording, step) {
  /** @type {(Drawn | null)[]} */
  const tokens = new Array(recording.length).fill(null);
  const made = recording.steps.slice(0, step);
  for (const one of [...recording.given, ...made.flat()]) tokens[one.position] = one.text === null ? null : one;
  return { tokens, fresh: new Set((made.at(-1) ?? []).map((one) => one.position)) };
}

/** Whether a space stands before token `i`.
 * @param {(Drawn | null)[]} tokens @param {number} i @returns {boolean} */
export function spaced(tokens, i) {
  return i > 0 && !((tokens[i]?.glue ?? 0) & 1) && !((tokens[i - 1]?.glue ?? 0) & 2);
}

/** What a token says about itself.
 * @param {Drawn} token @returns {string} */
export function described(token) {
  if (token.log_prob === null) return `${token.text}: given`;
  const entropy = token.entropy === null ? "" : `, entropy ${token.entropy.toFixed(2)} nats`;
  return `${token.text}: probability ${percent(Math.exp(token.log_prob))}${entropy}`;
}

/** The colours and what they mean, as a list.
 * @returns {HTMLUListElement} */
export function legend() {
  const list = document.createElement("ul");
  list.className = "legend";
  const names = ["probability", "<1 %", "1", "3", "10", "30", "60", "≥90 %"];
  names.forEach((name, i) => {
    const item = document.createElement("li");
    item.textContent = name;
    if (i > 0) item.className = `p${i - 1}`;
    list.append(item);
  });
  return list;
}

/** A clock over the steps of a recording that may still grow. */
export class Timeline {
  /** @param {(step: number, playing: boolean) => void} show called whenever either changes */
  constructor(show) {
    this.show = show;
    this.length = 0;
    this.at = 0;
    this.speed = 8; // steps per second
    this.growing = false; // more steps are to come
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.playing = false;
  }

  play() {
    if (this.at >= this.length && !this.growing) this.at = 0;
    this.playing = true;
    this.show(this.at, true);
    this.#next();
  }

  pause() {
    clearTimeout(this.timer);
    this.playing = false;
    this.show(this.at, false);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /** @param {number} step */
  seek(step) {
    this.at = Math.max(0, Math.min(this.length, step));
    this.show(this.at, this.playing);
  }

  /** Say that there are steps up to `length`, and whether more will come.
   * @param {number} length @param {boolean} growing */
  grow(length, growing) {
    this.length = length;
    this.growing = growing;
    if (this.playing && !growing && this.at >= length) this.pause();
    else this.show(this.at, this.playing);
  }

  #next() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (!this.playing) return;
      if (this.at < this.length) this.seek(this.at + 1);
      if (this.at >= this.length && !this.growing) this.pause();
      else this.#next();
    }, 1000 / this.speed);
  }
}

/** The player of an exported page: the text as prose, where every word comes into its final place.
 * @param {HTMLElement} root @param {Recording} recording */
export function mount(root, recording) {
  /** @type {<K extends keyof HTMLElementTagNameMap>(tag: K, name?: string, text?: string) => HTMLElementTagNameMap[K]} */
  const make = (tag, name = "", text = "") => Object.assign(document.createElement(tag), { className: name, textContent: text });
  const steps = recording.steps.length;
  const text = make("p", "text");
  const cells = places(recording, text, make);
  const said = make("p", "said");
  const button = make("button");
  const slider = Object.assign(make("input"), { type: "range", min: "0", max: String(steps), step: "1" });
  slider.setAttribute("aria-label", "step");
  const speed = make("select");
  speed.setAttribute("aria-label", "speed");
  for (const factor of [2, 4, 8, 16, 32]) speed.append(new Option(`${factor} steps/s`, String(factor), factor === 8, factor === 8));

  const timeline = new Timeline((step, playing) => {
    const { tokens, fresh } = stateAt(recording, step);
    cells.forEach((cell, i) => paint(cell, tokens[i], fresh.has(i)));
    button.textContent = playing ? "Pause" : "Play";
    slider.value = String(step);
    const drawn = [...fresh].map((i) => tokens[i]).filter((one) => one !== null);
    said.textContent = `step ${step} of ${steps}${drawn.length === 1 ? ` · ${described(drawn[0])}` : ""}`;
  });
  timeline.grow(steps, false);
  button.addEventListener("click", () => timeline.toggle());
  slider.addEventListener("input", () => {
    timeline.pause();
    timeline.seek(Number(slider.value));
  });
  speed.addEventListener("change", () => (timeline.speed = Number(speed.value)));
  const controls = make("div", "controls");
  controls.append(button, slider, speed);
  root.append(make("h1", "", recording.title), make("p", "note", recording.note), text, said, controls, legend());
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) timeline.seek(steps);
  else timeline.play();
}

/** One cell per position, as wide as the widest text it will ever hold.
 * @param {Recording} recording @param {HTMLElement} text
 * @param {(tag: "span", name?: string, text?: string) => HTMLSpanElement} make */
function places(recording, text, make) {
  const { tokens } = stateAt(recording, recording.steps.length);
  /** @type {Set<string>[]} */
  const ghosts = tokens.map(() => new Set());
  for (const one of [...recording.given, ...recording.steps.flat()]) ghosts[one.position].add(one.text ?? "");
  let unit = make("span", "unit"); // what is written together, without spaces: no line breaks inside it
  return tokens.map((_, i) => {
    const broken = recording.breaks.includes(i);
    if (i === 0 || broken || spaced(tokens, i)) {
      if (i > 0) text.append(broken ? document.createElement("br") : " ");
      unit = make("span", "unit");
      text.append(unit);
    }
    const cell = make("span", "token");
    cell.append(...[...ghosts[i]].map((ghost) => make("span", "ghost", ghost)), make("span", "shown"), make("span", "bar"));
    cell.querySelectorAll(".ghost, .bar").forEach((one) => one.setAttribute("aria-hidden", "true"));
    unit.append(cell);
    return cell;
  });
}

/** @param {HTMLElement} cell @param {Drawn | null} token @param {boolean} fresh */
function paint(cell, token, fresh) {
  const shown = /** @type {HTMLElement} */ (cell.querySelector(".shown"));
  const bar = /** @type {HTMLElement} */ (cell.querySelector(".bar"));
  shown.textContent = token?.text ?? "";
  const kind = token === null ? "blank" : token.log_prob === null ? "given" : shade(token.log_prob);
  cell.className = `token ${kind}${fresh ? " fresh" : ""}`;
  cell.title = token === null ? "not yet decided" : described(token);
  bar.style.width = token === null || token.log_prob === null ? "0" : `${100 * Math.exp(token.log_prob)}%`;
}
