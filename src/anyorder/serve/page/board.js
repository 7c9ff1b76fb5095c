// The board: a tile per token, all of one size, so that nothing moves while tokens come and go.

import { el, fill, share } from "./dom.js";
import { described, shade, stateAt } from "./player.js";

export class Board {
  /** @param {string} label @param {{pick: (board: Board, i: number) => void, change: () => void}} heard */
  constructor(label, heard) {
    this.heard = heard;
    /** @type {import("./take.js").Take | null} */
    this.take = null;
    this.step = 0;
    /** @type {Set<number>} */
    this.chosen = new Set();
    /** @type {Set<number>} */
    this.pinned = new Set();
    this.at = 0; // where the keyboard is
    /** Where a drag began, and whether it chooses or lets go. @type {{from: number, on: boolean, before: Set<number>} | null} */
    this.drag = null;
    this.grid = el("div", {
      className: "board", role: "group", "aria-label": `${label}. Arrows move, Enter selects, P pins.`,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
      onpointerdown: (/** @type {PointerEvent} */ event) => this.#press(event),
      onpointermove: (/** @type {PointerEvent} */ event) => this.#move(event),
      onpointerup: () => (this.drag = null),
      onpointercancel: () => (this.drag = null),
    });
    this.text = el("span");
    this.prose = el("p", { className: "prose", tabIndex: 0, "aria-label": `${label}, as text` }, this.text);
    this.caption = el("p", { className: "caption" });
    this.element = el("section", { className: "stage" }, this.caption, this.grid, this.prose);
    /** @type {HTMLButtonElement[]} */
    this.tiles = [];
  }

  /** Empty tiles, before anything is known but the number. @param {number} length */
  empty(length) {
    this.take = null;
    this.#tiles(length);
    this.text.textContent = "";
  }

  /** @param {import("./take.js").Take} take */
  set(take) {
    if (take.recording.length !== this.tiles.length) {
      this.chosen.clear();
      this.pinned.clear();
      this.#tiles(take.recording.length);
    }
    this.take = take;
    const lines = new Set(take.recording.breaks);
    this.tiles.forEach((tile, i) => tile.classList.toggle("line", lines.has(i)));
    this.#room(lines);
  }

  /** Keep room for a text of so many tokens. @param {Set<number>} lines which of them begin a line */
  #room(lines) {
    this.prose.dataset.room = this.tiles.map((_, i) => (lines.has(i) ? "\nnnnnn" : "nnnnn")).join(" ");
  }

  /** @param {number} length */
  #tiles(length) {
    this.at = Math.min(this.at, Math.max(0, length - 1));
    this.tiles = Array.from({ length }, (_, i) =>
      el("button", { type: "button", className: "tile blank", "data-i": i, "aria-label": `${i + 1}: blank`, tabIndex: i === this.at ? 0 : -1 }, el("span", { className: "text" }), el("span", { className: "bar" })));
    fill(this.grid, ...this.tiles);
    this.#room(new Set());
  }

  /** Draw the state after a step. @param {number} step */
  show(step) {
    if (!this.take) return;
    this.step = Math.min(step, this.take.recording.steps.length);
    const { tokens, fresh } = stateAt(this.take.recording, this.step);
    this.tiles.forEach((tile, i) => {
      const token = tokens[i];
      const kind = token === null ? "blank" : token.log_prob === null ? "given" : shade(token.log_prob);
      const line = tile.classList.contains("line");
      tile.className = ["tile", kind, line && "line", fresh.has(i) && "fresh", this.chosen.has(i) && "chosen", this.pinned.has(i) && "pinned"].filter(Boolean).join(" ");
      const text = token?.text ?? "";
      const [shown, bar] = /** @type {[HTMLElement, HTMLElement]} */ (/** @type {unknown} */ (tile.children));
      shown.textContent = text;
      shown.style.setProperty("--letters", String(Math.max(1, text.length)));
      share(bar, "--share", token === null || token.log_prob === null ? 0 : Math.exp(token.log_prob));
      tile.setAttribute("aria-label", `${i + 1}: ${token === null ? "blank" : described(token)}${this.pinned.has(i) ? ", pinned" : ""}`);
      tile.setAttribute("aria-pressed", String(this.chosen.has(i)));
      tile.title = token === null ? "" : described(token);
    });
    this.text.textContent = this.take.texts[this.step] ?? "";
  }

  /** The token shown at a tile. @param {number} i */
  token(i) {
    return this.take === null ? null : stateAt(this.take.recording, this.step).tokens[i];
  }

  pin() {
    const all = [...this.chosen].every((i) => this.pinned.has(i));
    for (const i of this.chosen) {
      if (all) this.pinned.delete(i);
      else this.pinned.add(i);
    }
    this.#changed();
  }

  clear() {
    this.chosen.clear();
    this.#changed();
  }

  #changed() {
    this.show(this.step);
    this.heard.change();
  }

  /** @param {number} i */
  #go(i) {
    this.tiles[this.at].tabIndex = -1;
    this.at = i;
    this.tiles[i].tabIndex = 0;
    this.tiles[i].focus();
  }

  /** @param {number} i @param {boolean} on */
  #choose(i, on) {
    if (on) this.chosen.add(i);
    else this.chosen.delete(i);
    this.#changed();
    this.heard.pick(this, i);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const columns = this.tiles.filter((tile) => tile.offsetTop === this.tiles[0].offsetTop).length;
    const to = { ArrowRight: this.at + 1, ArrowLeft: this.at - 1, ArrowDown: this.at + columns, ArrowUp: this.at - columns, Home: 0, End: this.tiles.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      if (to >= 0 && to < this.tiles.length) {
        if (event.shiftKey) this.chosen.add(this.at).add(to);
        this.#go(to);
        if (event.shiftKey) this.#changed();
      }
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#choose(this.at, !this.chosen.has(this.at));
    } else if (event.key === "p" || event.key === "P") {
      if (this.chosen.size === 0) this.chosen.add(this.at);
      this.pin();
    }
  }

  /** @param {PointerEvent} event */
  #under(event) {
    const node = document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-i]");
    return node && this.grid.contains(node) ? Number(/** @type {HTMLElement} */ (node).dataset.i) : null;
  }

  /** @param {PointerEvent} event */
  #press(event) {
    const i = this.#under(event);
    if (i === null || event.button !== 0 || !this.take) return;
    this.#go(i);
    this.drag = { from: i, on: !this.chosen.has(i), before: new Set(this.chosen) };
    this.#choose(i, this.drag.on);
  }

  /** @param {PointerEvent} event */
  #move(event) {
    if (!this.drag || event.buttons === 0) return;
    const i = this.#under(event);
    if (i === null) return;
    const [low, high] = [Math.min(i, this.drag.from), Math.max(i, this.drag.from)];
    this.chosen = new Set(this.drag.before);
    for (let k = low; k <= high; k++) {
      if (this.drag.on) this.chosen.add(k);
      else this.chosen.delete(k);
    }
    this.#changed();
  }
}
