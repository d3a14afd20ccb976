// Finds and builds elements, and copies texts.

const present = (value) => value != null && value !== false;

/** Returns a new element. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (present(value)) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(present));
  return element;
}

export const by = (id) => document.getElementById(id);

/** Puts other children into an element, with the same details open, and the focus back where it was, or close by. */
export function show(parent, ...children) {
  const focused = parent.contains(document.activeElement) && document.activeElement.dataset.focus;
  const open = [...parent.querySelectorAll("details[open]")];
  parent.replaceChildren(...children.flat(Infinity).filter(Boolean));
  for (const { id } of open) if (by(id)) by(id).open = true;
  if (focused) (parent.querySelector(`[data-focus="${CSS.escape(focused)}"]`) ?? by("main")).focus();
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-copy], [data-copy-from]");
  if (button) copy(button.dataset.copy ?? by(button.dataset.copyFrom).innerText, button);
});

/** Copies a text, and says so on the button. */
export async function copy(text, button) {
  const label = (button.labelNodes ??= [...button.childNodes]);
  button.textContent = (await written(text)) ? "Copied" : "Copying failed";
  announce(button.textContent);
  button.focus();
  setTimeout(() => button.replaceChildren(...label), 2000);
}

/** Announces a text to screen readers. */
export const announce = (text) => { by("announcement").textContent = text; };

async function written(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // not available on a page without TLS from another machine
    const field = document.body.appendChild(h("textarea", { class: "unseen" }));
    field.value = text;
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
