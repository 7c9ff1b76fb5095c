// A small line chart, as SVG.

const NS = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [340, 190, 46, 34, 10, 10];

/** @param {string} tag @param {Record<string, string | number>} given @param {string} [text] */
function svg(tag, given, text) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(given)) node.setAttribute(name, String(value));
  if (text !== undefined) node.textContent = text;
  return node;
}

/** @typedef {{points: [number, number][], kind: "a" | "b", marks?: boolean}} Line */

/** @param {Line[]} lines
 * @param {{x: [number, number], y: [number, number], xs: number[], ys: number[], xName: string, yName: string, label: string,
 *   yText?: (value: number) => string, logX?: boolean}} axes */
export function chart(lines, axes) {
  const scale = (/** @type {number} */ v) => (axes.logX ? Math.log(v) : v);
  const [x0, x1] = axes.x.map(scale);
  const x = (/** @type {number} */ v) => LEFT + ((scale(v) - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
  const y = (/** @type {number} */ v) => HEIGHT - BOTTOM - ((v - axes.y[0]) / (axes.y[1] - axes.y[0])) * (HEIGHT - BOTTOM - TOP);
  const root = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": axes.label });
  for (const v of axes.ys) {
    root.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(v), y2: y(v) }),
      svg("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, axes.yText ? axes.yText(v) : String(v)));
  }
  for (const v of axes.xs) root.append(svg("text", { x: x(v), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, String(v)));
  root.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
    svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 3, "text-anchor": "middle" }, axes.xName),
    svg("text", { x: 11, y: (HEIGHT - BOTTOM + TOP) / 2, "text-anchor": "middle", transform: `rotate(-90 11 ${(HEIGHT - BOTTOM + TOP) / 2})` }, axes.yName));
  for (const { points, kind, marks } of lines) {
    root.append(svg("polyline", { class: kind, points: points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ") }));
    if (marks) root.append(...points.map(([a, b]) => svg("circle", { cx: x(a), cy: y(b), r: 4 })));
  }
  return root;
}
