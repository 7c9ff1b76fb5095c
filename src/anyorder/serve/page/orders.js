// Any order, one probability: the chain rule along every order of three words, exactly and with a faulty model.

import { randomness } from "./random.js";

export const WORDS = [["the", "a"], ["big", "old"], ["dog", "ship"]];
/** p(x) of the eight sentences; bit i of the number is word i. */
export const JOINT = [0.24, 0.03, 0.09, 0.16, 0.05, 0.12, 0.21, 0.1];
export const ORDERS = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/** log q(x_i | the words in `known`), the truth with an error of its own for every question.
 * @param {number} x @param {number} i @param {number[]} known @param {number} error */
export function logConditional(x, i, known, error) {
  const fits = (/** @type {number} */ y) => known.every((k) => ((y >> k) & 1) === ((x >> k) & 1));
  let mass = [0, 0];
  JOINT.forEach((p, y) => {
    if (fits(y)) mass[(y >> i) & 1] += p;
  });
  // The error belongs to the question (which words are seen, and what they are), as a model's does.
  const seen = known.reduce((mask, k) => mask | (1 << k), 0);
  const noise = randomness(1000 * i + 100 * seen + (x & seen))() - 0.5;
  const logit = Math.log(mass[1] / mass[0]) + 4 * error * noise;
  return -Math.log1p(Math.exp(((x >> i) & 1) === 1 ? -logit : logit));
}

/** log q of a sentence, word by word in an order. @param {number} x @param {number[]} order @param {number} error */
export function along(x, order, error) {
  return order.reduce((sum, i, t) => sum + logConditional(x, i, order.slice(0, t), error), 0);
}
