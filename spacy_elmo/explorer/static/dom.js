// Elements from text. Nothing here or elsewhere in the page takes a string as HTML.

const SVG = "http://www.w3.org/2000/svg";
const SHOWN = 40; // characters of a word in a place where it cannot be wrapped

// make("td", {class: "token", title: "…"}, "text", child, …)
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function makeSvg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.map((child) => (typeof child === "string" ? visible(child) : child)));
  return element;
}

// Control characters have no shape of their own: show their pictures, or U+FFFD. Those of writing direction would
// reorder the text around them.
export function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

export function shorten(text, limit = SHOWN) {
  const characters = [...text.slice(0, 2 * limit + 2)];
  return characters.length > limit || text.length > 2 * limit + 2 ? characters.slice(0, limit).join("") + "…" : text;
}

export function mapKey(event) {
  return { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
}

// One of many elements is reached by Tab, the others by the arrow keys, Home and End.
export function rove(elements, active = 0) {
  elements.forEach((element, i) => {
    element.tabIndex = i === active ? 0 : -1;
    element.addEventListener("focus", () => {
      for (const other of elements) if (other.tabIndex === 0) other.tabIndex = -1;
      element.tabIndex = 0;
    });
    element.addEventListener("keydown", (event) => {
      const step = mapKey(event);
      const to = event.key === "Home" ? 0 : event.key === "End" ? elements.length - 1 : step ? i + step[0] + step[1] : null;
      if (to === null || !elements[to]) return;
      event.preventDefault();
      elements[to].focus();
    });
  });
}

// Colours of Okabe and Ito (2008), as in spacy_elmo.analysis.plots.
export const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442"];

// Shares of these colours from which the other one of black and white has a contrast of 4.5.
const STRONG = 0.935;
const BRIGHT = 0.89;

// A share from -1 to 1 as the colour of a background: blue above zero, vermilion below.
export function shade(element, share) {
  const bounded = Math.max(-1, Math.min(1, share));
  element.style.backgroundColor = `rgba(${bounded < 0 ? "213, 94, 0" : "0, 114, 178"}, ${Math.abs(bounded).toFixed(2)})`;
  element.classList.add("shaded");
  element.classList.toggle("strong", bounded > STRONG); // white text in light mode
  element.classList.toggle("bright", bounded < -BRIGHT); // black text in dark mode
}

// The words of a text as buttons; white space stays as it is.
export function showWords(place, tokens, describe) {
  const buttons = [];
  const parts = tokens.flatMap((token, i) => {
    if (token.is_space) return [token.text + token.space];
    const button = make("button", { type: "button", class: "word", "data-token": i }, token.text);
    describe(button, token, i);
    buttons.push(button);
    return [button, token.space];
  });
  place.replaceChildren(...parts);
  const active = buttons.findIndex((button) => button.getAttribute("aria-pressed") === "true");
  rove(buttons, Math.max(active, 0));
}

export function press(place, token) {
  for (const button of place.querySelectorAll(".word")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.token) === token));
  }
}

// A sentence with the word of a use marked, at most `side` words on either side.
export function keywordInContext(use, side = 12) {
  const { words, position } = use;
  const left = words.slice(Math.max(0, position - side), position).map((word) => shorten(word)).join(" ");
  const right = words.slice(position + 1, position + 1 + side).map((word) => shorten(word)).join(" ");
  return [
    make("span", { class: "left" }, (position > side ? "… " : "") + left + " "),
    make("mark", {}, shorten(words[position])),
    make("span", { class: "right" }, " " + right + (words.length > position + 1 + side ? " …" : "")),
  ];
}
