// Search: finds the sections that contain all words. The index is a script, loaded at the first use.
const root = document.body.dataset.root;
const form = document.querySelector("form");
const input = document.querySelector("#search");
const found = document.querySelector("#found");
const results = document.querySelector("#results");
const SHOWN = 12;

function load() {
  const script = document.createElement("script");
  script.src = `${root}/sections.js`;
  script.onload = show;
  document.head.append(script);
}

function rank({ page, title }, words) {
  const has = (text) => words.every((word) => text.toLowerCase().includes(word));
  return has(title) ? 0 : has(page) ? 1 : 2;
}

function entry({ url, page, title, text }, words) {
  const link = document.createElement("a");
  link.href = `${root}/${url}`;
  link.textContent = page === title ? title : `${page}: ${title}`;
  const around = document.createElement("span");
  around.textContent = text.slice(Math.max(0, text.toLowerCase().indexOf(words[0]) - 20));
  link.append(around);
  const item = document.createElement("li");
  item.append(link);
  return item;
}

function show() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (typeof sections === "undefined") return;
  const hits = words.length
    ? sections.filter(({ page, text }) => words.every((word) => `${page} ${text}`.toLowerCase().includes(word)))
    : [];
  hits.sort((one, other) => rank(one, words) - rank(other, words));
  results.replaceChildren(...hits.slice(0, SHOWN).map((hit) => entry(hit, words)));
  found.textContent = words.length ? `${hits.length} found${hits.length > SHOWN ? `, ${SHOWN} shown` : ""}` : "";
}

form.hidden = false;
form.addEventListener("submit", (event) => {
  event.preventDefault();
  results.querySelector("a")?.click();
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    input.value = "";
    show();
    input.focus();
  }
});
input.addEventListener("focus", load, { once: true });
input.addEventListener("input", show);
