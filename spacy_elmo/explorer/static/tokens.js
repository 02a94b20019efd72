// Tokens: the sequences that the biLM reads, their boundaries, unknown words and words that are cut.

import { make, shorten, visible } from "./dom.js";

export async function run(view, question) {
  const result = view.find(".result");
  result.replaceChildren();
  const { tokens, contexts, has_vocabulary } = await question({ text: view.fields.text });
  const words = tokens.filter((token) => !token.is_space);
  const nUnknown = words.filter((token) => token.is_unknown).length;
  const cut = words.filter((token) => token.read !== null);
  const facts = [
    count(words.length, "token"), count(contexts.length, "context"),
    has_vocabulary ? `${nUnknown} outside the vocabulary` : "no vocabulary", `${cut.length} truncated`,
    `${tokens.length - words.length} of white space, not read`,
  ];
  const explained = make("p", { class: "hint" }, "The model reads each box by itself, from ", boundary("<S>"), " to ", boundary("</S>"), ". ",
    make("span", { class: "unknown" }, "Dotted"), ": outside the vocabulary of the softmax; its vector comes from its characters. ",
    make("span", { class: "cut" }, "Barred"), ": too long, read up to the bar. ", make("span", { class: "overlap" }, "Grey"),
    ": read for context only, its vector is taken from the neighboring box.");
  const boxes = contexts.map((context, i) => drawContext(context, i, tokens));
  result.append(make("p", { class: "facts" }, facts.join(" · ")), explained, make("ol", { class: "contexts" }, ...boxes), ...drawCut(cut));
}

function count(n, noun) {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

function boundary(name) {
  return make("span", { class: "boundary" }, name);
}

function drawContext({ tokens: places, keep }, number, tokens) {
  const parts = places.flatMap((place, i) => {
    const isKept = keep[0] <= i && i < keep[1];
    return [drawToken(tokens[place], isKept), " "];
  });
  const label = `Context ${number + 1}, ${count(places.length, "token")}`;
  return make("li", { "aria-label": label }, make("span", { class: "hint" }, `${label} `), boundary("<S>"), " ", ...parts, boundary("</S>"));
}

function drawToken(token, isKept) {
  const classes = ["token", token.is_unknown ? "unknown" : "", isKept ? "" : "overlap"].filter(Boolean).join(" ");
  if (token.read === null) return make("span", { class: classes }, token.text);
  const rest = shorten(token.text.slice(token.read.length));
  return make("span", { class: `${classes} cut`, title: `read up to “${visible(token.read.slice(-10))}”` }, token.read, make("s", {}, rest));
}

function drawCut(cut) {
  if (!cut.length) return [];
  const rows = cut.slice(0, 100).map((token) => make("li", {}, make("code", {}, token.read), ` of a word of ${token.text.length} characters`));
  return [make("h3", {}, "Truncated words, as they are read"), make("ul", {}, ...rows)];
}
