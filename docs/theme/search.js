// Search over the sections of all pages. The index is a script, loaded at the first use.
const root = document.body.dataset.root;
const form = document.querySelector("form");
const input = document.querySelector("#search");
const found = document.querySelector("#found");
const results = document.querySelector("#results");
const SHOWN = 12;

// The groups of the navigation, and pages, that weigh less than others.
const WEIGHTS = { "Look up": 0.75, Operate: 0.9, Performance: 1, Evaluate: 0.25, Contribute: 0.25 };
// They repeat what other pages say.
const LAST = /^(CHANGELOG|skills)\b/;

const IGNORED = new Set("a an and are as at be by can did do does for from how i in is it list my of on or payment simulate the to up what when where why with".split(" "));

// The words before the colon also find those after it, with less weight.
const SYNONYMS = new Map(
  `unauthorized: unauthenticated
  duplicate: idempotency conflict
  ask asked log: journal requests
  async: asyncio
  bitcoin ethereum: chain asset
  callback: webhooks
  cypress selenium: playwright
  deterministic reproducible: seed
  docker podman testcontainers: container image
  failure network resilience: faults drop
  fast forward skip: advance speed
  freeze: frozen clock
  gitlab github jenkins: ci workflow
  javascript jest mocha nodejs vitest: node javascript
  junit kotlin maven spring: java
  k8s helm: kubernetes
  load: performance
  laravel symfony: php
  overpayment: overpaid
  partial underpayment: underpaid
  persist persistence: stores
  ruby rust: languages
  sleep: time hang
  slow: delay hang
  ssl https: tls
  timeout: slow delay hang
  top topup: deposit
  wei decimals: raw units`
    .split("\n")
    .map((line) => line.split(":").map((part) => part.trim().split(" ")))
    .flatMap(([words, others]) => words.map((word) => [word, others])),
);

function load() {
  const script = document.createElement("script");
  script.src = `${root}/sections.js`;
  script.onload = () => {
    for (const section of sections)
      section.words = { title: wordsOf(section.title), page: wordsOf(section.page), text: wordsOf(section.text) };
    show();
  };
  document.head.append(script);
}

const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];

// Without the ending, a word finds its other forms: retries and retry, expired and expires. A short word must be whole.
const stem = (word) => word.replace(/(?<=....)(ies|ing|es|ed|s|y|e)$/, "");

// How well a text has a word: as a whole, at the beginning of a word, within a word, or not at all.
function match(text, word) {
  const start = stem(word);
  let best = 0;
  for (const other of text) {
    if (other === word) return 1;
    if (start.length > 2 && other.startsWith(start)) best = 0.9;
    else if (word.length > 3 && other.includes(start)) best = Math.max(best, 0.2);
  }
  return best;
}

function scoreOf({ words: { title, page, text } }, word) {
  return 5 * match(title, word) + 2 * match(page, word) + 2 * match(text, word);
}

// The sections that have any of the words. All words are better than some, and rare words tell more than frequent ones.
function search(query) {
  const all = wordsOf(query);
  const telling = all.filter((word) => word.length > 1 && !IGNORED.has(word));
  const words = telling.length ? telling : all;
  const hits = sections.map((section) => ({ section, count: 0, score: 0 }));
  for (const word of words) {
    const scores = sections.map((section) =>
      Math.max(scoreOf(section, word), ...(SYNONYMS.get(word) ?? []).map((other) => 0.7 * scoreOf(section, other))),
    );
    const rarity = Math.log(1 + sections.length / (1 + scores.filter((score) => score > 0.5).length));
    scores.forEach((score, index) => {
      hits[index].count += score > 0;
      hits[index].score += score * rarity;
    });
  }
  const weight = ({ url, page, group }) => (LAST.test(url) ? 0.1 : (WEIGHTS[page] ?? WEIGHTS[group] ?? 1));
  const rank = ({ section, count, score }) => score * count * weight(section);
  return hits.filter(({ count }) => count).sort((one, other) => rank(other) - rank(one));
}

// The number of edits that make one word the other.
function distance(one, other) {
  let row = [...Array(other.length + 1).keys()];
  for (const [i, letter] of [...one].entries()) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j++)
      next.push(Math.min(next[j] + 1, row[j + 1] + 1, row[j] + (letter === other[j] ? 0 : 1)));
    row = next;
  }
  return row.at(-1);
}

// The word of the pages and synonyms that is nearest to the last one of the query, or undefined.
function suggestion(query) {
  const word = wordsOf(query).at(-1) ?? "";
  const known = new Set([...SYNONYMS.keys(), ...sections.flatMap(({ words }) => [...words.title, ...words.text])]);
  const near = [...known].map((other) => [distance(word, other), other]).filter(([edits]) => edits <= word.length / 3);
  return near.sort(([one], [other]) => one - other)[0]?.[1];
}

function entry({ url, page, title, text }, word) {
  const link = document.createElement("a");
  link.href = `${root}/${url}`;
  link.textContent = page === title ? title : `${page}: ${title}`;
  const around = document.createElement("span");
  around.textContent = text.slice(Math.max(0, text.toLowerCase().indexOf(word) - 20));
  link.append(around);
  const item = document.createElement("li");
  item.append(link);
  return item;
}

function show() {
  if (typeof sections === "undefined") return;
  const query = input.value;
  const words = wordsOf(query);
  const hits = words.length ? search(query) : [];
  results.replaceChildren(...hits.slice(0, SHOWN).map(({ section }) => entry(section, words[0])));
  if (!words.length) found.textContent = "";
  else if (hits.length) found.textContent = `${hits.length} found${hits.length > SHOWN ? `, ${SHOWN} shown` : ""}`;
  else {
    const near = suggestion(query);
    found.textContent = near ? `Nothing found. Did you mean “${near}”?` : "Nothing found";
  }
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
