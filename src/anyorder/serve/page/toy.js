// What the toys of Learn share: a slider with its value, and a clock that rests while nobody looks.

import { el, field } from "./dom.js";

/** @param {string} label @param {{min: number, max: number, step: number, value: number, text?: (value: number) => string}} range
 * @param {(value: number) => void} changed */
export function slider(label, range, changed) {
  const said = range.text ?? String;
  const output = el("output", {}, said(range.value));
  const input = el("input", {
    type: "range", min: range.min, max: range.max, step: range.step, value: range.value,
    oninput: () => {
      output.value = said(Number(input.value));
      input.setAttribute("aria-valuetext", output.value);
      changed(Number(input.value));
    },
  });
  input.setAttribute("aria-valuetext", said(range.value));
  return { element: field(label, input, output), input };
}

/** Call `tick` so many times per second while the element is on the screen and the button says so.
 * @param {HTMLElement} seen @param {() => void} tick @param {number} rate */
export function clock(seen, tick, rate) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let wanted = !still;
  let visible = false;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let timer;
  const button = el("button", { type: "button", onclick: () => {
    wanted = !wanted;
    set();
  } });
  const once = el("button", { type: "button", onclick: tick }, "One step");
  function set() {
    clearInterval(timer);
    if (wanted && visible) timer = setInterval(tick, 1000 / rate);
    button.textContent = wanted ? "Pause" : "Play";
    once.disabled = wanted;
  }
  new IntersectionObserver((entries) => {
    visible = entries.at(-1)?.isIntersecting ?? false;
    set();
  }).observe(seen);
  set();
  return [button, once];
}

/** @param {string} title @param {string} paper @param {string} text @param {...Node} parts */
export function toyCard(title, paper, text, ...parts) {
  return el("section", { className: "card toy" }, el("h2", {}, title), el("p", {}, text), ...parts, el("p", { className: "hint" }, paper));
}
