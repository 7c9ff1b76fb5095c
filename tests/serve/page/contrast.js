// The texts on the screen that stand out less than WCAG's 4.5 to 1 from what is behind them, with their ratio.
() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return { rgb: [r, g, b], a: a / 255 };
  };
  const over = (above, below) => below.map((v, i) => above.rgb[i] * above.a + v * (1 - above.a));
  const behind = (node) => (node === null ? [255, 255, 255] : over(rgba(getComputedStyle(node).backgroundColor), behind(node.parentElement)));
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const written = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  return [...document.querySelectorAll("body *")]
    .filter((node) => node.checkVisibility() && written(node) && !node.closest(":disabled, option, [aria-busy=true]"))
    .map((node) => {
      const style = getComputedStyle(node);
      const [a, b] = [light(over(rgba(node instanceof SVGElement ? style.fill : style.color), behind(node))), light(behind(node))];
      return [node.textContent.trim().slice(0, 40), Math.max(a, b) / Math.min(a, b)];
    })
    .filter(([, ratio]) => ratio < 4.5);
}
