// Learn: why independent filling stutters.

import { chart } from "./chart.js";
import { el, fill } from "./dom.js";
import { percent } from "./player.js";
import { randomness } from "./random.js";
import { decode, stutters, truth } from "./shift.js";
import { clock, slider, toyCard } from "./toy.js";

const WORDS = ["Once", "the", "old", "dog", "ran", "to", "a", "big", "tree"];
const N = 8;
const STEPS = [1, 2, 4, 8];
const ROWS = 40; // texts counted per tick

export function stutterToy() {
  let coupling = 5;
  let steps = 1;
  let random = randomness(7);
  /** @type {Map<number, {pairs: number, equal: number}>} */
  let counts = new Map();
  let states = decode(N, steps, coupling, random);
  let at = 0;
  const row = el("div", { className: "toy-words", role: "img" });
  const said = el("p", { className: "hint" });
  const plot = el("figure");

  function reset() {
    random = randomness(7);
    counts = new Map(STEPS.map((one) => [one, { pairs: 0, equal: 0 }]));
    for (let i = 0; i < 12; i++) count();
    states = decode(N, steps, coupling, random);
    at = 0;
    draw();
  }

  function count() {
    for (const [one, found] of counts) {
      if (found.pairs > 200000) continue;
      for (let i = 0; i < ROWS; i++) {
        found.equal += stutters(/** @type {{row: number[]}} */ (decode(N, one, coupling, random).at(-1)).row).length;
        found.pairs += N - 1;
      }
    }
  }

  function draw() {
    const { row: words, fresh } = states[Math.min(at, states.length - 1)];
    const bad = new Set(stutters(words).flatMap((i) => [i - 1, i]));
    const cells = words.map((word, i) => el("span", { className: word === null ? "none" : bad.has(i) ? "stutter" : fresh.includes(i) ? "fresh" : "" }, word === null ? "" : WORDS[word]));
    fill(row, ...cells);
    row.setAttribute("aria-label", words.map((word) => (word === null ? "blank" : WORDS[word])).join(" "));
    const rate = (/** @type {number} */ one) => (counts.get(one)?.equal ?? 0) / Math.max(1, counts.get(one)?.pairs ?? 0);
    const real = truth(N, coupling);
    said.textContent = `Filling in ${steps} ${steps === 1 ? "step" : "steps"}: ${percent(rate(steps))} of neighbours are the same word; in the true distribution ${percent(real)}.`;
    fill(plot, chart([{ kind: "a", marks: true, points: STEPS.map((one) => [one, rate(one)]) }, { kind: "b", points: [[1, real], [8, real]] }],
      { x: [1, 8], y: [0, 0.3], xs: STEPS, ys: [0, 0.1, 0.2, 0.3], xName: "steps for 8 words", yName: "stutter", logX: true, yText: (v) => `${Math.round(100 * v)} %`,
        label: `Stutter by number of steps: ${STEPS.map((one) => `${one}: ${percent(rate(one))}`).join(", ")}; truth ${percent(real)}` }),
    el("figcaption", {}, "Share of neighbours that are the same word, counted as you watch. Dashed: the truth."));
  }

  function tick() {
    count();
    at++;
    if (at > states.length + 3) {
      states = decode(N, steps, coupling, random);
      at = 0;
    }
    draw();
  }
  const strength = slider("How strongly the words belong together", { min: 0, max: 8, step: 0.5, value: coupling }, (value) => {
    coupling = value;
    reset();
  });
  const many = slider("Steps for eight words", { min: 0, max: 3, step: 1, value: 0, text: (v) => String(STEPS[v]) }, (value) => {
    steps = STEPS[value];
    reset();
  });
  const card = toyCard("Why filling blanks independently stutters",
    "Li et al. 2024, remark 1: the world “shift” of “anyorder lab parallel”. The conditionals here are exact; only the independence is at fault.",
    "There are two ways to say this: “Once the old dog ran …”, or the same without its first word, “the old dog ran to …”. Words drawn in one step cannot know which way the others chose, so a word comes twice.",
    el("div", { className: "sliders" }, strength.element, many.element), row, said, plot);
  card.insertBefore(el("div", { className: "row" }, ...clock(card, tick, 3)), plot);
  reset();
  return card;
}
