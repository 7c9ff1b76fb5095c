// Learn: any order, one probability, if the model is one distribution.

import { barList } from "./bars.js";
import { el, field, fill, select } from "./dom.js";
import { along, JOINT, ORDERS, WORDS } from "./orders.js";
import { percent } from "./player.js";
import { slider, toyCard } from "./toy.js";

/** @param {number} x */
const spelt = (x) => WORDS.map((pair, i) => pair[(x >> i) & 1]);

export function ordersToy() {
  let error = 0;
  const sentence = select(JOINT.map((_, x) => [String(x), spelt(x).join(" ")]), "0", { onchange: draw });
  const list = el("div");
  const said = el("p", { className: "hint" });

  function draw() {
    const x = Number(sentence.value);
    const values = ORDERS.map((order) => Math.exp(along(x, order, error)));
    fill(list, barList(ORDERS.map((order, k) => ({ label: order.map((i) => spelt(x)[i]).join(" → "), p: values[k] })), "Probability along each order", 0.35));
    const ratio = Math.max(...values) / Math.min(...values);
    said.textContent = error === 0
      ? `All six orders give ${percent(values[0])}: the conditionals come from one distribution.`
      : `The orders disagree by a factor of ${ratio.toFixed(2)}: no single distribution has these conditionals.`;
  }
  const fault = slider("How faulty the model is", { min: 0, max: 1, step: 0.05, value: 0, text: (v) => v.toFixed(2) }, (value) => {
    error = value;
    draw();
  });
  draw();
  return toyCard("Why any order will do, and when it does not",
    "Liao et al. 2020: a model trained at every masking rate is an any-order language model. Torroba Hennigen & Kim 2023: what to do when its conditionals disagree; see the tab Joint.",
    "The probability of a sentence is a product of conditionals, word by word, in any order you like. A model that learnt every conditional well gives the same product for all orders; one with errors does not.",
    el("div", { className: "sliders" }, field("Sentence", sentence), fault.element), list, said);
}
