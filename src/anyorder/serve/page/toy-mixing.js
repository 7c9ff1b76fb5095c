// Learn: why strong dependence mixes slowly.

import { chart } from "./chart.js";
import { el, fill } from "./dom.js";
import { bits, forgetting, law, move } from "./ising.js";
import { percent } from "./player.js";
import { randomness } from "./random.js";
import { clock, slider, toyCard } from "./toy.js";

const N = 6;
const STEPS = 120;
const COLUMNS = 150; // of the strip: steps on show

export function mixingToy() {
  let coupling = 0.3;
  let block = 1;
  let random = randomness(3);
  let p = law(N, coupling);
  let x = 0;
  /** @type {number[]} */
  let past = [];
  const strip = el("canvas", { width: COLUMNS * 4, height: N * 14, role: "img" });
  const said = el("p", { className: "hint" });
  const plot = el("figure");

  function reset() {
    random = randomness(3);
    p = law(N, coupling);
    x = 0;
    past = [0];
    const curve = forgetting(N, coupling, block, STEPS);
    const single = forgetting(N, coupling, 1, STEPS);
    const mixed = curve.findIndex((d) => d <= 0.25);
    const line = (/** @type {number[]} */ values) => /** @type {[number, number][]} */ (values.map((d, t) => [t, d]));
    fill(plot, chart([{ kind: "b", points: line(single) }, { kind: "a", points: line(curve) }],
      { x: [0, STEPS], y: [0, 1], xs: [0, 30, 60, 90, 120], ys: [0, 0.25, 0.5, 1], xName: "steps", yName: "distance",
        label: `Distance from the true distribution by step; ${mixed < 0 ? `above a quarter even after ${STEPS} steps` : `a quarter after ${mixed} steps`}` }),
    el("figcaption", {}, `How far the chain still is from the truth (total variation, exact), from “all tea”. Dashed: one friend at a time. ${mixed < 0 ? `After ${STEPS} steps it still remembers where it began.` : `Mixed (¼) after ${mixed} ${mixed === 1 ? "step" : "steps"}.`}`));
    draw();
  }

  function draw() {
    const pen = strip.getContext("2d");
    if (!pen) return;
    const style = getComputedStyle(document.documentElement);
    const colours = [style.getPropertyValue("--p6"), style.getPropertyValue("--p0")];
    pen.clearRect(0, 0, strip.width, strip.height);
    past.slice(-COLUMNS).forEach((state, t) => {
      for (let i = 0; i < N; i++) {
        pen.fillStyle = colours[(state >> i) & 1];
        pen.fillRect(4 * t, 14 * i, 4, 13);
      }
    });
    const coffee = past.reduce((sum, state) => sum + bits(state), 0) / (N * past.length);
    said.textContent = `After ${past.length - 1} steps, ${percent(coffee)} of all orders were coffee; the truth is 50\u00a0%.`;
    strip.setAttribute("aria-label", `The last ${Math.min(COLUMNS, past.length)} states of six friends, blue for tea and orange for coffee. ${said.textContent}`);
  }

  function tick() {
    x = move(x, N, block, p, random);
    past.push(x);
    draw();
  }
  const strength = slider("How strongly the friends agree", { min: 0, max: 0.6, step: 0.02, value: coupling, text: (v) => v.toFixed(2) }, (value) => {
    coupling = value;
    reset();
  });
  const size = slider("Friends asked together", { min: 1, max: N, step: 1, value: block }, (value) => {
    block = value;
    reset();
  });
  const card = toyCard("Why strong dependence mixes slowly",
    "Li et al. 2024, theorems 1 and 2: the Ising clique of “anyorder lab mixing”, with blocks drawn jointly. The curve is computed exactly here in your browser.",
    "Six friends order tea (blue) or coffee (orange), and like to order the same. Gibbs sampling asks one of them at a time: if they agree strongly, nobody dares to change first, and the chain stays for ages where it began. Ask several together and it comes free.",
    el("div", { className: "sliders" }, strength.element, size.element), el("figure", {}, strip), said, plot);
  card.insertBefore(el("div", { className: "row" }, ...clock(card, tick, 15)), plot);
  reset();
  return card;
}
