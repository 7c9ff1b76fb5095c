// Probabilities as bars.

import { el, share } from "./dom.js";
import { percent } from "./player.js";

/** @typedef {{label: Node | string, p: number, note?: string, action?: () => void}} Bar */

/** A list of bars. The longest fills the width, unless `most` says what would.
 * @param {Bar[]} bars @param {string} label for a screen reader @param {number} [most] */
export function barList(bars, label, most) {
  const widest = most ?? Math.max(...bars.map((bar) => bar.p), 1e-12);
  return el("ol", { className: "bars", "aria-label": label }, ...bars.map((bar) => row(bar, widest)));
}

/** @param {Bar} bar @param {number} widest */
function row(bar, widest) {
  const track = el("span", { className: "track", "aria-hidden": "true" }, el("span", { className: "filled" }));
  share(track, "--share", bar.p / widest);
  const name = el("span", { className: "name" }, bar.label);
  const value = el("span", { className: "value" }, percent(bar.p));
  const note = bar.note !== undefined && el("span", { className: "note" }, bar.note);
  if (!bar.action) return el("li", {}, name, value, track, note);
  return el("li", {}, el("button", { type: "button", className: "bar-button", onclick: bar.action }, name, value, track, note));
}
