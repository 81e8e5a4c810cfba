"use strict";
// Algorithm 1 on the banana of Figure 1: numbers only, nothing of the page. The names are those of tessmc.kernels.

// Random numbers of a seed: Doty-Humphrey's small counting generator, 32 bits at a time.
function randomNumbers(seed) {
  let a = 0, b = 0, c = seed | 0, count = 1;
  function bits() {
    const sum = (a + b + count) | 0;
    count = (count + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }
  for (let i = 0; i < 16; i++) bits(); // seeds that are neighbours part
  const uniform = () => (bits() + 0.5) / 2 ** 32; // never 0, never 1
  const exponential = () => -Math.log(uniform());
  function normals() { // two, as Box and Muller have them
    const radius = Math.sqrt(2 * exponential()), angle = 2 * Math.PI * uniform();
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  }
  return { uniform, exponential, normals };
}

// log π up to a constant.
const logDensity = ([a, b]) => -(a * a / 8 + (b - a * a / 4) ** 2) / 2;

// Maps T: push is u → x, pull is x → u, logDet is log |det ∇T(u)|.
const MAPS = {
  exact: {
    push: ([a, b]) => [Math.sqrt(8) * a, b + 2 * a * a],
    pull: ([a, b]) => [a / Math.sqrt(8), b - a * a / 4],
    logDet: () => Math.log(8) / 2,
  },
  rough: { // about right, as a map learned in a hurry
    push: ([a, b]) => { const x = 1.8 * Math.sinh(a); return [x, 1.5 * b + 0.5 + x * x / 6]; },
    pull: ([a, b]) => [Math.asinh(a / 1.8), (b - 0.5 - a * a / 6) / 1.5],
    logDet: ([a]) => Math.log(1.8 * 1.5 * Math.cosh(a)),
  },
  none: { push: (u) => u, pull: (x) => x, logDet: () => 0 },
};

// Planted for the tests, to show that they can fail: "log det" and "momentum" are what is then forgotten.
// r(u) = log π(T(u)) + log |det ∇T(u)| + |u|²/2; the square stands for log φ(v'), since a rotation keeps |u|² + |v|².
function evaluate(map, reference, forgotten = "") {
  const position = map.push(reference);
  const logDet = forgotten === "log det" ? 0 : map.logDet(reference);
  const square = forgotten === "momentum" ? 0 : (reference[0] ** 2 + reference[1] ** 2) / 2;
  return { reference, position, logRatio: logDensity(position) + logDet + square };
}

// Draw the ellipse, the slice and the first angle (lines 1-5).
function begin(random, state) {
  const momentum = random.normals();
  const logHeight = state.logRatio - random.exponential(); // the log of a uniform is minus an exponential
  const angle = 2 * Math.PI * random.uniform();
  return { reference: state.reference, momentum, logHeight, angle, lower: angle - 2 * Math.PI, upper: angle, numTries: 0 };
}

// The point of an arc at an angle (line 6).
function onEllipse({ reference, momentum }, angle) {
  const cos = Math.cos(angle), sin = Math.sin(angle);
  return [reference[0] * cos + momentum[0] * sin, reference[1] * cos + momentum[1] * sin];
}

// The reference point at which the target is needed next.
const ask = (arc) => onEllipse(arc, arc.angle);

// Inside the slice? And the arc left to search if not (lines 8 and 12-18).
function tell(random, arc, logRatio) {
  const isInside = logRatio > arc.logHeight;
  const lower = arc.angle < 0 ? arc.angle : arc.lower;
  const upper = arc.angle < 0 ? arc.upper : arc.angle;
  const angle = lower + (upper - lower) * random.uniform();
  return [isInside, { ...arc, angle, lower, upper, numTries: arc.numTries + 1 }];
}

// One transition, from the first line to the last. At the bound on tries the chain stays where it is.
function step(random, map, state, forgotten = "", maxTries = 100) {
  let arc = begin(random, state);
  while (arc.numTries < maxTries) {
    const tried = evaluate(map, ask(arc), forgotten);
    const [isInside, next] = tell(random, arc, tried.logRatio);
    if (isInside) return { state: tried, numTries: next.numTries };
    arc = next;
  }
  return { state, numTries: maxTries };
}
