// The corpus of the views Neighbors and Senses: without an index, one click builds it from the sample or a pasted text.

import { make } from "./dom.js";

const N_SAMPLE = 150; // sentences of sample.txt, about

// Returns whether there is an index to ask; otherwise says how to get one.
export function hasCorpus(view) {
  const { index, can_index, has_sample } = view.settings;
  const place = view.find(".corpus");
  place.replaceChildren(...(can_index ? [offerText(view)] : []));
  if (index) return true;
  if (has_sample) {
    const button = make("button", { type: "button" }, `Use the sample of ${N_SAMPLE} sentences`);
    button.addEventListener("click", () => build(view, ""));
    place.prepend(button);
  }
  place.prepend(make("p", {}, "This view searches the sentences of a corpus, and there is none yet."));
  view.find(".result").replaceChildren(make("p", { class: "hint" },
    "For a large corpus, run ", make("code", {}, "python -m spacy elmo index CORPUS INDEX"),
    " and start the explorer with ", make("code", {}, "--index INDEX"), "."));
  return false;
}

export function emptiness(view) {
  return view.settings.index?.n_tokens ? "The index has no such use." : "The index is empty: it has no tokens.";
}

function build(view, text) {
  return view.attempt(async (question) => {
    view.find(".status").textContent = "Building the index …";
    view.adopt(await question({ text }, "index"));
  });
}

function offerText(view) {
  const { index, has_sample, lang, limits } = view.settings;
  const text = make("textarea", { name: "corpus", rows: 4, maxlength: limits.indexed, spellcheck: "false", dir: "auto", required: "" });
  const label = `Paste it here, at most ${limits.indexed.toLocaleString("en")} characters; it is read as the language “${lang}” `;
  const form = make("form", {}, make("label", {}, label, text), make("div", { class: "row" }, make("button", { type: "submit" }, "Index the text")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    build(view, text.value);
  });
  const summary = make("summary", {}, index ? "Search another text" : "Use a text of your own");
  return make("details", index || has_sample ? {} : { open: "" }, summary, form);
}
