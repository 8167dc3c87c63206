// The search of the site, in place of doxygen's, which knows names and their beginnings only: it looks for what
// is typed in all that scripts/pages/site-search has put into sections.js. Doxygen's pages make the box, and call what
// begins with a capital.
"use strict";

const MOST = 40; // results that are shown

// How well a section answers: 0 is best, null not at all.
function rank(section, words, phrase) {
  const {title, text} = section.lower;
  if (title.startsWith(phrase) || title.includes("::" + phrase)) return 0;
  if (title.includes(phrase)) return 1;
  if (text.includes(phrase)) return 2;
  return words.every((word) => title.includes(word) || text.includes(word)) ? 3 : null;
}

function element(tag, text, className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
}

// A link to a section, with the words around the place where it has what was looked for.
function result(section, words, phrase) {
  const place = [phrase, ...words].map((part) => section.lower.text.indexOf(part)).find((found) => found >= 0) ?? 0;
  const at = place < 50 ? 0 : section.text.indexOf(" ", place - 50) + 1;
  const link = element("a", section.title, "found");
  link.href = section.url;
  if (section.page !== section.title) link.append(element("small", " " + section.page));
  link.append(element("p", (at > 0 ? "… " : "") + section.text.slice(at, at + 150)));
  return link;
}

class SearchBox {
  constructor(_name, folder, label) {
    this.folder = folder;
    this.label = label;
    this.sections = null;
  }

  field() { return document.getElementById("MSearchField"); }
  results() { return document.getElementById("MSearchResultsWindow"); }

  OnSearchFieldFocus(entered) {
    document.getElementById("MSearchBox").className = entered ? "MSearchBoxActive" : "MSearchBoxInactive";
    if (entered && this.field().value === this.label) this.field().value = "";
    if (!entered && this.field().value === "") this.field().value = this.label;
    if (entered && !this.sections) this.load();
  }

  OnSearchFieldChange(event) {
    if (event.key === "Escape") this.CloseResultsWindow();
    else if (event.key === "Enter") this.results().querySelector("a")?.click();
    else this.look();
  }

  OnSearchSelectShow() {}
  OnSearchSelectHide() {}

  CloseResultsWindow() {
    this.results().style.display = "none";
    document.getElementById("MSearchClose").style.display = "none";
    this.field().value = "";
  }

  // Of pages that are read from files, scripts are the only data that browsers load.
  load() {
    this.sections = [];
    const script = document.createElement("script");
    script.src = this.folder + "/sections.js";
    document.head.append(script);
  }

  // Called by sections.js.
  take(sections) {
    this.sections = sections.map(([title, page, url, text]) => (
      {title, page, url, text, lower: {title: title.toLowerCase(), text: text.toLowerCase()}}));
    if (this.field().value !== this.label) this.look();
  }

  look() {
    const words = this.field().value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) return;
    const phrase = words.join(" ");
    const found = this.sections.map((section) => ({section, rank: rank(section, words, phrase)}))
      .filter((one) => one.rank !== null).sort((a, b) => a.rank - b.rank).slice(0, MOST)
      .map((one) => result(one.section, words, phrase));
    this.results().replaceChildren(...(found.length > 0 ? found : [element("p", "Nothing found.")]));
    const box = document.getElementById("MSearchBox").getBoundingClientRect();
    this.results().style.top = `${box.bottom + scrollY + 8}px`;
    this.results().style.display = "block";
    document.getElementById("MSearchClose").style.display = "inline-block";
  }
}

function init_search() {}
