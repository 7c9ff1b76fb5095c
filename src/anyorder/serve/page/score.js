// Score: how probable sentences are, which words surprise, and what a pseudo-likelihood says instead.

import { ask } from "./api.js";
import { el, field, fill, later } from "./dom.js";
import { numbers } from "./inspect.js";
import { remember } from "./links.js";
import { Notice } from "./notice.js";
import { copyButton, examples, intro } from "./parts.js";
import { percent } from "./player.js";

const EXAMPLES = ["The cat sat on the mat.\nThe mat sat on the cat.", "The keys to the cabinet are on the table.\nThe keys to the cabinet is on the table.", "He moved to San Francisco.\nHe moved to San York."];
const MOST = 8; // sentences at once

/** @typedef {{text: string, log_prob: number, tokens: number, per_token: {token: string, log_prob: number}[]}} Score */

/** @param {HTMLElement} panel @returns {import("./app.js").View} */
export function scoreView(panel) {
  const results = el("div", { className: "results stages" });
  const notice = new Notice(results);
  const text = el("textarea", { id: "score-text", rows: 3, spellcheck: false, maxLength: 4000 });
  let by = "chain";
  /** @type {{chain: Score[], pll: Score[]} | undefined} */
  let found;
  const settings = () => ({ text: text.value, by: by === "chain" ? "" : by });

  function run() {
    remember("score", settings());
    const texts = text.value.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, MOST);
    if (texts.length === 0) return notice.empty("Write a sentence per line.");
    // Both in full: read in order, the chain would be another model's than the pseudo-likelihood beside it.
    const said = { texts, reading: "full", per_token: true };
    const work = (/** @type {AbortSignal} */ signal) => Promise.all(["chain", "pll"].map((method) => ask("score", { ...said, method }, signal)));
    notice.replace("Scoring …", work, ([chain, pll]) => { found = { chain: chain.results, pll: pll.results }; draw(); }, run);
  }

  function draw() {
    if (!found) return;
    remember("score", settings());
    const { chain, pll } = found;
    const shown = by === "chain" ? chain : pll;
    fill(results,
      el("section", { className: "card" },
        el("div", { className: "spread" },
          el("fieldset", { className: "segments" }, el("legend", { className: "label" }, "Colour words by"),
            ...[["chain", "surprisal, given the words before"], ["pll", "surprisal, given all other words"]].map(([value, name]) => el("label", {}, el("input", {
              type: "radio", name: "score-by", value, checked: value === by, onchange: () => { by = value; draw(); /** @type {HTMLElement | null} */ (results.querySelector(`input[value="${value}"]`))?.focus(); },
            }), name))),
          scale()),
        ...shown.map((one, i) => el("div", { className: "blank-bars" }, coloured(one),
          numbers([["ln p(text), a probability", chain[i].log_prob.toFixed(2)], ["pseudo-log-likelihood", pll[i].log_prob.toFixed(2)], ["tokens", String(one.tokens)], ["perplexity", perplexity(chain[i])]])))),
      compared(chain, pll));
  }

  const soon = later(run, 600);
  text.addEventListener("input", soon);
  fill(panel,
    intro("How probable is a sentence?", "Read word by word, a masked model gives every sentence a real probability. Words coloured orange surprised it."),
    el("div", { className: "card" }, field("Sentences to compare, one per line", text), el("div", { className: "row" }, examples(EXAMPLES, start), copyButton("score", settings))),
    notice.element, results);

  /** @param {string} value */
  function start(value) {
    text.value = value;
    run();
  }
  return {
    open(given) {
      if (given.text === undefined && text.value) return remember("score", settings());
      if (given.text === text.value && found) return;
      by = given.by === "pll" ? "pll" : "chain";
      start(given.text ?? EXAMPLES[0]);
    },
  };
}

/** @param {Score} score */
function perplexity(score) {
  const value = Math.exp(-score.log_prob / Math.max(1, score.tokens));
  return value < 100 ? value.toPrecision(3) : Math.round(value).toLocaleString("en");
}

/** The class of a surprisal, in steps of about an order of magnitude. @param {number} logProb */
const surprise = (logProb) => `s${[2, 5, 8].filter((edge) => -logProb >= edge).length}`;

function scale() {
  return el("ul", { className: "legend", "aria-label": "Surprisal in nats" }, el("li", {}, "surprisal"), ...["<2", "2", "5", "≥8 nats"].map((name, i) => el("li", { className: `s${i}` }, name)));
}

/** @param {Score} score */
function coloured(score) {
  return el("p", { className: "scored" }, ...score.per_token.map(({ token, log_prob }, i) => {
    const continues = token.startsWith("##") || (/^[.,;:!?%)\]}'’]/.test(token) && !/^[ĠƟ▁]/.test(token));
    const told = `surprisal ${(-log_prob).toFixed(2)} nats, probability ${percent(Math.exp(log_prob))}`;
    return el("span", { className: `${surprise(log_prob)}${continues || i === 0 ? "" : " apart"}`, title: told, "aria-label": `${token}: ${told}`, tabIndex: 0, role: "note" }, token.replace(/^(##|Ġ|▁)/, ""));
  }));
}

/** Which sentence is likelier, by both measures. @param {Score[]} chain @param {Score[]} pll */
function compared(chain, pll) {
  if (chain.length < 2) return null;
  const best = (/** @type {Score[]} */ scores) => scores.reduce((top, one, i) => (one.log_prob > scores[top].log_prob ? i : top), 0);
  const [real, pseudo] = [best(chain), best(pll)];
  const worst = chain.reduce((low, one, i) => (one.log_prob < chain[low].log_prob ? i : low), 0);
  const factor = Math.exp(chain[real].log_prob - chain[worst].log_prob);
  return el("section", { className: "card" }, el("h2", {}, "Compared"),
    el("table", { className: "differ" },
      el("thead", {}, el("tr", {}, ...["sentence", "ln p, less the best", "pseudo, less the best"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...chain.map((one, i) => el("tr", {}, el("td", {}, one.text), el("td", {}, (one.log_prob - chain[real].log_prob).toFixed(2)), el("td", {}, (pll[i].log_prob - pll[pseudo].log_prob).toFixed(2)))))),
    el("p", { className: "verdict" }, "By its probability the model prefers ", el("q", {}, chain[real].text), `: ${factor < 1e6 ? `${factor < 10 ? factor.toFixed(1) : Math.round(factor).toLocaleString("en")} times` : `e^${Math.log(factor).toFixed(0)} times`} as likely as the least likely. `,
      real === pseudo ? "The pseudo-likelihood agrees on the best." : "The pseudo-likelihood prefers another one."),
    el("p", { className: "hint" }, "A pseudo-log-likelihood adds up each word's score given all other words, also those after it. It counts what words tell about each other twice, so over all sentences it does not sum to one: it ranks, but it is no probability."));
}
