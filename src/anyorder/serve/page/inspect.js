// One token looked at: how likely it was, and what else could stand there.

import { ask } from "./api.js";
import { barList } from "./bars.js";
import { el, fill } from "./dom.js";
import { Latest } from "./notice.js";
import { percent } from "./player.js";

/** @typedef {{id: number, token: string, prob: number}} Alternative */

/** @param {(board: import("./board.js").Board, i: number, other: Alternative) => void} put what to do with a chosen alternative */
export function inspector(put) {
  const body = el("div", { className: "results blank-bars" });
  const element = el("aside", { className: "card inspect", "aria-label": "The chosen token", "aria-live": "polite" }, el("h2", {}, "Look closer"), body);
  const latest = new Latest();
  empty();

  function empty() {
    fill(body, el("p", { className: "hint" }, "Choose a token to see how likely it was, what else could stand there, and how open the model was (entropy)."));
  }

  /** @param {import("./board.js").Board} board @param {number} i */
  async function look(board, i) {
    const { take, step } = board;
    if (!take) return;
    const token = board.token(i);
    const facts = token === null
      ? [el("p", { className: "name" }, `Position ${i + 1}: not yet decided`)]
      : [el("p", {}, el("strong", {}, token.text), el("span", { className: "hint" }, token.log_prob === null ? " was given." : " when it was drawn:")),
        token.log_prob !== null && numbers([["probability", percent(Math.exp(token.log_prob))], ...(token.entropy === null ? [] : [["entropy", `${token.entropy.toFixed(2)} nats`]])])];
    fill(body, ...facts, el("p", { className: "hint" }, "Asking the model …"));
    try {
      const answer = await latest.run((signal) => ask("tokens", { ids: take.ids[step], position: take.places[i], top: 8 }, signal));
      if (answer === undefined) return;
      fill(body, ...facts,
        el("h3", {}, "Now, given all others"),
        numbers([["entropy", `${answer.entropy.toFixed(2)} nats`], ...(answer.held ? [["this token", percent(Math.exp(answer.held.log_prob))]] : [])]),
        barList(answer.alternatives.map((/** @type {Alternative} */ other) => ({ label: other.token, p: other.prob, action: take.finished ? () => put(board, i, other) : undefined })), "Alternatives"),
        take.finished && el("p", { className: "hint" }, "Choosing one puts it there and pins it."));
    } catch (error) {
      fill(body, ...facts, el("p", { className: "notice bad" }, String(/** @type {Error} */ (error).message)));
    }
  }
  return { element, look, empty };
}

/** @param {string[][]} pairs */
export function numbers(pairs) {
  return el("dl", { className: "numbers" }, ...pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
