// The state of the page is its address: the view and the fields of its form, after the #.

const MAX_ADDRESS = 8000; // characters; longer texts are left out of the address

export function readAddress() {
  const found = new URLSearchParams(location.hash.slice(1));
  return { view: found.get("view"), fields: Object.fromEntries(found) };
}

// Returns whether all fields fitted.
export function writeAddress(view, fields) {
  const kept = new URLSearchParams({ view });
  for (const [name, value] of Object.entries(fields)) {
    if (value !== null && value !== "") kept.set(name, value);
  }
  const isShort = String(kept).length <= MAX_ADDRESS;
  history.replaceState(null, "", "#" + (isShort ? kept : new URLSearchParams({ view })));
  return isShort;
}

// Values of the controls of a form by name; numbers in the range of their controls, as the form shows from then on.
export function readForm(form) {
  for (const item of form.elements) {
    if (item.type === "number") item.value = item.value === "" ? item.defaultValue : clamp(Number(item.value), item);
  }
  return Object.fromEntries([...form.elements].filter((item) => item.name).map((item) => [item.name, item.value]));
}

// A value that a control cannot have is ignored; a number out of its range becomes the nearest one in it.
export function fillForm(form, fields) {
  for (const item of form.elements) {
    const value = item.name ? fields[item.name] : undefined;
    if (value === undefined) continue;
    if (item.tagName === "SELECT" && ![...item.options].some((option) => option.value === value)) continue;
    if ((item.type === "number" || item.type === "range") && !(value.trim() && Number.isFinite(Number(value)))) continue;
    if (item.type === "range") item.max = Math.max(Number(item.max), Math.min(Number(value), 1000));
    item.value = item.type === "number" ? clamp(Number(value), item) : value;
  }
}

function clamp(value, { min, max }) {
  return String(Math.min(Math.max(value, min === "" ? -Infinity : Number(min)), max === "" ? Infinity : Number(max)));
}

// Post JSON to a view of the server. An error is one with a message for people.
export async function ask(view, question, signal) {
  let response;
  try {
    response = await fetch(`/api/${view}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(question),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The explorer does not answer. Is its terminal still open?");
  }
  if (response.headers.get("Content-Type")?.startsWith("application/json")) {
    const found = await response.json();
    if (response.ok) return found;
    throw new Error(found.error);
  }
  throw new Error(await response.text());
}
