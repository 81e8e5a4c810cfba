"use strict";
// The page around tess.js: one move in four kinds of steps, drawn, and said in a sentence.

const $ = (id) => document.getElementById(id);
const START = [-4, 4.6]; // out in an arm, where a map matters
const SEED = 2023;
const SPEEDS = [1500, 700, 250, 60, 16]; // milliseconds between steps
const isCalm = matchMedia("(prefers-reduced-motion: reduce)");
const fixed = (value, digits = 2) => value.toFixed(digits).replace("-", "−");
const point = ([a, b]) => `(${fixed(a)}, ${fixed(b)})`;

let game; // all that changes: the chain, the move under way, the draws
let timer = null;

function reset() {
  pause();
  const map = MAPS[$("map").value];
  const state = evaluate(map, map.pull(START));
  game = { map, random: randomNumbers(SEED), state, arc: null, phase: "rest", tried: null, rejected: [], taken: null,
           numTries: 0, draws: [], ratios: [], totalTries: 0 };
  say(`The chain stands at u = ${point(state.reference)}, which T pushes to x = ${point(state.position)}. ` +
      "Step to begin a move.", []);
  show();
}

// The four kinds of steps: the ellipse, the slice, a try, what comes of it.
const NEXT = {
  rest() {
    game.arc = begin(game.random, game.state);
    Object.assign(game, { phase: "ellipse", rejected: [], taken: null, tried: null, numTries: 0 });
    return [`Line 1. A momentum v = ${point(game.arc.momentum)} is drawn. With u it spans an ellipse in reference space; T bends ` +
            "its image in target space.", [1]];
  },
  ellipse() {
    game.phase = "slice";
    const share = insideShare();
    return [`Lines 2 and 3. The slice is drawn: a point counts if its r is above ${fixed(game.arc.logHeight)}, ` +
            `${fixed(game.state.logRatio - game.arc.logHeight)} below the chain's own r. ` +
            `${Math.round(100 * share)} % of the ellipse is inside.`, [2, 3]];
  },
  slice() {
    game.phase = "tried";
    game.tried = evaluate(game.map, ask(game.arc));
    const first = game.arc.numTries === 0;
    const what = `θ = ${fixed(game.arc.angle)} is tried: one evaluation of the density at x′ = ${point(game.tried.position)}.`;
    if (first) return [`Lines 4 to 7. The bracket is the whole ellipse. ${what}`, [4, 5, 6, 7]];
    return [`Lines 17, 18, 6 and 7. ${what} The bracket has ${bracketShare()} % of the circle left.`, [17, 18, 6, 7]];
  },
  tried() {
    const { arc, tried } = game;
    const [isInside, next] = tell(game.random, arc, tried.logRatio);
    game.numTries = next.numTries;
    if (isInside) return accept(tried, next.numTries);
    game.rejected.push({ ...tried, angle: arc.angle });
    Object.assign(game, { arc: next, phase: "slice", tried: null });
    const lines = arc.angle < 0 ? [8, 11, 12, 13] : [8, 11, 12, 14, 15];
    const side = arc.angle < 0 ? "θ is negative, so θ_min becomes θ (line 13)" : "θ is not negative, so θ_max becomes θ (line 15)";
    return [`Line 8. Rejected: r = ${fixed(tried.logRatio)} is below the slice. ${side}. The bracket shrinks, and θ = 0, ` +
            "where the chain stands, stays in it.", lines];
  },
};

function accept(tried, numTries) {
  game.taken = { ...tried, angle: game.arc.angle };
  game.state = tried;
  game.phase = "rest";
  game.draws.push(tried.position);
  game.ratios.push(tried.logRatio);
  game.totalTries += numTries;
  const tries = numTries === 1 ? "the first try" : `try ${numTries}`;
  return [`Lines 8 to 10. Accepted at ${tries}: r = ${fixed(tried.logRatio)} is above the slice. x′ = ` +
          `${point(tried.position)} is draw ${game.draws.length}, and the chain goes there.`, [8, 9, 10]];
}

function stepOnce() {
  say(...NEXT[game.phase]());
  show();
}

function drawMany(count) {
  const goal = game.draws.length + count;
  let said;
  while (game.draws.length < goal) said = NEXT[game.phase]();
  say(...said);
  show();
}

function play() {
  $("play").textContent = "Pause";
  $("play").setAttribute("aria-pressed", "true");
  // A screen reader cannot follow many sentences a second.
  $("sentence").setAttribute("aria-live", "off");
  tick();
}

function tick() {
  const speed = Number($("speed").value);
  if (isCalm.matches || speed === 4) drawMany(1);
  else stepOnce();
  timer = setTimeout(tick, isCalm.matches ? Math.max(1000, SPEEDS[speed]) : SPEEDS[speed]);
}

function pause() {
  clearTimeout(timer);
  timer = null;
  $("play").textContent = "Play";
  $("play").setAttribute("aria-pressed", "false");
  $("sentence").setAttribute("aria-live", "polite");
}

function say(sentence, lines) {
  $("sentence").textContent = sentence;
  [...$("algorithm").children].forEach((line, i) => {
    if (lines.includes(i + 1)) line.setAttribute("aria-current", "step");
    else line.removeAttribute("aria-current");
  });
}

// --- what is drawn ---

const AROUND = Array.from({ length: 721 }, (_, i) => i / 720);
const onCircle = (radius) => AROUND.map((t) => [radius * Math.cos(2 * Math.PI * t), radius * Math.sin(2 * Math.PI * t)]);
const CONTOURS = [1, 2, 3].map((radius) => onCircle(radius).map(MAPS.exact.push)); // the exact map knows them
const ratioAt = (angle) => evaluate(game.map, onEllipse(game.arc, angle)).logRatio;
const bracketShare = () => Math.round((game.arc.upper - game.arc.lower) / (2 * Math.PI) * 100) || "less than 1";

// Angles once around the ellipse; a search covers [θ - 2π, θ], and 0 is where the chain stands.
const anglesAround = (arc) => { const [low, high] = span(arc); return AROUND.map((t) => low + (high - low) * t); };
const span = (arc) => [arc.first - 2 * Math.PI, arc.first];

function insideShare() {
  return anglesAround(withFirst()).filter((angle) => ratioAt(angle) > game.arc.logHeight).length / AROUND.length;
}

// The first angle of a search: the bracket shrinks, the picture keeps its ends.
function withFirst() {
  if (game.arc.numTries === 0) game.first = game.arc.upper;
  return { ...game.arc, first: game.first };
}

function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const style = getComputedStyle(document.documentElement);
  pen.color = (name) => style.getPropertyValue(`--${name}`).trim();
  return { pen, width, height };
}

function trace(pen, points, color, width) {
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.strokeStyle = pen.color(color);
  pen.lineWidth = width;
  pen.stroke();
}

function dot(pen, [x, y], color, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fillStyle = pen.color(color);
  pen.fill();
}

function cross(pen, [x, y], size = 5) {
  trace(pen, [[x - size, y - size], [x + size, y + size]], "rejected", 2);
  trace(pen, [[x - size, y + size], [x + size, y - size]], "rejected", 2);
}

// Runs of neighbouring angles for which something holds.
function runs(angles, holds) {
  const found = [];
  let run = null;
  for (const angle of angles) {
    if (!holds(angle)) run = null;
    else if (run) run.push(angle);
    else found.push((run = [angle]));
  }
  return found;
}

function drawSpace(canvas, isTarget) {
  const { pen, width, height } = prepare(canvas);
  const isWide = isTarget || game.map === MAPS.none;
  const [middle, half] = isWide ? [[0, 6], 11] : [[0, 0], 4.2];
  const place = ([x, y]) => [width * (0.5 + (x - middle[0]) / (2 * half)), height * (0.5 - (y - middle[1]) / (2 * half))];
  const here = (u) => place(isTarget ? game.map.push(u) : u);
  for (const contour of CONTOURS) trace(pen, contour.map((x) => place(isTarget ? x : game.map.pull(x))), "contour", 1);
  drawAxes(pen, width, height, place, isTarget ? "x" : "u");
  pen.globalAlpha = 0.55;
  for (const x of game.draws.slice(-4000)) dot(pen, place(isTarget ? x : game.map.pull(x)), "draws", 2);
  pen.globalAlpha = 1;
  if (game.arc) drawEllipse(pen, here);
  if (game.phase !== "rest" || !game.taken) dot(pen, here(game.state.reference), "now", 6);
}

function drawAxes(pen, width, height, place, name) {
  const [x, y] = place([0, 0]);
  pen.globalAlpha = 0.5;
  trace(pen, [[x, 0], [x, height]], "contour", 0.7);
  trace(pen, [[0, y], [width, y]], "contour", 0.7);
  pen.globalAlpha = 1;
  pen.fillStyle = pen.color("soft");
  pen.font = "italic 14px system-ui, sans-serif";
  pen.fillText(`${name}₁`, width - 22, y - 6);
  pen.fillText(`${name}₂`, x + 6, 16);
}

function drawEllipse(pen, here) {
  const arc = withFirst(), angles = anglesAround(arc), at = (angle) => here(onEllipse(arc, angle));
  const line = (run, color, width) => trace(pen, run.map(at), color, width);
  if (["slice", "tried"].includes(game.phase)) {
    line(angles.filter((angle) => angle >= arc.lower && angle <= arc.upper), "bracket", 8);
  }
  line(angles, "ellipse", 1.6);
  if (game.phase !== "ellipse") {
    for (const run of runs(angles, (angle) => ratioAt(angle) > arc.logHeight)) line(run, "slice", 3);
  }
  dot(pen, here(arc.momentum), "momentum", 4.5);
  for (const { reference } of game.rejected) cross(pen, here(reference));
  if (game.tried) {
    dot(pen, here(game.tried.reference), "bracket", 6.5);
    dot(pen, here(game.tried.reference), "now", 3);
  }
  if (game.taken && game.phase === "rest") {
    dot(pen, here(arc.reference), "now", 5);
    dot(pen, here(game.taken.reference), "accepted", 7);
  }
}

function drawAround(canvas) {
  const { pen, width, height } = prepare(canvas);
  pen.font = "13px system-ui, sans-serif";
  pen.fillStyle = pen.color("soft");
  if (!game.arc) return pen.fillText("Step to draw an ellipse.", 12, 24);
  const arc = withFirst(), angles = anglesAround(arc), [low, high] = span(arc), ratios = angles.map(ratioAt);
  // What counts is near the slice: the deep falls are cut off.
  const start = ratioAt(0), bottom = Math.max(Math.min(...ratios), arc.logHeight - 6) - 1, top = Math.max(...ratios, start) + 1;
  const across = (angle) => 14 + (width - 28) * (angle - low) / (high - low);
  const up = (ratio) => 8 + (height - 34) * (top - Math.max(ratio, bottom)) / (top - bottom);
  const curve = (run, color, size) => trace(pen, run.map((angle) => [across(angle), up(ratioAt(angle))]), color, size);
  pen.fillText("θ − 2π", 8, height - 8);
  pen.fillText("θ", width - 18, height - 8);
  pen.fillText("0", across(0) - 3, height - 8);
  trace(pen, [[across(0), 8], [across(0), height - 24]], "rule", 1);
  if (["slice", "tried"].includes(game.phase)) {
    trace(pen, [[across(arc.lower), height - 24], [across(arc.upper), height - 24]], "bracket", 6);
  }
  curve(angles, "ellipse", 1.6);
  if (game.phase !== "ellipse") {
    pen.setLineDash([5, 4]);
    trace(pen, [[14, up(arc.logHeight)], [width - 14, up(arc.logHeight)]], "soft", 1.2);
    pen.setLineDash([]);
    for (const run of runs(angles, (angle) => ratioAt(angle) > arc.logHeight)) curve(run, "slice", 3);
  }
  dot(pen, [across(0), up(start)], "now", 5);
  for (const { angle, logRatio } of game.rejected) cross(pen, [across(angle), up(logRatio)], 4);
  if (game.tried) dot(pen, [across(arc.angle), up(game.tried.logRatio)], "bracket", 6);
  if (game.taken && game.phase === "rest") dot(pen, [across(game.taken.angle), up(game.taken.logRatio)], "accepted", 6);
}

function show() {
  drawSpace($("reference"), false);
  drawSpace($("target"), true);
  drawAround($("around"));
  const { draws, ratios, state } = game, mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const center = mean(ratios);
  $("draws").textContent = draws.length;
  $("tries").textContent = game.numTries;
  $("ratio").textContent = fixed(state.logRatio);
  $("mean").textContent = draws.length ? fixed(game.totalTries / draws.length) : "–";
  $("spread").textContent = draws.length > 1 ? fixed(Math.sqrt(mean(ratios.map((r) => (r - center) ** 2)))) : "–";
  $("average").textContent = draws.length ? fixed(mean(draws.map(([, x]) => x))) : "–";
  const where = `the chain at ${point(state.reference)}, ${draws.length} draws, ${game.rejected.length} rejected tries in this move`;
  $("reference").setAttribute("aria-label", `Reference space: contours of the target as the sampler sees it, ${where}.`);
  $("target").setAttribute("aria-label", `Target space: contours of the banana, the image of the ellipse, ${where}.`);
  $("around").setAttribute("aria-label", "The value of r around the ellipse, the height of the slice and the bracket.");
}

// --- buttons and keys ---

const choose = (name, by) => {
  const field = $(name);
  if (name === "map") field.selectedIndex = (field.selectedIndex + by) % field.options.length;
  else field.value = Number(field.value) + by;
  field.dispatchEvent(new Event("change"));
};
const ACTIONS = {
  step: () => { pause(); stepOnce(); },
  play: () => (timer === null ? play() : pause()),
  draw: () => { pause(); drawMany(1); },
  many: () => { pause(); drawMany(100); },
  reset,
};
for (const [name, act] of Object.entries(ACTIONS)) $(name).addEventListener("click", act);
$("map").addEventListener("change", reset);

const KEYS = {
  s: ACTIONS.step, ArrowRight: ACTIONS.step, p: ACTIONS.play, d: ACTIONS.draw, h: ACTIONS.many, r: reset,
  m: () => choose("map", 1), "+": () => choose("speed", 1), "-": () => choose("speed", -1),
};
document.addEventListener("keydown", (event) => {
  // A field that has the focus keeps its own keys.
  const isField = ["SELECT", "INPUT"].includes(event.target.tagName);
  if (isField || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});

window.addEventListener("resize", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
reset();
