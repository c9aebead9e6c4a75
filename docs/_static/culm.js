"use strict";
// A page read from a file may not fetch others, so the search there lists what it finds without an extract of each page.
// (The options are a constant of the page, and so no property of ``window``.)
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// Over plain HTTP from another machine browsers offer the old way only.
const copyOldWay = (text) => {
  const area = document.body.appendChild(document.createElement("textarea"));
  area.value = text;
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("the browser did not copy");
};
const copy = async (text) => {
  if (!navigator.clipboard) return copyOldWay(text);
  return navigator.clipboard.writeText(text).catch(() => copyOldWay(text));
};

const addButton = (block) => {
  const button = document.createElement("button");
  const say = (text) => {
    button.textContent = text;
    setTimeout(() => (button.textContent = "Copy"), 2000);
  };
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-live", "polite"); // The button itself says "Copied".
  button.addEventListener("click", () =>
    copy(block.querySelector("pre").textContent.trimEnd() + "\n").then(() => say("Copied"), () => say("Not copied"))
  );
  block.append(button);
};

// Pictures made of characters must not be folded, so their letters shrink until the widest line fits.
const isPicture = (pre) => /[│└┌◀▶▼─]{2}|│/.test(pre.textContent);

// Browsers break a line behind a dash: "--" at the end of one and "option" on the next is hard to read.
const keepOptions = (pre) => {
  const texts = [];
  for (const walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT); walker.nextNode(); )
    texts.push(walker.currentNode);
  for (const text of texts) {
    const parts = text.data.split(/(--[\w-]+)/);
    const kept = (part) => Object.assign(document.createElement("span"), { className: "option", textContent: part });
    if (parts.length > 1) text.replaceWith(...parts.map((part, number) => (number % 2 ? kept(part) : part)));
  }
};

// What scrolls sideways is reached with the keyboard, too, and then moved with the arrow keys.
const reachable = () => {
  for (const one of document.querySelectorAll(".table-wrapper, pre")) {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
    else one.removeAttribute("tabindex");
  }
};
addEventListener("load", reachable);
addEventListener("resize", reachable);

addEventListener("DOMContentLoaded", () => {
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "All pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
  for (const block of document.querySelectorAll("[class*='highlight-'] > .highlight")) {
    const pre = block.querySelector("pre");
    keepOptions(pre);
    if (isPicture(pre)) {
      pre.classList.add("picture");
      pre.style.setProperty("--columns", Math.max(...pre.textContent.split("\n").map((line) => line.length)));
    } else if (!block.parentElement.matches(".highlight-text, .highlight-none")) addButton(block);
  }
});
