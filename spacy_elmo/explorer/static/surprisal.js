// Surprisal: how unexpected each token is, and the words that the biLM would put in the place of one.

import { make, press, shade, shorten, showWords } from "./dom.js";

const FULL = 16; // bits from which the colour is full
const DIRECTIONS = ["forward", "backward"];
const K = 10;

export function start(view) {
  view.form.elements.direction.addEventListener("change", () => {
    view.keep();
    if (view.answer) draw(view);
  });
  const swatches = [0, 4, 8, 12, 16].map((bits) => {
    const swatch = make("span", { class: "swatch" }, String(bits));
    shade(swatch, bits / FULL);
    return swatch;
  });
  view.find(".legend").append("Bits: ", ...swatches, make("span", { class: "hint" }, " each further bit halves the probability; "), make("span", { class: "unknown" }, "dotted"), ": outside the vocabulary, predicted as <UNK>.");
  view.find(".legend").hidden = !view.settings.has_softmax;
}

export function restore({ token }) {
  return /^\d{1,6}$/.test(token ?? "") ? { token } : {};
}

export async function run(view, question) {
  const { text } = view.fields;
  const result = view.find(".result");
  view.answer = null;
  view.find(".text").replaceChildren();
  result.replaceChildren();
  if (!view.settings.has_softmax) {
    return result.replaceChildren(make("p", { class: "hint" },
      "This view needs a biLM with its softmax and vocabulary, and this one has none. Start the explorer with ",
      make("code", {}, "--bilm en_elmo_sm"), " to see it at work, or with a biLM that has both."));
  }
  view.answer = { text, tokens: (await question({ text })).tokens };
  draw(view);
  if (!view.find(".text [aria-pressed=true]")) view.extra = {}; // the text has no such word
  if (view.extra.token === undefined && view.answer.tokens.length) {
    result.replaceChildren(make("p", { class: "hint" }, "Choose a word to see what the model expects in its place."));
  }
  if (view.extra.token !== undefined) await substitute(view, question, Number(view.extra.token));
}

function bitsOf(token, direction) {
  if (direction !== "mean") return token.bits[DIRECTIONS.indexOf(direction)] ?? null;
  const known = token.bits.filter((bits) => bits !== null);
  return known.length ? known.reduce((x, y) => x + y, 0) / known.length : null;
}

function draw(view) {
  const { direction } = view.fields;
  const place = view.find(".text");
  if (!view.answer.tokens.length) place.textContent = "The text is empty.";
  else showWords(place, view.answer.tokens, (button, token, i) => {
    const bits = bitsOf(token, direction);
    const number = bits === null ? "not predicted" : `${bits.toFixed(1)} bits`;
    if (bits !== null) shade(button, bits / FULL);
    if (bits !== null) button.dataset.bits = bits.toFixed(1);
    button.title = `${number}${token.is_unknown ? ", as <UNK>" : ""}`;
    button.setAttribute("aria-label", `${shorten(token.text)}, ${button.title}`);
    button.setAttribute("aria-pressed", String(String(i) === view.extra.token));
    button.classList.toggle("unknown", token.is_unknown);
    button.addEventListener("click", () => {
      view.extra = { token: String(i) };
      view.keep();
      press(place, i);
      view.attempt((question) => substitute(view, question, i));
    });
  });
}

async function substitute(view, question, token) {
  const { text, tokens } = view.answer;
  const result = view.find(".result");
  result.replaceChildren();
  const found = await question({ text, token, k: K }, "substitutes");
  const rows = found.substitutes.map((one) => make("tr", {},
    make("th", { scope: "row" }, shorten(one.word)), bar(one.probability), number(one.forward), number(one.backward)));
  const head = ["word", "both sides", "forward", "backward"].map((name) => make("th", { scope: "col" }, name));
  const { bits } = tokens[token];
  const told = DIRECTIONS.filter((_, i) => (bits[i] ?? null) !== null).map((name, i) => `${name} ${bits[i].toFixed(1)} bits`).join(", ");
  result.append(
    make("h3", {}, "In place of ", make("mark", {}, shorten(found.word))),
    make("p", { class: "hint" }, `${told}. The word itself is not read for its substitutes.`),
    make("div", { class: "scroll" }, make("table", { class: "list" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))),
  );
}

function number(value) {
  return make("td", { class: "number" }, value === null ? "" : percent(value));
}

function percent(value) {
  return `${(100 * value).toPrecision(2)} %`.replace(/e-\d+/, (power) => ` · 10${power.slice(1)}`);
}

function bar(value) {
  const filled = make("span", { class: "bar" });
  filled.style.width = `${(100 * value).toFixed(1)}%`;
  return make("td", {}, make("span", { class: "track", "aria-hidden": "true" }, filled), ` ${(100 * value).toFixed(1)} %`);
}
