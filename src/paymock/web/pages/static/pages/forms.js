// What the server refuses is shown at the field that it is about, in view, with the focus on it.

const places = (form) => [...form.querySelectorAll("[data-field]")];
const names = (place, field) => place.dataset.field.split(" ").some((name) => field === name || field.startsWith(`${name}.`) || field.startsWith(`${name}[`));
const plain = (text) => text.replaceAll("`", "");

/** Shows the problems of a form: those that name a field at it, all others in `general`. Without an error, none. */
export function showProblems(form, general, error) {
  const details = error?.details ?? [];
  for (const place of places(form)) {
    const found = details.filter(({ field }) => names(place, field));
    const input = form.querySelector(`[aria-describedby~="${place.id}"]`);
    place.textContent = [...new Set(found.map(({ message }) => plain(message)))].join("; ");
    input.ariaInvalid = String(found.length > 0);
  }
  const elsewhere = details.filter(({ field }) => !places(form).some((place) => names(place, field)));
  const rest = elsewhere.map(({ field, message }) => `${field}: ${plain(message)}`).join("; ") || (details.length ? "" : plain(error?.message ?? ""));
  general.hidden = !rest;
  general.textContent = rest;
  form.querySelector("[aria-invalid=true]")?.focus();
}

/** The values of a form or of an address by their names, without those that are empty. */
export const chosen = (entries) => Object.fromEntries([...entries].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));

/** Keeps what is chosen in the address. */
export function keepInAddress(filters) {
  history.replaceState(null, "", `${location.pathname}${Object.keys(filters).length ? `?${new URLSearchParams(filters)}` : ""}`);
}

/** A problem that the page itself finds, at one field. */
export const problemAt = (field, message) => Object.assign(new Error(message), { details: [{ field, message }] });
