// Search over the sections of all pages. The index is a script, loaded at the first use.
const root = document.body.dataset.root;
const form = document.querySelector("form");
const input = document.querySelector("#search");
const found = document.querySelector("#found");
const results = document.querySelector("#results");
const SHOWN = 12;
const FEW = 4;

// Pages for users come first. The names are those of the navigation.
const WEIGHTS = { Operate: 0.9, Evaluate: 0.5, Contribute: 0.4 };

const IGNORED = new Set("a an and are as at be by can do does for from how i in is it my of on or the to up what when why with".split(" "));

// A word of a line also finds the words after it, with less weight.
const SYNONYMS = new Map(
  `401: unauthenticated unauthorized key
  404: not_found
  409: conflict
  422: validation_failed
  429: overload retry-after
  500: status faults
  503: store_unavailable capacity_exceeded
  asked: requests journal
  auth: key authorization
  backup: copy restore
  bitcoin: chain catalog
  browser: checkout cors
  callback: webhook
  cancel: expire
  ci: github workflow
  crash: kill restart
  curl: control
  cypress: playwright browser
  django: python pytest
  docker: container image
  duplicate: idempotency replay
  failure: faults
  fast: speed advance
  final: finalized
  freeze: speed clock
  install: pip
  jest: vitest node
  k8s: kubernetes
  log: journal requests
  network: drop faults
  node: javascript npm
  nodejs: javascript npm
  overpayment: overpaid excess
  overpaid: excess
  custom: own course
  parallel: workers sandbox
  partial: underpaid
  payout: settlement
  prometheus: metrics
  resilience: faults retry
  ruby: languages
  rust: languages
  skip: advance
  sleep: wait advance
  slow: delay hang
  speed: clock time
  spring: java junit
  ssl: tls https
  testcontainers: container
  timeout: hang delay wait
  token: asset key
  unauthorized: unauthenticated
  underpayment: underpaid
  upgrade: version format
  wei: raw units`
    .split("\n")
    .map((line) => line.trim().split(/:? /))
    .map(([word, ...others]) => [word, others]),
);

function load() {
  const script = document.createElement("script");
  script.src = `${root}/sections.js`;
  script.onload = show;
  document.head.append(script);
}

const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];

// Without the ending, a word finds its other forms: retries and retry, expired and expires. A short word must be whole.
const stem = (word) => (word.length > 4 ? word.replace(/(ies|ing|es|ed|s|y|e)$/, "") : word);

// How well a text has a word: as a whole, at the beginning of a word, within a word, or not at all.
function match(text, word) {
  const start = stem(word);
  let best = 0;
  for (const other of text) {
    if (other === word) return 1;
    if (start.length > 3 && other.startsWith(start)) best = 0.9;
    else if (word.length > 3 && other.includes(start)) best = Math.max(best, 0.3);
  }
  return best;
}

function scoreOf(section, word) {
  section.words ??= { title: wordsOf(section.title), page: wordsOf(section.page), text: wordsOf(section.text) };
  const { title, page, text } = section.words;
  return Math.max(6 * match(title, word), 4 * match(page, word), 2 * match(text, word));
}

// The sections that have all words. If they are few, also those that have some.
function search(query) {
  const all = wordsOf(query);
  const telling = all.filter((word) => !IGNORED.has(word));
  const words = telling.length ? telling : all;
  const hits = sections.map((section) => {
    const scores = words.map((word) =>
      Math.max(scoreOf(section, word), ...(SYNONYMS.get(word) ?? []).map((other) => scoreOf(section, other) / 2)),
    );
    const sum = scores.reduce((total, score) => total + score, 0);
    return { section, count: scores.filter(Boolean).length, score: sum * (WEIGHTS[section.group] ?? 1) };
  });
  hits.sort((one, other) => other.count - one.count || other.score - one.score);
  const complete = hits.filter(({ count }) => count === words.length);
  return complete.length >= FEW ? complete : hits.slice(0, SHOWN).filter(({ count }) => count);
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
  const known = new Set([...SYNONYMS.keys(), ...sections.flatMap(({ title, text }) => wordsOf(`${title} ${text}`))]);
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
