// Two blanks as a heat map, with marginals at the edges; arrows move from cell to cell.

import { el, share } from "./dom.js";
import { percent } from "./player.js";

/** @typedef {{prob: number[][], marginals: {a: number[], b: number[]}, shown: number}} Table
 * @typedef {{a: string[], b: string[], tables: Record<string, Table>}} Heat */

/** A token without the marks of its tokenizer: ##ford goes on with a word. @param {string} token */
export function plain(token) {
  return token.startsWith("##") ? `‑${token.slice(2)}` : token.replace(/^[Ġ▁]/, "");
}

/** @param {Heat} heat @param {string} method @param {boolean} difference show what the method adds to the product instead
 * @param {(text: string) => void} say told about the cell under the pointer or the focus */
export function heatMap(heat, method, difference, say) {
  const [a, b] = [heat.a.map(plain), heat.b.map(plain)];
  const table = heat.tables[method];
  const product = heat.tables.mlm;
  const values = table.prob.map((line, i) => line.map((p, j) => (difference ? p - product.prob[i][j] : p)));
  const most = Math.max(1e-12, ...values.flat().map(Math.abs));
  const cell = (/** @type {number} */ i, /** @type {number} */ j) => {
    const value = values[i][j];
    const told = `${a[i]} … ${b[j]}: ${percent(table.prob[i][j])} jointly, ${percent(product.prob[i][j])} as a product`;
    const node = el("td", {
      className: value < 0 ? "less" : "", tabIndex: i + j === 0 ? 0 : -1, "aria-label": told, title: told,
      onfocus: () => say(told), onpointerenter: () => say(told),
    }, short(value, difference));
    share(node, "--share", Math.sqrt(Math.abs(value) / most)); // a few pairs of some per cent, many of some per thousand
    return node;
  };
  const edge = (/** @type {number} */ p, /** @type {string} */ name) => el("td", { className: "edge", title: `${name} alone: ${percent(p)}` }, short(p, false));
  const rows = a.map((name, i) => el("tr", {}, el("th", { scope: "row", title: name }, name), ...b.map((_, j) => cell(i, j)), edge(table.marginals.a[i], name)));
  return el("table", { className: "heat", "aria-label": `Per cent by ${method}: first blank down, second across`, onkeydown: move },
    el("thead", {}, el("tr", {}, el("th", { className: "corner" }, "1st ╲ 2nd"), ...b.map((name) => el("th", { scope: "col", title: name }, name)), el("th", { className: "corner", scope: "col" }, "alone"))),
    el("tbody", {}, ...rows, el("tr", {}, el("th", { className: "corner", scope: "row" }, "alone"), ...b.map((name, j) => edge(table.marginals.b[j], name)), el("td", { className: "edge" }, ""))));
}

/** Per cent, where there is something to read. @param {number} value @param {boolean} signed */
function short(value, signed) {
  const cent = 100 * value;
  if (Math.abs(cent) < 0.05) return "";
  return `${signed && cent > 0 ? "+" : ""}${Math.abs(cent) >= 9.95 ? cent.toFixed(0) : cent.toFixed(1)}`.replace("-", "−");
}

/** @param {KeyboardEvent} event */
function move(event) {
  const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
  const from = /** @type {HTMLElement} */ (event.target).closest("td");
  if (!by || !from) return;
  event.preventDefault();
  const line = /** @type {HTMLTableRowElement} */ (from.parentElement);
  const body = /** @type {HTMLTableSectionElement} */ (line.parentElement);
  const to = body.rows[[...body.rows].indexOf(line) + by[0]]?.cells[from.cellIndex + by[1]];
  if (!to || to.tagName !== "TD" || to.classList.contains("edge")) return;
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}
