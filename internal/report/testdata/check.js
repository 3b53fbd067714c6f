// Looks at the page as the browser laid it out and returns what is wrong with
// it, each problem a line of text, and the figures that it shows.
(() => {
  const problems = [];
  const wrong = (what, element) => {
    const text = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 60);
    problems.push(`${what}: <${element.tagName.toLowerCase()} class="${element.getAttribute("class") || ""}"> ${text}`);
  };
  const all = [...document.body.querySelectorAll("*")];
  for (const details of document.querySelectorAll("details")) details.open = true;

  const hidden = (e) => e.closest(".hidden") || getComputedStyle(e).clipPath === "inset(50%)" ||
    [...function* () { for (let p = e; p; p = p.parentElement) yield p; }()].some((p) => getComputedStyle(p).clipPath === "inset(50%)");
  const rendered = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && e.getClientRects().length > 0 && !hidden(e);

  // Nothing is wider than the window, and no text is cut off.
  if (document.documentElement.scrollWidth > innerWidth) {
    problems.push(`the page is ${document.documentElement.scrollWidth} px wide in a window of ${innerWidth}`);
  }
  for (const e of all.filter(rendered)) {
    const box = e.getBoundingClientRect();
    if (box.right > innerWidth + 0.5 || box.left < -0.5) wrong("reaches out of the window", e);
    if (e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1 && e.textContent.trim()) wrong("its text is wider than it", e);
  }

  // Contrast as WCAG 2 computes it: 4.5 for text, 3 for large text and for bars.
  const rgb = (color) => {
    const parts = color.match(/^rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?\)$/);
    if (!parts) throw new Error(`cannot read the colour ${color}`);
    return { channels: parts.slice(1, 4).map(Number), alpha: parts[4] === undefined ? 1 : Number(parts[4]) };
  };
  const luminance = (channels) => {
    const [r, g, b] = channels.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const ground = (e) => {
    for (let p = e; p; p = p.parentElement) {
      const { channels, alpha } = rgb(getComputedStyle(p).backgroundColor);
      if (alpha === 1) return channels;
      if (alpha !== 0) wrong("its ground is not opaque", p);
    }
    return [255, 255, 255];
  };
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.data.trim() || !rendered(e)) continue;
    const style = getComputedStyle(e);
    const color = rgb(style.color);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = contrast(color.channels, ground(e));
    if (color.alpha !== 1 || ratio < (large ? 3 : 4.5)) wrong(`contrast ${ratio.toFixed(2)}`, e);
    if (size < 11) wrong(`text of ${size} px`, e);
    texts++;
  }
  if (texts < 200) problems.push(`only ${texts} pieces of text were seen`);
  for (const bar of all.filter((e) => e.classList.contains("bar") && rendered(e) && e.clientWidth > 0)) {
    const style = getComputedStyle(bar);
    const color = rgb(bar.classList.contains("limit") ? style.borderRightColor : style.backgroundColor);
    const ratio = contrast(color.channels, ground(bar.parentElement));
    if (ratio < 3) wrong(`contrast of a bar ${ratio.toFixed(2)}`, bar);
  }

  // Whatever is an image has a name, a description and its data as a table.
  const textOf = (e, attribute) => (e.getAttribute(attribute) || "").split(/\s+/).filter(Boolean)
    .map((id) => (document.getElementById(id) || { textContent: "" }).textContent.trim()).join(" ");
  const images = all.filter((e) => e.getAttribute("role") === "img" || ["svg", "img", "canvas"].includes(e.tagName.toLowerCase()));
  for (const e of images) {
    if (e.closest('[aria-hidden="true"]')) continue;
    if (!textOf(e, "aria-labelledby")) wrong("an image without a name", e);
    if (!textOf(e, "aria-describedby")) wrong("an image without a description", e);
    const figure = e.closest("figure");
    if (!figure || !figure.querySelector("table tbody tr")) wrong("an image without its data", e);
  }
  const described = images.filter((e) => e.getAttribute("role") === "img").length;
  const charts = document.getElementById("model") ? 8 : 6;
  if (described !== charts) problems.push(`${described} charts and diagrams, want ${charts}`);

  // The outline has no gaps, and the reading order is that of the source.
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1) wrong(`a heading of level ${next} after ${level}`, heading);
    level = next;
  }
  if (document.querySelectorAll("h1").length !== 1) problems.push("not one h1");
  if (document.documentElement.lang !== "en") problems.push("no language");
  for (const e of all) if (e.tabIndex > 0) wrong("a place of its own in the tab order", e);
  const ids = all.map((e) => e.id).filter(Boolean);
  if (new Set(ids).size !== ids.length) problems.push("an id is used twice");

  const figures = [...document.querySelectorAll("data[data-figure]")].map((e) => {
    const unit = e.nextElementSibling;
    const follows = unit && unit.classList.contains("unit") && ["", "\u00a0"].includes(unit.previousSibling === e ? "" : unit.previousSibling.data);
    return {
      Expr: e.dataset.figure, Value: e.value, Scale: e.dataset.scale || "",
      Text: e.textContent, Unit: follows ? unit.textContent : "",
    };
  });
  return { problems: [...new Set(problems)], figures, title: document.title, heading: document.querySelector("h1").textContent.replace(/\s+/g, " ").trim() };
})()
