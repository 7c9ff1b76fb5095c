// Joint: two blanks as a heat map, by method, and where it differs most from treating them as independent.

import { ask } from "./api.js";
import { el, field, fill, later } from "./dom.js";
import { heatMap, plain } from "./heatmap.js";
import { remember } from "./links.js";
import { Notice } from "./notice.js";
import { copyButton, examples, intro } from "./parts.js";
import { percent } from "./player.js";

const EXAMPLES = ["He was born in ___ ___ .", "The ___ barked at the ___ .", "She drank a ___ of ___ ."];
/** @type {Record<string, string>} */
const METHODS = { ag: "Arnold–Gokhale", mlm: "product", mrf: "MRF", "mrf-logit": "MRF, logits", hcb: "HCB" };
/** @type {Record<string, string>} */
const MEANING = {
  ag: "The joint whose conditionals come closest to the model's (eq 5 of Torroba Hennigen & Kim 2023).",
  mlm: "Each blank as if the other were unknown, multiplied: what fill-mask amounts to.",
  mrf: "The product of the conditionals, renormalised.",
  "mrf-logit": "The sum of the logits, renormalised.",
  hcb: "Exact if the conditionals agree with each other; built from one pivot pair.",
};

/** @param {HTMLElement} panel @returns {import("./app.js").View} */
export function jointView(panel) {
  const results = el("div", { className: "results heat-and-list" });
  const notice = new Notice(results);
  const text = el("input", { id: "joint-text", maxLength: 2000, spellcheck: false });
  let method = "ag";
  let difference = false;
  let all = false;
  /** @type {any} */
  let answer;
  const settings = () => ({ text: text.value, method: method === "ag" ? "" : method, show: difference ? "difference" : "", all: all ? "1" : "" });
  const more = el("button", { type: "button", onclick: () => { all = true; run(); } }, "All five methods");

  function run() {
    remember("joint", settings());
    const doing = all ? "Working out five joints over the whole vocabulary: this takes some seconds …" : "Working out the joint …";
    const said = { text: text.value, method: all ? "all" : "ag", ...(all ? {} : { tail: 0.01 }), cells: window.innerWidth < 640 ? 8 : 10 };
    notice.replace(doing, (signal) => ask("joint", said, signal), (got) => { answer = got; draw(); }, run);
  }

  function draw() {
    remember("joint", settings());
    const { heat } = answer;
    if (!heat.tables[method]) method = "ag";
    const said = el("p", { className: "hint", "aria-live": "polite" }, "Per cent. Point at a cell, or move with the arrows.");
    more.hidden = Object.keys(heat.tables).length > 2;
    fill(results,
      el("section", { className: "card wide-card" },
        el("div", { className: "spread" }, methods(Object.keys(heat.tables)), more),
        el("p", { className: "hint" }, MEANING[method]),
        el("div", { className: "row" }, toggle()),
        el("div", { className: "heat-scroll", tabIndex: -1 }, heatMap(heat, method, difference && method !== "mlm", (told) => (said.textContent = told))),
        said, el("p", { className: "hint" }, `The table shows ${percent(heat.tables[method].shown)} of all the probability; the edges are each blank's own.`)),
      el("section", { className: "card" }, el("h2", {}, "Where joint and product differ most"), differences(heat)));
  }

  /** @param {string[]} there */
  function methods(there) {
    return el("fieldset", { className: "segments" }, el("legend", { className: "label" }, "Method"),
      ...Object.keys(METHODS).filter((name) => there.includes(name)).map((name) => el("label", {}, el("input", {
        type: "radio", name: "joint-method", value: name, checked: name === method,
        onchange: () => { method = name; draw(); /** @type {HTMLElement | null} */ (results.querySelector(`input[value="${name}"]`))?.focus(); },
      }), METHODS[name])));
  }

  function toggle() {
    const box = el("input", { type: "checkbox", checked: difference, disabled: method === "mlm", onchange: () => {
      difference = box.checked;
      draw();
      /** @type {HTMLElement | null} */ (results.querySelector("input[type=checkbox]"))?.focus();
    } });
    return el("label", { className: "row" }, box, "Show the difference from the product (blue: more, orange: less)");
  }

  /** @param {import("./heatmap.js").Heat} heat */
  function differences(heat) {
    const shown = method === "mlm" ? "ag" : method;
    const [joint, product] = [heat.tables[shown].prob, heat.tables.mlm.prob];
    const pairs = heat.a.flatMap((a, i) => heat.b.map((b, j) => ({ a, b, p: joint[i][j], q: product[i][j] })));
    pairs.sort((one, other) => Math.abs(other.p - other.q) - Math.abs(one.p - one.q));
    return el("table", { className: "differ" },
      el("thead", {}, el("tr", {}, ...["pair", "joint", "product", "ratio"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...pairs.slice(0, 10).map(({ a, b, p, q }) => el("tr", {}, el("td", {}, `${plain(a)} … ${plain(b)}`), el("td", {}, percent(p)), el("td", {}, percent(q)), el("td", {}, ratio(p / q))))));
  }

  const soon = later(() => { all = false; run(); }, 600);
  text.addEventListener("input", soon);
  fill(panel,
    intro("Two blanks, one distribution", "How likely is every pair of words? Treated as independent, pairs come up that nobody says; the joint knows which words go together."),
    el("div", { className: "card" }, field("A sentence with two blanks", text), el("div", { className: "row" }, examples(EXAMPLES, start), copyButton("joint", settings))),
    notice.element, results);

  /** @param {string} value */
  function start(value) {
    text.value = value;
    all = false;
    run();
  }
  return {
    open(given) {
      if (given.text === undefined && text.value) return remember("joint", settings());
      if (given.text !== undefined && given.text === text.value && answer) return;
      text.value = given.text ?? EXAMPLES[0];
      method = given.method && given.method in METHODS ? given.method : "ag";
      difference = given.show === "difference";
      all = given.all === "1";
      run();
    },
  };
}

const LARGE = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 2 }); // 33K, 2M

/** @param {number} value */
function ratio(value) {
  if (!Number.isFinite(value)) return "∞";
  if (value >= 999.5) return `×\u00a0${LARGE.format(value)}`;
  return `×\u00a0${value >= 9.95 ? value.toFixed(0) : value >= 0.095 ? value.toFixed(1) : value.toPrecision(1)}`;
}
