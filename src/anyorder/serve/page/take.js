// One generation as it arrives: the recording that the board plays, and what is needed to ask further about it.

/** @typedef {import("./player.js").Recording} Recording
 * @typedef {import("./player.js").Drawn} Drawn
 * @typedef {{row: number, tokens: (string | null)[], ids: number[], special: number[], positions: number[], breaks?: number[]}} Start
 * @typedef {{row: number, step: number, text: string, tokens: (string | null)[], ids: number[],
 *   changed: {position: number, id: number, log_prob: number, entropy: number}[]}} State */

export class Take {
  /** @param {string} title @param {string} note */
  constructor(title, note) {
    /** @type {Recording} */
    this.recording = { length: 0, given: [], steps: [], breaks: [], title, note };
    /** Positions of the row that hold text; what the board shows at i stands at places[i]. @type {number[]} */
    this.places = [];
    /** The row of ids after each step, for questions about it. @type {number[][]} */
    this.ids = [];
    /** The text after each step. @type {string[]} */
    this.texts = [];
    this.finished = false;
    this.logProb = NaN;
    this.passes = 0;
  }

  /** @param {any} event of POST /generate */
  add(event) {
    if (event.type === "start") this.#start(event);
    else if (event.type === "state") this.#state(event);
    else if (event.type === "end") {
      this.finished = true;
      this.logProb = event.result.log_prob;
      this.passes = event.result.passes;
      if (this.texts.length) this.texts[this.texts.length - 1] = event.result.text;
    }
  }

  /** @param {Start} event */
  #start(event) {
    const special = new Set(event.special);
    this.places = event.tokens.map((_, p) => p).filter((p) => !special.has(p));
    this.recording.length = this.places.length;
    this.recording.given = this.places.flatMap((p, i) => (event.tokens[p] === null ? [] : [drawn(i, event.tokens[p])]));
    this.recording.breaks = (event.breaks ?? []).map((p) => this.places.indexOf(p)).filter((i) => i > 0);
    this.ids = [event.ids];
    this.texts = [event.tokens.map((token) => token ?? " ___").join("").trim()];
  }

  /** @param {State} event */
  #state(event) {
    const before = this.ids[this.ids.length - 1];
    const said = new Map(event.changed.map((one) => [one.position, one]));
    const changed = this.places.flatMap((p, i) => {
      const one = said.get(p);
      if (one) return [drawn(i, event.tokens[p], one.log_prob, one.entropy)];
      return event.ids[p] === before[p] ? [] : [drawn(i, event.tokens[p])]; // masked again, or begun with
    });
    // A chain may refuse a step: nothing to see.
    if (changed.length === 0) return;
    this.recording.steps.push(changed);
    this.ids.push(event.ids);
    this.texts.push(event.text);
  }

  /** Put another token at a place, as one more step. @param {number} i @param {{id: number, token: string, prob: number}} other */
  put(i, other) {
    const ids = [...this.ids[this.ids.length - 1]];
    ids[this.places[i]] = other.id;
    const glue = this.#last(i)?.glue ?? 0;
    this.recording.steps.push([{ position: i, text: other.token, glue, log_prob: Math.log(other.prob), entropy: null }]);
    this.ids.push(ids);
    this.texts.push(this.keeping(() => true));
  }

  /** @param {number} i */
  #last(i) {
    return [...this.recording.given, ...this.recording.steps.flat()].filter((one) => one.position === i).at(-1);
  }

  /** The text as a prompt that keeps some of its tokens and blanks the others.
   * @param {(i: number) => boolean} kept */
  keeping(kept) {
    /** @type {(Drawn | undefined)[]} */
    const last = this.places.map((_, i) => this.#last(i));
    let text = "";
    let blanks = 0;
    let torn = false; // after a blank, pieces that would go on with a word have lost it: they go too
    last.forEach((token, i) => {
      const continues = token !== undefined && (token.glue & 1) === 1 && /^[\p{L}\p{N}]/u.test(token.text ?? "");
      const keep = token !== undefined && token.text !== null && kept(i) && !(torn && continues);
      torn = !keep;
      if (!keep) {
        blanks++;
        return;
      }
      text += written(blanks) + ((token.glue & 1) === 1 || (text === "" && blanks === 0) ? "" : " ") + token.text;
      blanks = 0;
    });
    return (text + written(blanks)).trim();
  }
}

/** @param {number} blanks */
function written(blanks) {
  return blanks === 0 ? "" : blanks === 1 ? " ___" : ` ___{${blanks}}`;
}

/** @param {number} position @param {string | null} token with the space before it @param {number | null} log_prob @param {number | null} entropy
 * @returns {Drawn} */
function drawn(position, token, log_prob = null, entropy = null) {
  if (token === null) return { position, text: null, glue: 0, log_prob: null, entropy: null };
  return { position, text: token.trim(), glue: token.startsWith(" ") ? 0 : 1, log_prob, entropy };
}
