// Seeded randomness, so that a toy shows the same thing to everyone who opens the same link.

/** Mulberry32: numbers in [0, 1). @param {number} seed @returns {() => number} */
export function randomness(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** An index drawn from probabilities that sum to 1. @param {number[]} p @param {() => number} random */
export function draw(p, random) {
  let u = random();
  for (let i = 0; i < p.length - 1; i++) {
    u -= p[i];
    if (u < 0) return i;
  }
  return p.length - 1;
}

/** A random order. @param {number} n @param {() => number} random */
export function shuffled(n, random) {
  const order = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}
