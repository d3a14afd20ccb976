// Builds elements. Data from the server becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

const present = (value) => value != null && value !== false;
const build = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (present(value)) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(present));
  return element;
};

export const h = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);
export const s = (tag, attributes = {}, ...children) => build(document.createElementNS(SVG, tag), attributes, children);
export const by = (id) => document.getElementById(id);
export const icon = (name) => s("svg", { class: "icon", "aria-hidden": "true" }, s("use", { href: `/assets/icons.svg#${name}` }));

/** A table. Its roles are stated, since a narrow window shows its rows as blocks. */
export const table = (names, rows) => h("table", { role: "table" },
  h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, names.map((name) => h("th", { scope: "col", role: "columnheader" }, name)))), h("tbody", { role: "rowgroup" }, rows));
export const tr = (attributes, ...cells) => h("tr", { role: "row", ...attributes }, cells);
export const td = (attributes, ...children) => h("td", { role: "cell", ...attributes }, children);

/** Puts other children into an element, and the focus back where it was, or close by. */
export function show(parent, ...children) {
  const focused = parent.contains(document.activeElement) && document.activeElement.dataset.focus;
  parent.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (focused) (parent.querySelector(`[data-focus="${CSS.escape(focused)}"]`) ?? by("main")).focus();
}

/** Returns a button that copies a text and announces it; `what` completes its label for those who do not see its place. */
export function copyButton(label, text, focus, what) {
  const button = h("button", { type: "button", class: "copy", "data-focus": focus }, label, what && h("span", { class: "unseen" }, ` ${what}`));
  button.addEventListener("click", () => copy(text(), button));
  return button;
}

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
