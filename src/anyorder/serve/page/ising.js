// Words that want to agree, exactly: the Ising clique of src/anyorder/chains, its k-block Gibbs chain and how it mixes.

import { draw, shuffled } from "./random.js";

/** [2^n] p(x) ∝ exp(coupling · Σ_{i<j} s_i s_j), s = ±1; bit i of the state is word i.
 * @param {number} n @param {number} coupling */
export function law(n, coupling) {
  const weights = Array.from({ length: 2 ** n }, (_, x) => {
    const sum = 2 * bits(x) - n; // Σ s; Σ_{i<j} s_i s_j = (sum² - n) / 2
    return Math.exp((coupling * (sum * sum - n)) / 2 - (coupling * (n * n - n)) / 2);
  });
  const total = weights.reduce((a, b) => a + b, 0);
  return weights.map((w) => w / total);
}

/** @param {number} x */
export function bits(x) {
  let count = 0;
  for (let rest = x; rest; rest &= rest - 1) count++;
  return count;
}

/** Every set of k of n positions, as bit masks. @param {number} n @param {number} k */
export function blocks(n, k) {
  return Array.from({ length: 2 ** n }, (_, x) => x).filter((x) => bits(x) === k);
}

/** One step of the law: a uniform block of k positions is drawn from p given the others.
 * @param {number[]} mu @param {number[]} p @param {number[]} masks */
export function step(mu, p, masks) {
  const next = new Array(mu.length).fill(0);
  for (const mask of masks) {
    // States that agree outside the block share their mass in proportion to p.
    const mass = new Map();
    const whole = new Map();
    for (let x = 0; x < mu.length; x++) {
      const rest = x & ~mask;
      mass.set(rest, (mass.get(rest) ?? 0) + mu[x]);
      whole.set(rest, (whole.get(rest) ?? 0) + p[x]);
    }
    for (let x = 0; x < mu.length; x++) next[x] += (mass.get(x & ~mask) * p[x]) / whole.get(x & ~mask) / masks.length;
  }
  return next;
}

/** @param {number[]} p @param {number[]} q */
export function distance(p, q) {
  return 0.5 * p.reduce((sum, value, x) => sum + Math.abs(value - q[x]), 0);
}

/** Total variation from p after 0, 1, … steps, from "all words alike".
 * @param {number} n @param {number} coupling @param {number} block @param {number} steps */
export function forgetting(n, coupling, block, steps) {
  const p = law(n, coupling);
  const masks = blocks(n, block);
  let mu = p.map((_, x) => (x === 0 ? 1 : 0));
  const found = [distance(mu, p)];
  for (let t = 0; t < steps; t++) {
    mu = step(mu, p, masks);
    found.push(distance(mu, p));
  }
  return found;
}

/** Draw a random block of x anew. @param {number} x @param {number} n @param {number} block @param {number[]} p @param {() => number} random */
export function move(x, n, block, p, random) {
  const mask = shuffled(n, random).slice(0, block).reduce((m, i) => m | (1 << i), 0);
  const reachable = p.map((_, y) => y).filter((y) => (y & ~mask) === (x & ~mask));
  const total = reachable.reduce((sum, y) => sum + p[y], 0);
  return reachable[draw(reachable.map((y) => p[y] / total), random)];
}
