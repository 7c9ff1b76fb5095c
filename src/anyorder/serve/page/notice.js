// What a view says while it waits and when something went wrong, in a place that keeps its size.

import { Refused } from "./api.js";
import { el, fill } from "./dom.js";

export class Notice {
  #latest = new Latest();

  /** @param {HTMLElement} results what is dimmed while its successor is worked out */
  constructor(results) {
    this.results = results;
    this.element = el("p", { className: "notice", role: "status", "aria-live": "polite" });
  }

  /** @param {string} text */
  say(text) {
    this.element.classList.remove("bad");
    this.element.textContent = text;
  }

  /** @param {string} text */
  waiting(text) {
    this.results.setAttribute("aria-busy", "true");
    this.say(text);
  }

  done(text = "") {
    this.results.setAttribute("aria-busy", "false");
    this.say(text);
  }

  /** @param {unknown} error @param {(() => void)} [again] */
  failed(error, again) {
    this.results.setAttribute("aria-busy", "false");
    this.element.classList.add("bad");
    const text = error instanceof Refused ? error.message : `Something went wrong in the page: ${error}`;
    fill(this.element, capital(text), again && " ", again && el("button", { type: "button", onclick: again }, "Try again"));
  }

  /** Work out what replaces the results; a newer call ends this one.
   * @template T @param {string} doing what is said meanwhile @param {(signal: AbortSignal) => Promise<T>} work
   * @param {(got: T) => void} show @param {() => void} again for a reader who wants to try again after a failure */
  async replace(doing, work, show, again) {
    this.waiting(doing);
    try {
      const got = await this.#latest.run(work);
      if (got === undefined) return;
      show(got);
      this.done();
    } catch (error) {
      fill(this.results);
      this.failed(error, again);
    }
  }

  /** Nothing replaces the results any more. @param {string} text */
  empty(text) {
    this.#latest.stop();
    fill(this.results);
    this.done(text);
  }
}

/** @param {string} text */
function capital(text) {
  const ended = /[.!?]$/.test(text) ? text : `${text}.`;
  return ended.charAt(0).toUpperCase() + ended.slice(1);
}

/** One request at a time: a newer one ends the older. */
export class Latest {
  /** @type {AbortController | undefined} */
  #now;

  /** @template T @param {(signal: AbortSignal) => Promise<T>} work
   * @returns {Promise<T | undefined>} undefined if a newer one took over */
  async run(work) {
    this.#now?.abort();
    const mine = (this.#now = new AbortController());
    try {
      const result = await work(mine.signal);
      return mine.signal.aborted ? undefined : result;
    } catch (error) {
      if (mine.signal.aborted) return undefined;
      throw error;
    }
  }

  stop() {
    this.#now?.abort();
  }
}
