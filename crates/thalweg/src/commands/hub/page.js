// Asks for the hub's state once a second and shows it: boards and clients, what went wrong in red.
"use strict";

let before = null;

const whole = (count) => count.toLocaleString("en");
const within = (us, answered) => (us === null ? (answered ? "> 500 ms" : "—") : us < 1000 ? `${us} µs` : `${us / 1000} ms`);
// Codes of the protocol, by their number.
const CODES = {
  1: "no reply", 2: "no room", 3: "no status", 4: "reset, or used by others", 5: "bad status", 6: "no IPbus 2.0", 7: "not allowed",
};
const refused = (counts) => Object.entries(counts).map(([code, count]) => `${whole(count)} ${CODES[code] ?? code}`).join(", ");

function row(cells) {
  const line = document.createElement("tr");
  for (const [text, wrong] of cells) {
    const cell = line.insertCell();
    cell.textContent = text;
    if (wrong) cell.className = "wrong";
  }
  return line;
}

function fill(table, rows, nobody) {
  const body = document.querySelector(`#${table} tbody`);
  body.replaceChildren(...rows);
  if (rows.length === 0) {
    const cell = body.insertRow().insertCell();
    cell.colSpan = 9;
    cell.className = "nobody";
    cell.textContent = nobody;
  }
}

function show(state, seconds) {
  const rate = (board) => {
    const last = before?.targets.find((one) => one.target === board.target);
    return last && seconds > 0 ? whole(Math.round((board.sent - last.sent) / seconds)) : "—";
  };
  fill("targets", state.targets.map((board) => row([
    [board.target],
    [whole(board.sent)],
    [rate(board)],
    [within(board.latency_us.half_at_most, board.answered)],
    [within(board.latency_us["99_percent_at_most"], board.answered)],
    [whole(board.requests_repeated + board.replies_repeated)],
    [refused(board.refused) || "0", Object.keys(board.refused).length > 0],
    [whole(board.restarts), board.restarts > 0],
    [whole(board.conflicts), board.conflicts > 0],
  ])), "no board has been asked for");
  fill("clients", state.clients.map((client) => row([
    [client.address ?? "others"],
    [whole(client.connections)],
    [whole(client.asked)],
    [whole(client.answered)],
    [refused(client.refused) || "0", Object.keys(client.refused).length > 0],
    [whole(client.abandoned), client.abandoned > 0],
    [whole(client.bytes_received)],
    [whole(client.bytes_sent)],
  ])), "nobody has come");
  const wrong = state.broken + state.turned_away;
  document.querySelector("#standing").textContent =
    (state.is_ending ? "ending" : "serving") +
    (wrong ? `; ${whole(state.broken)} connections closed for what they sent, ${whole(state.turned_away)} turned away` : "");
}

async function look() {
  try {
    const answer = await fetch("/state");
    if (!answer.ok) throw new Error(answer.statusText);
    const state = await answer.json();
    state.at = performance.now();
    show(state, before ? (state.at - before.at) / 1000 : 0);
    before = state;
  } catch {
    document.querySelector("#standing").textContent = "the hub does not answer: it has ended, or its host is not reached";
  }
  setTimeout(look, 1000);
}

look();
