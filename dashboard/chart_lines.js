'use strict';

// The lines and areas by which charts draw rows of numbers, and how a place in them is chosen.

const [width, height] = [1200, 1000]; // in their own units: each fills its place on the page

// The end of an axis: 1, 2 or 5 of a power of ten.
function roundUp(number) {
  if (number === 0) return 0;
  const power = 10 ** Math.floor(Math.log10(number));
  return power * [1, 2, 5, 10].find((step) => step * power >= number);
}

// Rows of numbers, each on top of those before.
function stack(rows) {
  const heights = rows[0].map(() => 0);
  return rows.map((row) => row.map((value, at) => {
    heights[at] += value;
    return heights[at];
  }));
}

const highestOf = (rows) => rows.flat().reduce((most, value) => Math.max(most, value), 0);

// A line along a row, or all that is below it. An axis has x of each number, and the first and the
// last of each run of them without a gap.
function pathOf({ xs, runs }, row, end, isArea) {
  return runs.map(([from, to]) => {
    const points = [];
    for (let at = from; at <= to; at += 1) {
      points.push(`${xs[at]},${Math.round(height - (height * row[at]) / end)}`);
    }
    return isArea ? `M${xs[from]},${height}L${points.join('L')}L${xs[to]},${height}Z` : `M${points.join('L')}`;
  }).join('');
}

// A row of numbers for each of the series: areas on top of each other, or lines.
class ChartLines {
  constructor(series, isStacked, attributes) {
    this.isStacked = isStacked;
    this.paths = series.map((name) => drawing('path', { class: `${isStacked ? 'area' : 'line'} ${name}` }));
    this.svg = drawing('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', ...attributes });
    // Each area reaches down to the axis, and is covered by those that end below it.
    this.svg.append(...(isStacked ? [...this.paths].reverse() : this.paths));
  }

  // Returns the end of the axis, which `endOf` makes of the highest number.
  draw(axis, rows, endOf = (highest) => highest) {
    const heights = this.isStacked ? stack(rows) : rows;
    const end = endOf(highestOf(heights));
    this.paths.forEach((path, i) => {
      const isEmpty = rows[i].every((value) => value === 0);
      path.setAttribute('d', isEmpty ? '' : pathOf(axis, heights[i], end, this.isStacked));
    });
    return end;
  }
}

// Lets a pointer or keys choose a place in a drawing. `at` is told where the pointer is, from 0 at
// the left to 1 at the right, `by` how many places to the right a key goes, and `none` that nothing
// is chosen any more.
function listenForChoice(svg, { at, by, none }) {
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect();
    at((event.clientX - box.left) / box.width);
  });
  for (const leaving of ['pointerleave', 'blur']) svg.addEventListener(leaving, none);
  const places = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
  svg.addEventListener('keydown', (event) => {
    if (event.key in places) {
      event.preventDefault();
      by(places[event.key]);
    }
  });
}
