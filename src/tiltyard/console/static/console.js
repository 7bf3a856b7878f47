// What the console does in the browser: live parts, ages and countdowns, light and dark, one key.
"use strict";

const every = (selector, act, root = document) => root.querySelectorAll(selector).forEach(act);

// Parts marked as live are fetched again until the server says that they are complete.
async function follow() {
  const part = document.querySelector("[data-live]");
  if (!part) return;
  await new Promise((wake) => setTimeout(wake, 700));
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById(part.id);
    if (fresh) part.replaceWith(document.adoptNode(fresh));
    else part.removeAttribute("data-live");
  } catch {
    await new Promise((wake) => setTimeout(wake, 3000)); // the server is away for a moment
  }
  follow();
}

// Times as people say them, the same words as on the server.
const SPANS = [["year", 31557600], ["month", 2629800], ["day", 86400], ["hour", 3600], ["minute", 60]];
const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

function age(seconds) {
  for (const [noun, span] of SPANS)
    if (seconds >= span) return `${counted(Math.floor(seconds / span), noun)} ago`;
  return "just now";
}

function until(seconds) {
  for (const [noun, span] of SPANS)
    if (seconds >= 0.95 * span) return `in ${counted(Math.round(seconds / span), noun)}`;
  return seconds > 0 ? `in ${Math.ceil(seconds)} s` : "expired";
}

function tick() {
  const seconds = (time) => (Date.parse(time.dateTime) - Date.now()) / 1000;
  every("time[data-age]", (time) => (time.textContent = age(-seconds(time))));
  every("time[data-until]", (time) => (time.textContent = until(seconds(time))));
}

// Light and dark: as the system says, until somebody chooses. A cookie tells the server.
function chooseTheme() {
  const root = document.documentElement;
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme === "auto" ? (isDark ? "dark" : "light") : root.dataset.theme;
  root.dataset.theme = now === "dark" ? "light" : "dark";
  document.cookie = `tiltyard_theme=${root.dataset.theme}; path=/console; max-age=31536000; samesite=strict`;
}

every("[data-theme-toggle]", (button) => {
  button.hidden = false;
  button.addEventListener("click", chooseTheme);
});

// A slash goes to the search, as in many places.
document.addEventListener("keydown", (event) => {
  const search = document.querySelector("[data-key='/']");
  if (event.key === "/" && search && !event.target.closest("input")) {
    event.preventDefault();
    search.focus();
  }
});

setInterval(tick, 1000);
follow();
