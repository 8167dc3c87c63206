"use strict";
// Everything that comes from the store is written as text, never as markup.

const element = (name, text) => {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
};

const say = (text, isFault) => {
  const state = document.getElementById("state");
  state.textContent = text;
  state.className = isFault ? "fault" : "";
};

const ask = async (path, form) => {
  const answer = await fetch(path, form === undefined ? {} : { method: "POST", body: form });
  const text = await answer.text();
  if (!answer.ok && answer.status !== 409) throw new Error(text.trim());
  return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
};

// The bytes of an id: of text, or of base64 where they are no UTF-8.
const bytesOf = (timer) => timer.id !== undefined ? new TextEncoder().encode(timer.id)
  : Uint8Array.from(atob(timer.id_base64), (c) => c.charCodeAt(0));
const nameOf = (timer, name) => timer[name] ?? (timer[name + "_base64"] ? "base64 " + timer[name + "_base64"] : "");
const encoded = (bytes) => Array.from(bytes, (b) => "%" + b.toString(16).padStart(2, "0")).join("");

const change = (what, timer) => {
  const button = element("button", what);
  button.onclick = async () => {
    button.disabled = true;
    try {
      const [answer] = await ask(what, "id=" + encoded(bytesOf(timer)));
      await show();
      say(nameOf(timer, "id") + ": " + answer.result);
    } catch (fault) {
      say(fault.message, true);
      button.disabled = false;
    }
  };
  return button;
};

const fill = (list, timers, isDead) => {
  const rows = timers.map((timer) => {
    const row = document.createElement("tr");
    row.append(element("td", nameOf(timer, "id")), element("td", timer.due), element("td", timer.attempts),
      element("td", nameOf(timer, "reason")));
    if (isDead) {
      const cell = document.createElement("td");
      cell.append(change("revive", timer), " ", change("purge", timer));
      row.append(cell);
    }
    return row;
  });
  document.querySelector("#" + list + " tbody").replaceChildren(...rows);
};

const show = async () => {
  const [[stats], overdue, near, dead] = await Promise.all(["stats", "overdue", "near", "dead"].map((path) => ask(path)));
  const next = stats.next_due_ms === null ? "none" : new Date(stats.next_due_ms).toISOString();
  const figures = { waiting: stats.waiting, dead: stats.dead, damaged: stats.damaged, next,
    "overdue, ms": stats.overdue_ms };
  document.getElementById("stats").replaceChildren(...Object.entries(figures).map(([name, value]) => {
    const figure = document.createElement("div");
    figure.append(element("dt", name), element("dd", value));
    return figure;
  }));
  fill("overdue", overdue, false);
  fill("near", near, false);
  fill("dead", dead, true);
  say("as of " + new Date().toISOString());
};

const keepShowing = async () => {
  try {
    if (!document.hidden) await show();
  } catch (fault) {
    say(fault.message, true);
  }
  setTimeout(keepShowing, 2000);
};
keepShowing();
