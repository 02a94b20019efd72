// The page: tabs, the state in the address, and a view behind each tab.

import { readAddress, readForm, fillForm, writeAddress, ask } from "./state.js";
import { rove, visible } from "./dom.js";
import * as compare from "./compare.js";
import * as neighbors from "./neighbors.js";
import * as senses from "./senses.js";
import * as surprisal from "./surprisal.js";
import * as tokens from "./tokens.js";

const VIEWS = { compare, neighbors, senses, surprisal, tokens };
const tabs = [...document.querySelectorAll("[role=tab]")];
const views = {};

// What a view has of the page: its section and form, the settings, and functions to ask and to keep its state.
class View {
  constructor(name, settings) {
    this.name = name;
    this.settings = settings;
    this.section = document.getElementById(name);
    this.form = this.section.querySelector("form");
    this.extra = {}; // state beside the form, such as the chosen token
    this.code = VIEWS[name];
    this.code.start?.(this);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.extra = {};
      this.run();
    });
    this.form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.form.requestSubmit();
    });
  }

  find(selector) {
    return this.section.querySelector(selector);
  }

  // New settings, as after an index was built: they concern every view.
  adopt(settings) {
    Object.assign(this.settings, settings);
    document.dispatchEvent(new CustomEvent("settings", { detail: this }));
  }

  get fields() {
    return readForm(this.form);
  }

  keep() {
    const fits = writeAddress(this.name, { ...this.fields, ...this.extra });
    this.note = fits ? "" : "The text is too long for the address: it cannot be shared by it.";
  }

  // Run a task; a newer one cancels it. Errors and progress are shown, never thrown.
  async attempt(task) {
    this.controller?.abort();
    const controller = (this.controller = new AbortController());
    this.find(".error").textContent = "";
    this.find(".status").textContent = "Computing …";
    this.section.setAttribute("aria-busy", "true");
    try {
      await task((question, view = this.name) => ask(view, question, controller.signal));
      if (this.controller === controller) this.find(".status").textContent = this.note;
    } catch (error) {
      if (this.controller !== controller) return;
      this.find(".status").textContent = "";
      this.find(".error").textContent = visible(error.message);
    } finally {
      if (this.controller === controller) this.section.removeAttribute("aria-busy");
    }
  }

  run() {
    this.keep();
    this.hasRun = true;
    return this.attempt((question) => this.code.run(this, question));
  }
}

function select(name, { focus = false } = {}) {
  for (const tab of tabs) {
    const isChosen = tab.getAttribute("aria-controls") === name;
    tab.setAttribute("aria-selected", String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
    if (isChosen && focus) tab.focus();
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !isChosen;
  }
  if (views[name].hasRun) views[name].keep();
  else views[name].run();
}

// From the address to the page.
function restore() {
  const { view, fields } = readAddress();
  const name = Object.hasOwn(VIEWS, view ?? "") ? view : "compare";
  const found = views[name];
  fillForm(found.form, fields);
  found.extra = found.code.restore?.(fields) ?? {};
  found.hasRun = false;
  select(name);
}

function describe(settings) {
  const { bilm, mixture_size, width, index } = settings;
  const stored = index ? `index of ${index.n_tokens.toLocaleString("en")} tokens, layer ${index.layer}` : "no index yet";
  return `${bilm}: ${mixture_size} layers of ${width} numbers per token; ${stored}`;
}

// Texts in the language of the biLM, and a word that the index has, in the fields that hold nothing else.
function offerTexts({ lang, texts }) {
  const { a, b, odd, word } = texts;
  const found = {
    compare: { a, b }, neighbors: { text: a }, senses: { word }, surprisal: { text: `${a} ${odd}` },
    tokens: lang.startsWith("en") ? {} : { text: `${a} ${b}` },
  };
  for (const [name, fields] of Object.entries(found)) {
    for (const [field, value] of Object.entries(fields)) {
      const item = document.getElementById(name).querySelector("form").elements[field];
      const isUntouched = item.value === item.defaultValue;
      item.defaultValue = value;
      if (isUntouched) item.value = value;
    }
  }
}

function show(settings) {
  document.getElementById("model").textContent = visible(describe(settings));
  offerTexts(settings);
}

async function main() {
  const response = await fetch("/api/settings");
  const settings = await response.json();
  show(settings);
  document.addEventListener("settings", ({ detail: current }) => {
    show(settings);
    for (const view of Object.values(views)) view.hasRun = false;
    current.run();
  });
  for (const name of Object.keys(VIEWS)) views[name] = new View(name, settings);
  for (const tab of tabs) tab.addEventListener("click", () => select(tab.getAttribute("aria-controls")));
  rove(tabs);
  for (const tab of tabs) {
    tab.addEventListener("focus", () => {
      if (tab.getAttribute("aria-selected") !== "true") select(tab.getAttribute("aria-controls"));
    });
  }
  addEventListener("hashchange", restore);
  restore();
}

main();
