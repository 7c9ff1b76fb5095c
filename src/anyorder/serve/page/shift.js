// The stutter world of Li et al. 2024, exactly: two readings of a sentence that differ by a shift.
// "Once the dog was …" and "the dog was walking …": where one has its word i, the other has its word i - 1.
// p(x) ∝ Σ_m exp(coupling · #{i : x_i = mode_m,i}), as in src/anyorder/chains/worlds.py.

import { draw, shuffled } from "./random.js";

/** Word number of reading `m` (0 or 1) at position `i`. @param {number} m @param {number} i */
export const mode = (m, i) => (m === 0 ? i + 1 : i);

/** p(m | what is observed). @param {(number | null)[]} row @param {number} coupling @returns {[number, number]} */
export function readings(row, coupling) {
  const agree = [0, 1].map((m) => row.filter((word, i) => word === mode(m, i)).length);
  const odds = Math.exp(coupling * (agree[1] - agree[0]));
  return [1 / (1 + odds), odds / (1 + odds)];
}

/** p(x_i | observed) over the n + 1 words. @param {(number | null)[]} row @param {number} i @param {number} coupling */
export function conditional(row, i, coupling) {
  const weight = readings(row, coupling);
  const hit = Math.exp(coupling) / (Math.exp(coupling) + row.length); // of n + 1 words, n are misses
  const miss = (1 - hit) / row.length;
  return Array.from({ length: row.length + 1 }, (_, word) =>
    weight[0] * (word === mode(0, i) ? hit : miss) + weight[1] * (word === mode(1, i) ? hit : miss));
}

/** Fill n blanks in so many steps of random positions, each drawn as if the others of its step were unknown.
 * @param {number} n @param {number} steps @param {number} coupling @param {() => number} random
 * @returns {{row: (number | null)[], fresh: number[]}[]} the states, the empty one first */
export function decode(n, steps, coupling, random) {
  const order = shuffled(n, random);
  /** @type {(number | null)[]} */
  let row = new Array(n).fill(null);
  const states = [{ row, fresh: /** @type {number[]} */ ([]) }];
  for (let t = 0; t < steps; t++) {
    const fresh = order.slice(Math.round((n * t) / steps), Math.round((n * (t + 1)) / steps));
    const next = [...row];
    for (const i of fresh) next[i] = draw(conditional(row, i, coupling), random);
    row = next;
    states.push({ row, fresh });
  }
  return states;
}

/** The positions that repeat their left neighbour. @param {(number | null)[]} row */
export function stutters(row) {
  return row.flatMap((word, i) => (i > 0 && word !== null && word === row[i - 1] ? [i] : []));
}

/** The truth: the share of equal neighbours under p itself. @param {number} n @param {number} coupling */
export function truth(n, coupling) {
  const hit = Math.exp(coupling) / (Math.exp(coupling) + n);
  const miss = (1 - hit) / n;
  // Given the reading, positions are independent and their words differ: equal at one's word, at the other's, at the rest.
  return 2 * hit * miss + (n - 1) * miss * miss;
}
