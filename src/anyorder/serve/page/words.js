// A sentence as words to click: one click blanks a word or brings it back, dragging blanks several.

import { el, fill } from "./dom.js";

const PIECES = /_{3,}(?:\{[^{}]*\})?|[\p{L}\p{N}][\p{L}\p{N}'’-]*|\s+|[^\s]/gu;
const BLANK = /^_{3,}/;

/** @typedef {{text: string, was?: string}} Piece `was`: the words a blank stands for */

/** Words, blanks, spaces and marks. @param {string} text @returns {Piece[]} */
export function cut(text) {
  return (text.match(PIECES) ?? []).map((piece) => ({ text: piece }));
}

/** @param {Piece} piece */
const isBlank = (piece) => BLANK.test(piece.text);
/** @param {Piece} piece */
const isWord = (piece) => /[\p{L}\p{N}]/u.test(piece.text) && !isBlank(piece);

export class Words {
  /** @param {() => string} blank how a new blank is written: ___ or ___{1-3}
   * @param {(text: string) => void} changed called with the new text */
  constructor(blank, changed) {
    this.blank = blank;
    this.changed = changed;
    /** @type {Piece[]} */
    this.pieces = [];
    /** First and last piece being dragged over. @type {[number, number] | null} */
    this.range = null;
    this.element = el("p", {
      className: "words", role: "group", "aria-label": "The sentence, word by word. Enter blanks a word or brings it back; Shift with the arrows takes several.",
      onpointerdown: (/** @type {PointerEvent} */ event) => this.#press(event),
      onpointermove: (/** @type {PointerEvent} */ event) => this.#drag(event),
      onpointerup: () => this.#release(),
      onpointercancel: () => this.#mark(null),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
    });
  }

  /** @param {string} text */
  set(text) {
    if (text === this.text) return;
    this.pieces = cut(text);
    this.#draw();
  }

  get text() {
    return this.pieces.map((piece) => piece.text).join("");
  }

  #draw(focus = -1) {
    this.range = null;
    let first = true;
    fill(this.element, ...this.pieces.map((piece, i) => {
      if (!isWord(piece) && !isBlank(piece)) return piece.text;
      const blank = isBlank(piece);
      const name = blank ? `blank${piece.was ? `, was ${piece.was}` : ""}` : piece.text;
      const button = el("button", {
        type: "button", className: blank ? "word blank" : "word", "aria-label": name, "aria-pressed": String(blank),
        "data-piece": i, tabIndex: (focus < 0 ? first : i === focus) ? 0 : -1, title: blank ? piece.was ?? "" : "",
      }, blank ? piece.text.replace(BLANK, "▁▁▁") : piece.text);
      first = false;
      return button;
    }));
    if (focus >= 0) this.#button(focus)?.focus();
  }

  /** @param {number} i @returns {HTMLElement | null} */
  #button(i) {
    return this.element.querySelector(`[data-piece="${i}"]`);
  }

  /** The pieces that are buttons. */
  get #stops() {
    return this.pieces.flatMap((piece, i) => (isWord(piece) || isBlank(piece) ? [i] : []));
  }

  /** @param {[number, number] | null} range */
  #mark(range) {
    this.range = range;
    const [low, high] = range ? [Math.min(...range), Math.max(...range)] : [1, 0];
    for (const i of this.#stops) this.#button(i)?.classList.toggle("chosen", low <= i && i <= high);
  }

  /** Which piece lies under the pointer. @param {PointerEvent} event */
  #under(event) {
    const node = document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-piece]");
    return node && this.element.contains(node) ? Number(/** @type {HTMLElement} */ (node).dataset.piece) : null;
  }

  /** @param {PointerEvent} event */
  #press(event) {
    const at = this.#under(event);
    if (at !== null && event.button === 0) this.#mark([at, at]);
  }

  /** @param {PointerEvent} event */
  #drag(event) {
    if (this.range === null || event.buttons === 0) return;
    const at = this.#under(event);
    if (at !== null && at !== this.range[1]) this.#mark([this.range[0], at]);
  }

  #release() {
    if (this.range !== null) this.#toggle(...this.range);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const at = Number(/** @type {HTMLElement} */ (event.target).dataset.piece);
    const stops = this.#stops;
    const next = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (next !== undefined) {
      const to = stops[stops.indexOf(at) + next];
      if (to === undefined) return;
      event.preventDefault();
      for (const i of stops) /** @type {HTMLElement} */ (this.#button(i)).tabIndex = i === to ? 0 : -1;
      this.#mark(event.shiftKey ? [this.range?.[0] ?? at, to] : null);
      this.#button(to)?.focus();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#toggle(...(this.range ?? [at, at]));
    }
  }

  /** Blank the words from one piece to another, or bring one back.
   * @param {number} one @param {number} other */
  #toggle(one, other) {
    const [low, high] = [Math.min(one, other), Math.max(one, other)];
    const inside = this.pieces.slice(low, high + 1);
    const blank = this.blank();
    if (low === high && isBlank(inside[0])) {
      this.pieces.splice(low, 1, ...cut(inside[0].was ?? "word"));
    } else if (blank === "___") {
      for (let i = low; i <= high; i++) {
        if (isWord(this.pieces[i])) this.pieces[i] = { text: blank, was: this.pieces[i].text };
      }
    } else {
      // A blank of open length takes the place of all of them.
      this.pieces.splice(low, high - low + 1, { text: blank, was: inside.map((piece) => piece.was ?? piece.text).join("") });
    }
    this.#draw(low);
    this.changed(this.text);
  }
}
