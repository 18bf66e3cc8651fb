// The list of versions in the header, with the same page of each version that has it. Versions and their pages stand in
// ../versions.js, which tools/make_docs.py writes: a script, because pages that are opened from a folder may read no
// other files.
"use strict";
(() => {
  const base = new URL("..", document.currentScript.src); // of this version
  const element = (name, of, more = {}) =>
    Object.assign(document.createElement(name), { className: `md-version${of}`, ...more });

  function show(versions) {
    const name = decodeURIComponent(base.pathname.split("/").at(-2));
    const page = decodeURIComponent(location.pathname.slice(base.pathname.length));
    const list = element("ul", "__list");
    for (const { version, pages } of versions) {
      const href = new URL(`../${version}/${pages.includes(page) ? page : "index.html"}`, base);
      const item = element("li", "__item");
      const link = element("a", "__link", { href, textContent: version });
      if (version === name) link.setAttribute("aria-current", "true");
      item.append(link);
      list.append(item);
    }
    const chosen = element("button", "__current", { textContent: name, ariaLabel: `Version ${name}: choose another` });
    const all = element("div", "");
    all.append(chosen, list);
    document.querySelector(".md-header__topic").append(all);
  }

  const script = document.createElement("script");
  script.src = new URL("../versions.js", base);
  script.onload = () => show(globalThis.tfaotVersions);
  document.head.append(script);
})();
