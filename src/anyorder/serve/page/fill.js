// Fill: each blank alone beside all blanks jointly.

import { ask } from "./api.js";
import { barList } from "./bars.js";
import { el, field, fill, later, select } from "./dom.js";
import { copyButton, examples, intro } from "./parts.js";
import { remember } from "./links.js";
import { Notice } from "./notice.js";
import { percent } from "./player.js";
import { cut, Words } from "./words.js";

const FIRST = "The ___ of the ___ was very cold.";
const EXAMPLES = [FIRST, "He ___ the door and ___ into the room.", "She lived in the ___{1-3} of London.", "They came from the United ___ of ___."];
/** @type {[string, string][]} */
const LENGTHS = [["___", "one token each"], ["___{2}", "two tokens"], ["___{1-3}", "1 to 3 tokens"], ["___{1-5}", "1 to 5 tokens"]];

/** @typedef {{text: string, log_prob: number, fills: string[], length_log_prob?: number}} Completion
 * @typedef {{text: string, blanks: {token: string, prob: number}[][], lengths?: {lengths: number[], prob: number}[]}} Alone
 * @typedef {{completions: Completion[], alone: Alone}} Result */

/** @param {HTMLElement} panel @returns {import("./app.js").View} */
export function fillView(panel) {
  const results = el("div", { className: "results columns" });
  const notice = new Notice(results);
  const text = el("textarea", { id: "fill-text", rows: 2, spellcheck: false, maxLength: 4000 });
  const length = select(LENGTHS, "___");
  const words = new Words(() => length.value, (now) => {
    text.value = now;
    run();
  });
  const settings = () => ({ text: text.value });

  function run() {
    remember("fill", settings());
    if (!/_{3,}|\[MASK\]|<mask>/.test(text.value)) {
      return notice.empty(text.value.trim() ? "Click a word above to blank it." : "Write a sentence, then click a word to blank it.");
    }
    const asked = text.value;
    notice.replace("Filling …", (signal) => ask("fill", { texts: [asked], top: 8, alone: true }, signal),
      (answer) => fill(results, ...columns(answer.results[0], asked)), run);
  }

  const soon = later(run, 400);
  text.addEventListener("input", () => {
    words.set(text.value);
    soon();
  });

  fill(panel,
    intro("Fill the blanks, together",
      "A masked language model guesses each blank as if the others were unknown. Filled jointly, the words fit each other as well."),
    el("div", { className: "card" },
      field("Your sentence; ___ is a blank", text),
      el("div", { className: "spread" },
        el("div", { className: "grow" },
          el("span", { className: "label", id: "words-label" }, "Click a word to blank it, drag over several"), words.element),
        field("A new blank holds", length)),
      el("div", { className: "row" }, examples(EXAMPLES, (one) => start(one)), copyButton("fill", settings))),
    notice.element, results);

  /** @param {string} value */
  function start(value) {
    text.value = value;
    words.set(value);
    run();
  }
  return {
    open(given) {
      const wanted = given.text ?? (text.value || FIRST);
      if (wanted !== text.value || !results.hasChildNodes()) start(wanted);
      else remember("fill", settings());
    },
  };
}

/** @param {Result} result @param {string} asked */
function columns(result, asked) {
  return [
    el("section", { className: "card" }, el("h2", {}, "Each blank alone"),
      el("p", { className: "hint" }, "The likeliest words of every blank if nobody looks at the others."),
      ...result.alone.blanks.map((blank, i) => el("div", { className: "blank-bars" },
        el("h3", {}, `Blank ${i + 1}`), barList(blank.slice(0, 5).map((one) => ({ label: one.token, p: one.prob })), `Blank ${i + 1} alone`))),
      el("p", { className: "verdict" }, el("span", { className: "hint" }, "The best of each: "), el("q", {}, result.alone.text))),
    el("section", { className: "card" }, el("h2", {}, "All blanks jointly"),
      el("p", { className: "hint" }, "Whole sentences, ranked by the joint probability of their words."),
      barList(result.completions.map((one) => ({
        label: sentence(asked, one), p: Math.exp(one.log_prob), note: `ln ${one.log_prob.toFixed(2)}`,
      })), "Completions, best first"),
      lengths(result), verdict(result)),
  ];
}

/** The sentence with its fills marked. @param {string} asked @param {Completion} one */
function sentence(asked, one) {
  let number = 0;
  const parts = cut(asked).map((piece) => (/^_{3,}|^\[MASK\]$/.test(piece.text) ? el("mark", {}, one.fills[number++]) : piece.text));
  // The spaces around fills are the server's business where pieces of words are involved; then its text is shown.
  const plain = parts.map((part) => (typeof part === "string" ? part : part.textContent)).join("");
  return plain === one.text ? el("span", {}, ...parts) : el("span", {}, one.text);
}

/** @param {Result} result */
function lengths(result) {
  if (!result.alone.lengths) return null;
  const bars = result.alone.lengths.slice(0, 6).map((one) => ({ label: one.lengths.join(" + ") + (one.lengths.join() === "1" ? " token" : " tokens"), p: one.prob }));
  return el("div", { className: "blank-bars" }, el("h3", {}, "How long: p(length)"), barList(bars, "Probability of each length", 1));
}

/** Whether the best words alone are also the best together. @param {Result} result */
function verdict(result) {
  if (result.alone.blanks.length < 2 || result.completions.length === 0) return null;
  const place = result.completions.findIndex((one) => one.text === result.alone.text);
  if (place === 0) return el("p", { className: "verdict" }, "Here both agree on the best sentence.");
  const best = result.completions[0];
  return el("p", { className: "verdict" }, place > 0
    ? `The best words alone make only number ${place + 1} of the sentences: ${percent(Math.exp(result.completions[place].log_prob))} against ${percent(Math.exp(best.log_prob))}.`
    : "The best words alone are not even among these sentences.");
}
