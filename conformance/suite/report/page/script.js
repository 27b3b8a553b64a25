"use strict";
// The page's state is the URL's fragment: every filter and every opened case can be sent to somebody as a link.
// All text is put in by textContent: nothing that a server said is ever read as HTML.
(() => {
const KINDS = {
  passed: ["✓", "passed"], failed: ["✗", "failed"], expected: ["✗", "failed as expected"],
  surprise: ["✓!", "passed, though expected to fail"], error: ["⚠", "the suite's own error"],
  skipped: ["–", "skipped"], "not-run": ["○", "not run"],
};
const LEVELS = ["must", "should", "info", "quirk"];
const OWN_END = "another task closed this fd"; // what the suite notes where it closes a connection itself
const NARROW_TEXT = 300;          // characters of a field in a frame's one-line summary
const FRAMES_OPEN = 4;            // a case with no more frames than this shows them unfolded
const $ = (id) => document.getElementById(id);
const node = (tag, options = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "text") made.append(value);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
};

async function inflate(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

let index, cases, state, opened = new Map(), folded = new Map();
const evidence = new Map();
const evidenceOf = (subject) => {
  if (!evidence.has(subject)) evidence.set(subject, inflate(`evidence-${subject}`));
  return evidence.get(subject);
};

// What came of a case on a subject: [outcome, seconds, why, expected, reason, see], or null
const kind = (cell, level) => {
  if (!cell) return "none";
  if (cell[0] === "not run") return "not-run";
  if (cell[0] === "failed") return cell[3] === "failed" || level === "info" ? "expected" : "failed";
  if (cell[0] === "passed") return cell[3] === "failed" ? "surprise" : "passed";
  return cell[0];
};

// State and fragment

const listed = (text) => new Set((text || "").split(",").filter(Boolean));
function readState() {
  const given = new URLSearchParams(location.hash.slice(1));
  state = {
    text: given.get("text") || "", capability: given.get("capability") || "", subject: given.get("subject") || "",
    outcome: listed(given.get("outcome")), level: listed(given.get("level")), differs: given.get("differs") === "1",
    unfold: given.get("unfold") === "1", theme: given.get("theme") || "",
  };
  opened = new Map();
  for (const one of listed(given.get("open"))) {
    const [id, label] = one.split("@");
    const subject = index.labels.indexOf(label);
    if (subject >= 0) opened.set(id, (opened.get(id) || new Set()).add(subject));
  }
}
function writeState() {
  const shown = new URLSearchParams();
  for (const name of ["text", "capability", "subject", "theme"]) if (state[name]) shown.set(name, state[name]);
  for (const name of ["outcome", "level"]) if (state[name].size) shown.set(name, [...state[name]].join(","));
  if (state.differs) shown.set("differs", "1");
  if (state.unfold) shown.set("unfold", "1");
  const open = [...opened].flatMap(([id, subjects]) => [...subjects].map((one) => `${id}@${index.labels[one]}`));
  if (open.length) shown.set("open", open.join(","));
  history.replaceState(null, "", `#${shown}`.replaceAll("%2C", ",").replaceAll("%40", "@"));
}
function showControls() {
  $("text").value = state.text;
  $("capability").value = state.capability;
  $("subject").value = state.subject;
  $("differs").checked = state.differs;
  for (const group of ["outcome", "level"])
    for (const chip of $(group).children) chip.setAttribute("aria-pressed", String(state[group].has(chip.value)));
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = state.theme || (dark ? "dark" : "light");
}

// Filter

const filtered = () => Boolean(state.text || state.capability || state.subject || state.outcome.size || state.level.size || state.differs);
function fits(one) {
  if (state.capability && one.capability !== state.capability) return false;
  if (state.level.size && !state.level.has(one.level)) return false;
  const subject = index.labels.indexOf(state.subject);
  const cells = subject >= 0 ? [one.cells[subject]] : one.cells;
  if (subject >= 0 && !cells[0]) return false;
  if (state.outcome.size && !cells.some((cell) => state.outcome.has(kind(cell, one.level)))) return false;
  if (state.differs) {
    const outcomes = new Set(one.cells.filter((cell) => cell && !["skipped", "not run"].includes(cell[0])).map((cell) => cell[0]));
    if (outcomes.size < 2) return false;
  }
  return state.text.toLowerCase().split(/\s+/).every((word) => one.words.includes(word));
}

// Matrix

const total = (found, subject) => {
  const count = { all: 0, passed: 0, bad: 0, soft: 0 };
  for (const one of found) {
    const what = kind(one.cells[subject], one.level);
    if (["none", "skipped", "not-run"].includes(what)) continue;
    count.all += 1;
    if (what === "passed" || what === "surprise") count.passed += 1;
    if (what === "failed" || what === "error" || what === "surprise") count.bad += 1;
    if (what === "expected") count.soft += 1;
  }
  return count;
};
function groupRow(name, found, sub) {
  const row = node("tr", { class: `group${sub ? " sub" : ""}`, "data-group": name });
  const shown = sub ? index.rows[name] || name : name;
  const fold = node("button", { class: "fold", type: "button", text: shown });
  row.append(node("td", { colspan: 2 }, fold,
    node("span", { class: "blurb", text: `${found.length} ${found.length === 1 ? "case" : "cases"}${sub ? "" : `. ${index.about[name] || ""}`}` })));
  index.labels.forEach((_, subject) => {
    const count = total(found, subject);
    const td = node("td", { class: "s" });
    if (!count.all) td.append(node("span", { class: "zero", text: "–" }));
    else {
      const tone = count.bad ? "bad" : count.soft ? "soft" : "all";
      const mark = count.bad ? ` ✗${count.bad}` : count.soft ? "" : " ✓";
      td.append(node("span", { class: tone, text: `${count.passed}/\u200b${count.all}`,
        title: `${count.passed} of ${count.all} passed; ${count.soft} failed as expected; ${count.bad} came otherwise than expected` },
        node("span", { class: "mark", text: mark })));
    }
    row.append(td);
  });
  return row;
}
const isOpen = (name) => folded.get(name) ?? (state.unfold || filtered() || [...opened.keys()].some((id) => id === name || id.startsWith(`${name}.`)));
function draw() {
  showControls();
  const found = cases.filter(fits);
  const head = node("tr", {}, node("th", { text: "Case" }), node("th", { class: "l", text: "Level" }),
    ...index.labels.map((label) => node("th", { class: "s", text: label })));
  const body = node("tbody");
  const groups = grouped(found, (one) => one.capability);
  for (const [name, members] of groups) {
    const open = isOpen(name);
    const row = groupRow(name, members, false);
    row.classList.toggle("open", open);
    row.firstChild.firstChild.setAttribute("aria-expanded", String(open));
    row.addEventListener("click", () => { folded.set(name, !open); draw(); });
    body.append(row);
    if (!open) continue;
    if (name !== "grid") { for (const one of members) body.append(...caseRows(one, false)); continue; }
    for (const [part, inner] of grouped(members, (one) => one.id.split(".").slice(0, 2).join("."))) {
      const wide = isOpen(part);
      const line = groupRow(part, inner, true);
      line.classList.toggle("open", wide);
      line.firstChild.firstChild.setAttribute("aria-expanded", String(wide));
      line.addEventListener("click", () => { folded.set(part, !wide); draw(); });
      body.append(line);
      if (wide) for (const one of inner) body.append(...caseRows(one, true));
    }
  }
  if (!found.length) body.append(node("tr", {}, node("td", { class: "empty", colspan: 2 + index.labels.length, text: "No case fits this filter." })));
  $("matrix").replaceChildren(node("thead", {}, head), body);
  $("count").textContent = found.length === cases.length ? `${cases.length} cases` : `${found.length} of ${cases.length} cases`;
  $("unfold").textContent = state.unfold ? "fold all" : "unfold all";
}
function grouped(members, key) {
  const made = new Map();
  for (const one of members) made.has(key(one)) ? made.get(key(one)).push(one) : made.set(key(one), [one]);
  return [...made].sort(([one], [other]) => index.ranks[one] - index.ranks[other]); // what fails first; the sort is stable
}
function caseRows(one, deep) {
  const row = node("tr", { class: `case${deep ? " deep" : ""}`, "data-id": one.id });
  row.append(node("td", {}, node("span", { class: "title", text: one.title }), node("code", { class: "id", text: one.id })),
    node("td", { class: "l" }, node("span", { class: `badge ${one.level}`, text: one.level })));
  const open = opened.get(one.id) || new Set();
  one.cells.forEach((cell, subject) => {
    const what = kind(cell, one.level);
    if (!cell) { row.append(node("td", { class: "s" }, node("span", { class: "none", text: "·", title: "not in this run" }))); return; }
    const [sign, words] = KINDS[what];
    row.append(node("td", { class: "s" }, node("button", {
      class: `cell ${what}`, type: "button", "aria-expanded": String(open.has(subject)), "data-kind": what,
      "aria-label": `${index.labels[subject]}: ${words}`, title: [words, cell[2], cell[4] && `expected: ${cell[4]}`].filter(Boolean).join("\n"),
      onclick: () => toggle(one, subject),
    }, sign, what === "expected" ? node("small", { text: one.level === "info" ? " info" : " exp." }) : null)));
  });
  if (!open.size) return [row];
  return [row, node("tr", { class: "detail" }, node("td", { colspan: 2 + index.labels.length }, about(one),
    ...[...open].sort().filter((subject) => one.cells[subject]).map((subject) => article(one, subject))))];
}
function toggle(one, subject) {
  const open = opened.get(one.id) || new Set();
  open.has(subject) ? open.delete(subject) : open.add(subject);
  open.size ? opened.set(one.id, open) : opened.delete(one.id);
  if (!folded.has(one.capability)) folded.set(one.capability, true);
  writeState();
  const row = document.querySelector(`tr[data-id="${CSS.escape(one.id)}"]`);
  if (row.nextElementSibling?.classList.contains("detail")) row.nextElementSibling.remove();
  row.replaceWith(...caseRows(one, row.classList.contains("deep")));
}

// Evidence

const link = (place) => (index.docs ? node("a", { href: `${index.docs}/${place}`, text: place }) : node("code", { text: place }));
// `words` between backticks are code.
const prose = (text) => text.replaceAll("\n", " ").split(/`+/).map((part, number) => (number % 2 ? node("code", { text: part }) : part));
function about(one) {
  const made = node("div", { class: "about" });
  for (const part of one.about.split(/\n{2,}/).filter(Boolean)) {
    if (part.startsWith("- ")) made.append(node("ul", {}, ...part.split(/\n(?=- )/).map((item) => node("li", {}, ...prose(item.slice(2))))));
    else made.append(node("p", {}, ...prose(part)));
  }
  const meta = node("p", { class: "meta" }, "Rests on ", node("code", { text: one.rests }));
  if (one.codes.length) meta.append("; asks ", one.codes.map((code) => `${index.codes[code] || "?"} (${code})`).join(", "));
  meta.append("; specified in ", link(`docs/conformance.md#${one.anchor}`));
  made.append(meta);
  return made;
}
function article(one, subject) {
  const cell = one.cells[subject];
  const [outcome, seconds, why, expected, reason, see] = cell;
  const what = kind(cell, one.level);
  const [sign, words] = KINDS[what];
  const made = node("article", { class: `evidence ${what}`, "data-subject": index.labels[subject] }, node("header", {},
    node("h2", { text: index.labels[subject] }), node("span", { class: "state", text: `${sign} ${words}` }),
    node("span", { class: "time", text: outcome === "skipped" || outcome === "not run" ? "" : `${seconds.toFixed(3)} s` }),
    node("button", { type: "button", title: "close", text: "✕", onclick: () => toggle(one, subject) })));
  if (why) made.append(node("p", { class: "why", text: why }));
  if (expected) {
    const banner = node("p", { class: "banner", text: `Expected to fail: ${reason}` });
    if (see) banner.append(" – see ", link(see));
    made.append(banner);
  } else if (one.level === "info" && outcome === "failed") made.append(node("p", { class: "banner", text: "Reported for information, not counted." }));
  const rest = node("div", { text: "…" });
  made.append(rest);
  evidenceOf(subject).then((all) => fill(rest, all[one.id] || {}, outcome), (error) => { rest.textContent = `The evidence cannot be read: ${error}`; });
  return made;
}
function fill(place, found, outcome) {
  const parts = [];
  if (found.c) parts.push(node("h3", { text: "Checks" }), checks(found.c));
  if (found.n) parts.push(node("h3", { text: "Noted" }), pairs(found.n));
  if (found.f) {
    const frames = node("div", { class: "frames" }, ...framesOf(found.f));
    parts.push(node("div", { class: "tools" }, node("h3", { text: "Frames" }), node("button", {
      type: "button", text: "unfold all", onclick: () => { for (const one of frames.querySelectorAll("details")) one.open = true; } })), frames);
  }
  if (found.left) parts.push(node("p", { class: "foot", text: `${found.left} frames of this case are left out here; the JSON outcome has them.` }));
  if (found.t) parts.push(node("h3", { text: "Traceback" }), node("pre", { text: found.t }));
  if (!parts.length && !["skipped", "not run"].includes(outcome)) parts.push(node("p", { class: "foot", text: "Nothing was recorded." }));
  place.replaceChildren(...parts);
}
const HOLDING_SHOWN = 6;         // of a failed case; more of them are folded away
function checks(all) {
  const bad = all.filter((one) => !one[1]);
  if (!bad.length || all.length - bad.length <= HOLDING_SHOWN) return checkTable(all);
  const holding = all.filter((one) => one[1]);
  return node("div", {}, checkTable(bad), node("details", { class: "more" }, node("summary", { text: `${holding.length} that hold` }), checkTable(holding)));
}
// The same statement again and again, such as a hundred sends, is shown once.
function counted(all) {
  const made = [];
  for (const one of all) {
    const last = made.at(-1);
    if (last && last.slice(0, 4).every((part, number) => part === one[number])) last[4] += 1;
    else made.push([...one, 1]);
  }
  return made;
}
function checkTable(all) {
  const rows = counted(all).map(([what, holds, expected, seen, times]) => node("tr", { class: holds ? "passed" : "failed" },
    node("td", { class: "mark tone", text: holds ? "✓" : "✗", title: holds ? "holds" : "does not hold" }), node("td", { text: times > 1 ? `${what} (${times} times)` : what }),
    node("td", { class: "value", text: visible(expected) }), node("td", { class: "value", text: visible(seen) })));
  return node("table", { class: "checks" }, node("thead", {}, node("tr", {}, node("th", { class: "mark" }), node("th", { class: "what", text: "statement" }),
    node("th", { class: "half", text: "expected" }), node("th", { text: "seen" }))), node("tbody", {}, ...rows));
}
// Separators and other control characters by their numbers.
const visible = (text) => text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, (letter) => `‹${letter.charCodeAt(0).toString(16).padStart(2, "0")}›`);
const pairs = (map) => node("dl", {}, ...Object.entries(map).flatMap(([name, value]) => [node("dt", { text: name }), node("dd", { text: visible(value) })]));
function framesOf(all) {
  const asked = new Map();
  const several = new Set(all.map((frame) => frame[0]).filter((number) => number >= 0)).size > 1;
  const real = all.filter((frame) => frame[4] !== "end").length;
  return all.map((frame) => frameNode(frame, asked, several, real <= FRAMES_OPEN));
}
const size = (count) => (count < 1000 ? `${count} B` : `${(count / 1024).toFixed(1)} KiB`);
function frameNode(frame, asked, several, open) {
  const [connection, toServer, at, bytes, what, code, name, opaque, form, language, version, remark, fields, body, hex, bodyBytes, note] = frame;
  if (what === "end") return node("div", { class: "frame end", text: [several && connection >= 0 ? `connection ${connection}` : "", (note === OWN_END ? "closed by the case" : note) || "end of the connection"].filter(Boolean).join(": ") });
  const key = `${connection} ${opaque}`;
  let took = "";
  if (what === "request") asked.set(`${key} ${toServer}`, at);
  else if (what === "response" && asked.has(`${key} ${1 - toServer}`)) took = ` after ${((at - asked.get(`${key} ${1 - toServer}`)) * 1000).toFixed(1)} ms`;
  const title = what === "bytes" ? "bytes" : `${name || "?"} (${code})${what === "one-way" ? ", one way" : ""}`;
  const hints = [remark, ...Object.entries(fields).map(([field, value]) => `${field}=${value}`), hex ? "" : body].filter(Boolean).join("  ");
  const refused = what === "response" && code !== 0;
  const made = node("details", { class: `frame ${toServer ? "to" : "from"}${refused ? " refused" : ""}`, open }, node("summary", {},
    node("span", { class: "at", text: `${at.toFixed(4)} s` }),
    node("span", { class: "way", text: `${toServer ? "──▶" : "◀──"}${several ? ` ${connection}` : ""}`, title: toServer ? "to the server" : "from the server" }),
    node("span", { class: "name", text: title }), node("span", { class: "hint", text: visible(hints.slice(0, NARROW_TEXT)) }), node("span", { class: "size", text: size(bytes) })));
  const inside = node("div", { class: "inside" });
  const meta = what === "bytes" ? "no frame that can be read" :
    [what + took, form, `opaque ${opaque}`, language, version ? `version ${version}` : "", several ? `connection ${connection}` : ""].filter(Boolean).join(" · ");
  inside.append(node("div", { class: "meta", text: [meta, note].filter(Boolean).join(" · ") }));
  const named = { ...(remark !== null ? { remark } : {}), ...fields };
  if (Object.keys(named).length) inside.append(pairs(named));
  if (bodyBytes) inside.append(node("div", { class: "meta", text: `body of ${size(bodyBytes)}${hex ? ", hexadecimal" : ""}` }));
  if (body) inside.append(node("pre", { text: hex ? body.replace(/(.{8})/g, "$1 ") : visible(body) }));
  made.append(inside);
  return made;
}

// Controls

function chips() {
  const seen = new Set(cases.flatMap((one) => one.cells.map((cell) => kind(cell, one.level))));
  for (const [name, [sign, words]] of Object.entries(KINDS))
    if (seen.has(name)) $("outcome").append(node("button", { type: "button", class: `chip ${name}`, value: name, text: `${sign} ${words}` }));
  for (const name of LEVELS) if (cases.some((one) => one.level === name)) $("level").append(node("button", { type: "button", class: "chip", value: name, text: name }));
  for (const group of ["outcome", "level"]) $(group).addEventListener("click", (event) => {
    const { value } = event.target;
    if (!value) return;
    state[group].has(value) ? state[group].delete(value) : state[group].add(value);
    changed();
  });
  for (const name of new Set(cases.map((one) => one.capability))) $("capability").append(node("option", { value: name, text: name }));
  for (const label of index.labels) $("subject").append(node("option", { value: label, text: label }));
  for (const [name, [sign, words]] of Object.entries(KINDS))
    $("legend").append(node("span", { class: "item" }, node("span", { class: `cell ${name}`, text: sign }), words));
}
function changed() { folded.clear(); writeState(); draw(); }
function controls() {
  chips();
  $("text").addEventListener("input", () => { state.text = $("text").value; changed(); });
  for (const name of ["capability", "subject"]) $(name).addEventListener("change", () => { state[name] = $(name).value; changed(); });
  $("differs").addEventListener("change", () => { state.differs = $("differs").checked; changed(); });
  $("unfold").addEventListener("click", () => { state.unfold = !state.unfold; if (!state.unfold) opened.clear(); changed(); });
  $("reset").addEventListener("click", () => { location.hash = state.theme ? `theme=${state.theme}` : ""; folded.clear(); readState(); writeState(); draw(); });
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("theme").addEventListener("click", () => {
    state.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    writeState();
    showControls();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showControls);
  addEventListener("hashchange", () => { folded.clear(); readState(); draw(); });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT)$/.test(document.activeElement.tagName)) { event.preventDefault(); $("text").focus(); }
  });
}

inflate("index").then((read) => {
  index = read;
  cases = index.cases.map(([id, level, title, rests, codes, about, anchor, cells]) => ({
    id, level, title, rests, codes, about, anchor, cells, capability: id.split(".")[0],
    words: [id, title, rests, about, ...codes.map((code) => `${code} ${index.codes[code]}`),
      ...cells.flatMap((cell) => (cell ? [cell[2], cell[4]] : []))].join(" ").toLowerCase(),
  }));
  readState();
  controls();
  draw();
  document.documentElement.dataset.ready = "1";
  const first = [...opened.keys()][0];
  if (first) document.querySelector(`tr[data-id="${CSS.escape(first)}"]`)?.scrollIntoView();
}).catch((error) => {
  document.querySelector("#matrix").after(node("p", { class: "failed tone", text: `The cases cannot be shown: ${error}` }));
  throw error;
});
})();
