"use strict";
const find = (selector, from = document) => from.querySelector(selector);
const message = (text) => { find("#message").textContent = text; };

const ENDED = `the review server has ended; run \`orch review ${document.body.dataset.run}\` again`;

class Refused extends Error {
  constructor(status, told) {
    super(told.error || `the server answered ${status}`);
    Object.assign(this, { status, told });
  }
}

const ask = async (path, options, whenGone) => {
  const answer = await fetch(path, options).catch(() => { throw new Error(whenGone); });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, told);
  return told;
};

const post = (path, body) => ask(path, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
}, `${ENDED}; this was not saved`);

const get = (path) => ask(path, {}, ENDED);

const press = (buttons, chosen) =>
  buttons.forEach((button) => button.setAttribute("aria-pressed", String(button === chosen)));

// ---- decisions

const LEAST = Number(document.body.dataset.minReason);

const show = (card, state, told) => {
  card.dataset.state = state;
  card.dataset.known = told.known || "";
  find("[data-shows-state]", card).textContent = state;
  find("[data-undo]", card).hidden = state === "open" || state === "settled";
  find("#open-count").textContent = String(told.open);
};

const undecided = (card) => (card.dataset.open ? "open" : "settled");

const refuse = (card, error) => {
  // Another tab was first: what stands there now is shown, and what was typed here stays.
  if (error.status === 409) show(card, error.told.verdict || undecided(card), error.told);
  find(".problem", card).textContent = error.message;
};

const decide = async (card, verdict) => {
  find(".problem", card).textContent = "";
  const { subject, known } = card.dataset;
  const reason = find("textarea", card).value;
  try {
    if (verdict === "accepted" && [...reason.trim()].length < LEAST) {
      throw new Error(`accepting needs a reason of at least ${LEAST} characters`);
    }
    const others = find("[data-others]", card)?.checked ? "yes" : "";
    const told = await post("decide", { subject, verdict, reason, known, others });
    show(card, told.verdict, told);
    told.others.forEach((one) => {
      const other = find(`.card[data-subject="${CSS.escape(one.subject)}"]`);
      if (!other) return;
      find("textarea", other).value = reason;
      show(other, told.verdict, { ...told, known: one.known });
    });
  } catch (error) {
    refuse(card, error);
    find("textarea", card).focus();
  }
};

const undo = async (card) => {
  find(".problem", card).textContent = "";
  try {
    const { subject, known } = card.dataset;
    show(card, undecided(card), await post("undo", { subject, known }));
  } catch (error) {
    refuse(card, error);
  }
};

find("#decide").addEventListener("click", (event) => {
  const card = event.target.closest(".card");
  if (!card) return;
  const { verdict, mode } = event.target.dataset;
  if (verdict) decide(card, verdict);
  if ("undo" in event.target.dataset) undo(card);
  if (mode) {
    const images = find("[data-images]", card);
    images.className = `images ${mode}`;
    press(images.querySelectorAll("[data-mode]"), event.target);
  }
});
find("#decide").addEventListener("submit", (event) => event.preventDefault());
find("#decide").addEventListener("input", (event) => {
  if (!("fade" in event.target.dataset)) return;
  event.target.closest("[data-images]").style.setProperty("--fade", event.target.value / 100);
});

find("#filters").addEventListener("click", (event) => {
  const wanted = event.target.dataset.filter;
  if (wanted === undefined) return;
  press(find("#filters").querySelectorAll("button"), event.target);
  let shown = 0;
  document.querySelectorAll(".card").forEach((card) => {
    const { state, kind, status } = card.dataset;
    card.hidden = wanted !== "" && ![state, kind, status].includes(wanted);
    shown += card.hidden ? 0 : 1;
  });
  find("#nothing").hidden = shown > 0;
});

find("#finish").addEventListener("click", async () => {
  try {
    const done = await post("finish", {});
    const ledger = done.ledger ? ` The next ledger is drafted in ${done.ledger}: read it, then commit it.` : "";
    message(`${done.words}. Kept in ${done.review}.${ledger}`);
    find("#finish").disabled = true;
  } catch (error) {
    message(error.message);
  }
});

// ---- files: a window of lines, fetched in blocks, over a file of any length

const LINE_PX = 20;
const BLOCK = 200;
const log = { key: "", total: 0, first: 1, marked: 0, kept: new Map(), drawing: 0 };
const info = (text) => { find("#log-info").textContent = text; };
const counted = (lines) => `${lines} ${lines === 1 ? "line" : "lines"}`;
const visible = () => Math.max(1, Math.floor((find("#log-view").clientHeight - 24) / LINE_PX));

const block = (number) => {
  if (log.kept.size > 50) log.kept.clear();
  if (!log.kept.has(number)) {
    log.kept.set(number, get(`log/${log.key}?first=${number * BLOCK + 1}&count=${BLOCK}`));
  }
  return log.kept.get(number);
};

const item = (line) => {
  const row = document.createElement("li");
  const number = document.createElement("b");
  number.textContent = line.number;
  row.append(number, line.text + (line.cut ? " …" : ""));
  if (line.number === log.marked) row.className = "hit";
  return row;
};

const draw = async (wanted) => {
  const turn = ++log.drawing;
  const count = visible();
  const first = Math.max(1, Math.min(wanted, Math.max(1, log.total - count + 1)));
  log.first = first;
  const numbers = [];
  for (let n = Math.floor((first - 1) / BLOCK); n * BLOCK < first + count; n += 1) numbers.push(n);
  try {
    const blocks = await Promise.all(numbers.map(block));
    if (turn !== log.drawing) return;
    log.total = blocks[0].total;
    const lines = blocks.flatMap((one) => one.lines);
    find("#log-lines").replaceChildren(
      ...lines.filter((line) => line.number >= first && line.number < first + count).map(item));
    find("#log-slider").max = String(Math.max(1, log.total));
    find("#log-slider").value = find("#log-line").value = String(first);
    info(counted(log.total));
  } catch (error) {
    log.kept.clear();
    info(error.message);
  }
};

const open = async () => {
  const choice = find("#log-file").selectedOptions[0];
  Object.assign(log, { key: choice.value, total: 0, first: 1, marked: 0 });
  log.kept.clear();
  const isImage = choice.dataset.image;
  const isText = log.key !== "" && !isImage;
  find("#log-hits").hidden = true;
  find("#log-image").hidden = !isImage;
  if (isImage) find("#log-image").src = `file/${log.key}`;
  find("#log-view").hidden = !isText;
  find("#log-search").disabled = find("#log-line").disabled = !isText;
  info("");
  if (isText) await draw(1);
};

const search = async () => {
  const words = find("#log-search").value;
  find("#log-hits").hidden = !words;
  if (!words) return;
  try {
    const told = await get(`log/${log.key}/search?words=${encodeURIComponent(words)}`);
    const found = `${told.lines.length}${told.complete ? "" : " or more"} of ${counted(log.total)}`;
    info(`${found} ${told.complete && told.lines.length === 1 ? "has" : "have"} it`);
    find("#log-hits").replaceChildren(...told.lines.map((hit) => {
      const row = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `${hit.number}: ${hit.text.slice(0, 300)}`;
      button.addEventListener("click", () => { log.marked = hit.number; draw(hit.number - 3); });
      row.append(button);
      return row;
    }));
  } catch (error) {
    info(error.message);
  }
};

find("#log-file").addEventListener("change", open);
find("#log-search").addEventListener("change", search);
find("#log-line").addEventListener("change", () => draw(Number(find("#log-line").value) || 1));
find("#log-slider").addEventListener("input", () => draw(Number(find("#log-slider").value)));
find("#log-view").addEventListener("wheel", (event) => {
  if (event.deltaX !== 0) return;
  event.preventDefault();
  const lines = Math.max(1, Math.round(Math.abs(event.deltaY) / LINE_PX));
  draw(log.first + Math.sign(event.deltaY) * lines);
}, { passive: false });
find("#log-view").addEventListener("keydown", (event) => {
  if (event.target.id === "log-slider") return;
  const page = visible() - 1;
  const place = {
    ArrowDown: log.first + 1, ArrowUp: log.first - 1, PageDown: log.first + page,
    PageUp: log.first - page, Home: 1, End: log.total,
  }[event.key];
  if (place === undefined) return;
  event.preventDefault();
  draw(place);
});
