// Neighbors: the uses in a corpus that are closest to a word in its context.

import { emptiness, hasCorpus } from "./corpus.js";
import { keywordInContext, make, press, shorten, showWords } from "./dom.js";

const SIDE = 12; // words on either side

export function restore({ token }) {
  return /^\d{1,6}$/.test(token ?? "") ? { token } : {};
}

export async function run(view, question) {
  const { text } = view.fields;
  const place = view.find(".text");
  const result = view.find(".result");
  place.replaceChildren();
  result.replaceChildren();
  if (!hasCorpus(view)) return;
  const { tokens } = await question({ text });
  if (!tokens.length) return place.replaceChildren("The text is empty.");
  showWords(place, tokens, (button, token, i) => {
    button.setAttribute("aria-pressed", String(String(i) === view.extra.token));
    button.addEventListener("click", () => {
      view.extra = { token: String(i) };
      view.keep();
      press(place, i);
      view.attempt((again) => search(view, again, text, i));
    });
  });
  const words = [...place.querySelectorAll(".word")];
  if (!words.length) return; // white space alone
  if (!place.querySelector("[aria-pressed=true]")) { // the text has no such word: show that of the sample, or the first
    const chosen = words.find((button) => button.textContent === view.settings.texts.word) ?? words[0];
    view.extra = { token: chosen.dataset.token };
    press(place, Number(chosen.dataset.token));
  }
  await search(view, question, text, Number(view.extra.token));
}

async function search(view, question, text, token) {
  const { uses, k } = view.fields;
  const result = view.find(".result");
  result.replaceChildren();
  const { neighbors } = await question({ text, token, uses, k: Math.round(Number(k)) });
  if (!neighbors.length) return result.replaceChildren(make("p", { class: "hint" }, emptiness(view)));
  const rows = neighbors.map(({ cosine, ...use }) => make("li", {},
    make("span", { class: "cosine", title: "cosine: 1 for the same direction, 0 for none in common" }, cosine.toFixed(3)),
    make("span", { class: "kwic", title: shorten(use.words.join(" "), 300) }, ...keywordInContext(use, SIDE)),
    make("span", { class: "document hint", title: shorten(use.document, 300) }, shorten(use.document.split("/").pop()))));
  result.replaceChildren(make("ol", { class: "neighbors" }, ...rows));
}
