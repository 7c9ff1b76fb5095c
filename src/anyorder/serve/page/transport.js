// Play, pause, step, scrub and speed.

import { el, select } from "./dom.js";
import { Timeline } from "./player.js";

/** @type {[string, string][]} */
const SPEEDS = [["2", "2 steps/s"], ["5", "5 steps/s"], ["10", "10 steps/s"], ["25", "25 steps/s"], ["60", "60 steps/s"]];

/** @param {(step: number) => void} show
 * @returns {{element: HTMLElement, timeline: Timeline, faster: HTMLSelectElement}} */
export function transport(show) {
  const play = el("button", { type: "button", className: "play primary", disabled: true }, "Play");
  const back = el("button", { type: "button", className: "icon", "aria-label": "One step back", disabled: true }, "◂");
  const on = el("button", { type: "button", className: "icon", "aria-label": "One step on", disabled: true }, "▸");
  const scrub = el("input", { type: "range", className: "scrub", min: 0, max: 0, value: 0, "aria-label": "Step", disabled: true });
  const count = el("output", { className: "count" }, "step 0 of 0");
  const faster = select(SPEEDS, "10", { "aria-label": "Speed" });
  const timeline = new Timeline((step, playing) => {
    const length = timeline.length;
    play.textContent = playing ? "Pause" : step >= length && length > 0 ? "Replay" : "Play";
    scrub.max = String(length);
    scrub.value = String(step);
    count.value = `step ${step} of ${length}${timeline.growing ? " …" : ""}`;
    for (const control of [play, scrub]) control.disabled = length === 0 && !timeline.growing;
    back.disabled = step === 0;
    on.disabled = step >= length;
    show(step);
  });
  timeline.speed = Number(faster.value);
  play.addEventListener("click", () => timeline.toggle());
  back.addEventListener("click", () => step(-1));
  on.addEventListener("click", () => step(1));
  scrub.addEventListener("input", () => {
    const to = Number(scrub.value); // pausing draws the old step again, and with it the slider
    timeline.pause();
    timeline.seek(to);
  });
  faster.addEventListener("change", () => (timeline.speed = Number(faster.value)));

  /** @param {number} by */
  function step(by) {
    timeline.pause();
    timeline.seek(timeline.at + by);
  }
  return { element: el("div", { className: "transport", role: "group", "aria-label": "Playing" }, play, back, on, scrub, count, faster), timeline, faster };
}
