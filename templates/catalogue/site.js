// Search, filters and copy buttons. It reads only the catalogue's own files. Their texts come from publishers, so they are
// inserted as text, never as markup.
"use strict";

const TOP = document.body.dataset.top;
const PAGE = 40;
const MOST_FILES = 40; // per step: two frequent words may share few packages, so the reader decides whether to continue

// The path of a node, as node_file in site.py.
function nodeFile(tree, prefix) {
  let coded = "";
  for (const c of prefix) coded += /^[a-z0-9]$/.test(c) ? c : `_${c.codePointAt(0).toString(16)}_`;
  return `${TOP}${tree}/${tree[0]}${coded}.json`;
}

const nodes = new Map();
function node(tree, prefix) {
  const path = nodeFile(tree, prefix);
  if (!nodes.has(path)) {
    const loading = fetch(path, { credentials: "same-origin" }).then((answer) => {
      if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
      return answer.json();
    });
    loading.catch(() => nodes.delete(path));
    nodes.set(path, loading);
  }
  return nodes.get(path);
}

// The prefix of the topmost node whose keys can begin with `start`, or null if there is none.
async function descend(tree, start) {
  let prefix = "";
  for (;;) {
    if (prefix.startsWith(start)) return prefix;
    const found = await node(tree, prefix);
    if (!found.children) return prefix;
    const next = Object.keys(found.children).find((c) => c.startsWith(start) || start.startsWith(c));
    if (next === undefined) return null;
    prefix = next;
  }
}

// The number of keys that begin with `start`.
async function countOf(tree, start) {
  const prefix = await descend(tree, start);
  if (prefix === null) return 0;
  const found = await node(tree, prefix);
  const own = found.items.filter(([key]) => key.startsWith(start)).length;
  return own + Object.values(found.children || {}).reduce((sum, count) => sum + count, 0);
}

// All items whose keys begin with `start`, a file at a time.
async function* walk(tree, start) {
  const top = await descend(tree, start);
  const waiting = top === null ? [] : [top];
  while (waiting.length) {
    const found = await node(tree, waiting.pop());
    yield found.items.filter(([key]) => key.startsWith(start)).map(([, value]) => value);
    if (found.children) waiting.push(...Object.keys(found.children).sort().reverse());
  }
}

function record(value) {
  const [model, version, description, license, toolchain, targets, published, deprecated, yanked, framework, more] = value;
  return { model, version, description, license, toolchain, targets, published, deprecated, yanked, framework, more };
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// The same elements as in parts.html.j2.
function row(one) {
  const item = element("li", "row");
  const head = element("div", "row-head");
  const link = element("a", "row-name", one.model);
  link.href = `${TOP}packages/tfaot-model-${encodeURIComponent(one.model.replaceAll("_", "-"))}/index.html`;
  head.append(link, " ", element("span", "version", one.version));
  if (one.deprecated) head.append(" ", element("span", "tag warn", "deprecated"));
  if (one.yanked) head.append(" ", element("span", "tag bad", "yanked"));
  item.append(head);
  if (one.description) item.append(element("p", "row-text", one.description));
  const foot = element("p", "row-foot");
  if (one.license) foot.append(element("span", "", one.license));
  for (const target of one.targets) foot.append(element("span", "", target));
  foot.append(element("span", "", one.framework));
  if (one.published) {
    const time = element("time", "", one.published.slice(0, 10));
    time.dateTime = one.published;
    foot.append(time);
  }
  item.append(foot);
  return item;
}

function wordsOf(text) {
  return (text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) || []).map((word) => word.slice(0, 24));
}

// The beginning that forms of a word share: taus and tau, tagger and tagging. Whole words are indexed, and found by their
// beginnings.
function stem(word) {
  if (!/^[a-z]{4,}$/.test(word)) return word;
  const cut = word.replace(/(ations?|ings?|ies|ers?|ed|es|s)$/, "");
  if (cut.length < 3 || word.endsWith("ss")) return word;
  return /([b-df-hj-np-tv-z])\1$/.test(cut) && cut.length > 3 ? cut.slice(0, -1) : cut;
}

// The number of letters to change, add, remove or swap to get from one word to the other; `most` + 1 if larger.
function apart(one, other, most) {
  if (Math.abs(one.length - other.length) > most) return most + 1;
  let [before, last] = [[], [...Array(other.length + 1).keys()]];
  for (let i = 1; i <= one.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const same = one[i - 1] === other[j - 1];
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1));
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) row[j] = Math.min(row[j], before[j - 2] + 1);
    }
    [before, last] = [last, row];
  }
  return last[other.length];
}

let vocabulary = null;
// The known word that is most similar to `word`, the most frequent of several; null if none is similar.
async function alike(word) {
  if (!/^\p{L}{3,}$/u.test(word)) return null;
  vocabulary ||= fetch(`${TOP}home.json`, { credentials: "same-origin" }).then((answer) => answer.json());
  const known = Object.entries((await vocabulary).words);
  const most = word.length < 7 ? 1 : 2;
  let best = null;
  for (const [other, count] of known) {
    const distance = Math.min(apart(word, other, most), apart(word, stem(other), most));
    if (distance <= most && (!best || distance < best.distance || (distance === best.distance && count > best.count))) best = { other, count, distance };
  }
  return best && best.other;
}

function fits(one, wanted) {
  const words = wordsOf(`${one.model} ${one.model.replaceAll("_", " ")} ${one.license} ${one.framework} ${one.more} ${one.description}`);
  return (
    wanted.words.every((word) => words.some((other) => other.startsWith(word))) &&
    (!wanted.target || one.targets.includes(wanted.target)) &&
    (!wanted.license || one.license === wanted.license) &&
    (!wanted.framework || one.framework === wanted.framework) &&
    (!wanted.toolchain || one.toolchain === wanted.toolchain)
  );
}

function isOld(one) {
  return Boolean(one.deprecated || one.yanked);
}

function counted(count, what) {
  return `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
}

// The word with the fewest packages, because only its leaves are read. Unknown words in `words` are replaced by similar
// known ones.
async function rarest(words, typed, corrected) {
  const count = (word) => countOf("words", word);
  const counts = await Promise.all(words.map(count));
  for (let i = 0; i < words.length; i += 1) {
    const other = counts[i] ? null : (await alike(typed[i])) || (await alike(words[i]));
    if (other) {
      corrected.push(`“${other}” for “${typed[i]}”`);
      words[i] = other;
      counts[i] = await count(other);
    }
  }
  const least = Math.min(...counts);
  return { word: words[counts.indexOf(least)], count: least };
}

function setUpSearch(form) {
  const part = (id) => document.getElementById(id);
  const [query, status, list, more, showOld] = ["q", "status", "found", "more", "show-old"].map(part);
  let run = 0;
  let timer = 0;
  let advance = null;

  function wanted() {
    const value = (name) => form.elements[name].value;
    return {
      typed: wordsOf(query.value),
      words: wordsOf(query.value).map(stem),
      framework: value("framework"),
      target: value("target"),
      license: value("license"),
      toolchain: value("toolchain"),
      old: form.elements.old.checked,
    };
  }

  async function start() {
    const mine = ++run;
    const what = wanted();
    const active = what.words.length || what.framework || what.target || what.license || what.toolchain || what.old;
    part("results").hidden = !active;
    part("browse").hidden = Boolean(active);
    remember(what);
    more.hidden = true;
    showOld.hidden = true;
    if (!active) return;
    status.textContent = "Searching…";
    try {
      const corrected = [];
      const first = what.words.length ? await rarest(what.words, what.typed, corrected) : null;
      if (mine !== run) return;
      const source = first ? walk("words", first.word) : walk("list", "");
      list.replaceChildren();
      const [seen, old] = [new Set(), new Set()];
      advance = async () => {
        await step(mine, what, source, seen, old);
        if (mine === run && corrected.length) status.textContent += ` Searched for ${corrected.join(", ")}.`;
      };
      await advance();
    } catch (error) {
      if (mine === run) status.textContent = "The list could not be loaded. Try again.";
    }
  }

  // Show up to PAGE more, from at most MOST_FILES files. `old` collects models that match, but are deprecated or yanked.
  async function step(mine, what, source, seen, old) {
    more.hidden = true;
    let shown = 0;
    let files = 0;
    let done = false;
    while (shown < PAGE && files < MOST_FILES) {
      const next = await source.next();
      if (mine !== run) return;
      if (next.done) {
        done = true;
        break;
      }
      files += 1;
      const fresh = next.value.map(record).filter((one) => !seen.has(one.model) && fits(one, what));
      for (const one of fresh) {
        if (!what.old && isOld(one)) {
          old.add(one.model);
          continue;
        }
        if (seen.has(one.model)) continue;
        seen.add(one.model);
        list.append(row(one));
        shown += 1;
      }
    }
    more.hidden = done;
    more.textContent = shown ? "Show more" : "Search further";
    showOld.hidden = !done || seen.size > 0 || !old.size;
    if (!done) status.textContent = seen.size ? `${counted(seen.size, "package")} found so far; there may be more.` : "Nothing found yet.";
    else if (seen.size) status.textContent = `${counted(seen.size, "package")} found.`;
    else if (old.size) status.textContent = `Only deprecated or yanked packages were found: ${counted(old.size, "package")}.`;
    else status.textContent = "Nothing found.";
  }

  function remember(what) {
    const address = new URLSearchParams();
    if (query.value) address.set("q", query.value);
    for (const name of ["framework", "target", "license", "toolchain"]) if (what[name]) address.set(name, what[name]);
    if (what.old) address.set("old", "1");
    const text = address.toString();
    history.replaceState(null, "", text ? `?${text}` : location.pathname);
  }

  function recall() {
    const address = new URLSearchParams(location.search);
    query.value = (address.get("q") || "").slice(0, 200);
    for (const name of ["framework", "target", "license", "toolchain"]) {
      const field = form.elements[name];
      const value = address.get(name) || "";
      field.value = [...field.options].some((option) => option.value === value) ? value : "";
    }
    form.elements.old.checked = address.has("old");
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    start();
  });
  for (const kind of ["input", "change"]) {
    form.addEventListener(kind, (event) => {
      // The text field also fires "change" when it loses focus, for example by a click on a result, which must not reload the list.
      if (kind === "change" && event.target === query) return;
      clearTimeout(timer);
      timer = setTimeout(start, 120);
    });
  }
  more.addEventListener("click", async () => {
    const before = list.children.length;
    await advance();
    const first = list.children[before];
    if (first) first.querySelector("a").focus();
  });
  showOld.addEventListener("click", async () => {
    form.elements.old.checked = true;
    await start();
    const first = list.querySelector("a");
    if (first) first.focus();
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      query.focus();
    } else if (event.key === "Escape" && event.target === query && query.value) {
      event.preventDefault();
      query.value = "";
      start();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      moveBetweenRows(event);
    }
  });

  // Move with the arrow keys from the search field into the results and between them.
  function moveBetweenRows(event) {
    const links = [...document.querySelectorAll(".row-name")].filter((link) => link.offsetParent);
    const place = links.indexOf(document.activeElement);
    if (place < 0 && event.target !== query) return;
    const next = place + (event.key === "ArrowDown" ? 1 : -1);
    if (next < -1 || next >= links.length || (place < 0 && next < 0)) return;
    event.preventDefault();
    (next < 0 ? query : links[next]).focus();
  }

  form.hidden = false;
  recall();
  if (location.search) start();
}

function setUpCopying(button) {
  const label = button.firstChild;
  const before = label.nodeValue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = document.getElementById(button.dataset.copy);
    const done = await copy(code);
    label.nodeValue = done ? "Copied" : "Selected";
    button.classList.toggle("done", done);
    setTimeout(() => {
      label.nodeValue = before;
      button.classList.remove("done");
    }, 1600);
  });
}

// Browsers allow access to the clipboard only on https and localhost; elsewhere the text is selected, so that Ctrl-C copies it.
async function copy(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch (error) {
    getSelection().selectAllChildren(code);
    return document.execCommand("copy");
  }
}

// If the site was rendered without the registry's address, the registry is at the address of the page.
function setUpAddress(snippets) {
  const address = new URL(snippets.dataset.registry, location.href);
  const http = address.protocol === "http:" && !/^(localhost|127[.][0-9.]+|[[]::1[]])$/.test(address.hostname);
  for (const code of snippets.querySelectorAll("code")) {
    code.textContent = code.textContent.replace(new RegExp(`${snippets.dataset.unknown}(.*)`), (_, rest) => address.href + (http ? " --allow-http" : "") + rest);
  }
}

// The grid of a night shows only models that match the name and the outcome.
function setUpGrid(form) {
  const rows = [...document.querySelectorAll(`#${form.dataset.grid} tbody tr`)];
  function show() {
    const [model, kind] = [form.elements.model.value.toLowerCase(), form.elements.kind.value];
    for (const row of rows) row.hidden = !row.dataset.model.toLowerCase().includes(model) || (kind !== "" && !row.dataset.kinds.split(",").includes(kind));
    form.querySelector("[role=status]").textContent = counted(rows.filter((row) => !row.hidden).length, "model");
  }
  for (const kind of ["input", "change"]) form.addEventListener(kind, show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
}

// Buttons and the keys + - 0 change the size of a drawing; it is moved by dragging, or by scrolling without a mouse.
function setUpZoom(buttons) {
  const frame = document.getElementById(buttons.dataset.zoom);
  const drawing = frame.querySelector("svg");
  const [width, height] = [drawing.viewBox.baseVal.width, drawing.viewBox.baseVal.height];
  let scale = 1;
  function zoom(next) {
    // Keep the point in the middle of the frame.
    const middle = [(frame.scrollLeft + frame.clientWidth / 2) / scale, (frame.scrollTop + frame.clientHeight / 2) / scale];
    scale = Math.min(4, Math.max(0.1, next));
    drawing.setAttribute("width", width * scale);
    drawing.setAttribute("height", height * scale);
    frame.scrollTo(middle[0] * scale - frame.clientWidth / 2, middle[1] * scale - frame.clientHeight / 2);
    buttons.querySelector("[role=status]").textContent = `${Math.round(scale * 100)} %`;
  }
  function act(by) {
    const style = getComputedStyle(frame);
    const [across, down] = [parseFloat(style.paddingLeft) * 2, parseFloat(style.paddingTop) * 2];
    if (by === "fit") zoom(Math.min(1, (frame.clientWidth - across) / width, (frame.clientHeight - down) / height));
    else zoom(by === "1" ? 1 : scale * Number(by));
  }
  buttons.addEventListener("click", (event) => event.target.dataset.by && act(event.target.dataset.by));
  frame.addEventListener("keydown", (event) => {
    const by = { "+": "1.25", "=": "1.25", "-": "0.8", 0: "1" }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act(by);
  });
  let last = null;
  frame.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0 && !event.target.closest("a")) last = event;
  });
  addEventListener("pointermove", (event) => {
    if (!last) return;
    frame.scrollBy(last.clientX - event.clientX, last.clientY - event.clientY);
    last = event;
  });
  addEventListener("pointerup", () => { last = null; });
  frame.classList.add("drag");
  buttons.hidden = false;
  // A wide drawing is shown whole at first, unless its texts would be too small to read.
  const room = frame.clientWidth - parseFloat(getComputedStyle(frame).paddingLeft) * 2;
  if (room < width) {
    zoom(Math.max(0.6, room / width));
    frame.scrollTo((width * scale - room) / 2, 0);
  }
}

document.querySelectorAll("[data-zoom]").forEach(setUpZoom);
document.querySelectorAll("[data-grid]").forEach(setUpGrid);
document.querySelectorAll("[data-registry]").forEach(setUpAddress);
const form = document.getElementById("search");
if (form) setUpSearch(form);
document.querySelectorAll(".copy").forEach(setUpCopying);
