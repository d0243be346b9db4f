'use strict';

// Drawings of numbers in the samples, now at the right.

const gap = 5; // seconds without a sample, over which nothing is drawn
const [width, height] = [span * 10, 1000];

// The end of an axis: 1, 2 or 5 of a power of ten.
function roundUp(number) {
  if (number === 0) return 0;
  const power = 10 ** Math.floor(Math.log10(number));
  return power * [1, 2, 5, 10].find((step) => step * power >= number);
}

// Where samples are: x of each, and the first and the last of each run of them without a gap.
function makeAxis() {
  const xs = samples.map(({ time }) => Math.round(width - ((last.time - time) * width) / (span * 1000)));
  const runs = [];
  samples.forEach((sample, at) => {
    if (at === 0 || sample.seconds > gap) runs.push([at, at]);
    else runs.at(-1)[1] = at;
  });
  return { xs, runs };
}

// Rows of numbers, each on top of those before.
function stack(rows) {
  const heights = samples.map(() => 0);
  return rows.map((row) => row.map((value, at) => {
    heights[at] += value;
    return heights[at];
  }));
}

const highestOf = (rows) => rows.flat().reduce((most, value) => Math.max(most, value), 0);

// A line along a row, or all that is below it.
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
class Drawing {
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

// A drawing with an axis. A pointer or the arrow keys choose a sample, which `onChoice` is told of:
// `back` is how many it is behind the newest.
class Chart {
  constructor(place, series, { label, format, isStacked = false, onChoice }) {
    this.format = format;
    this.onChoice = onChoice;
    this.back = 0;
    this.xs = [];
    this.drawing = new Drawing(series, isStacked, { role: 'img', 'aria-label': label, tabindex: 0 });
    this.cursor = drawing('line', { class: 'cursor', y1: 0, y2: height, visibility: 'hidden' });
    this.drawing.svg.append(this.cursor);
    this.top = element('span', { class: 'top' });
    this.middle = element('span', { class: 'middle' });
    this.when = element('span', {}, 'now');
    const times = element('div', { class: 'times' }, element('span', {}, '2 minutes ago'), this.when);
    place.replaceChildren(this.drawing.svg, this.top, this.middle, times);
    this.listen(this.drawing.svg);
  }

  listen(svg) {
    svg.addEventListener('pointermove', (event) => {
      const box = svg.getBoundingClientRect();
      this.choose(this.nearestTo(((event.clientX - box.left) * width) / box.width));
    });
    for (const leaving of ['pointerleave', 'blur']) svg.addEventListener(leaving, () => this.choose(0));
    const steps = { ArrowLeft: 1, ArrowRight: -1, PageUp: 10, PageDown: -10, Home: span, End: -span };
    svg.addEventListener('keydown', (event) => {
      if (event.key in steps) {
        event.preventDefault();
        this.choose(this.back + steps[event.key]);
      }
    });
  }

  nearestTo(x) {
    const distances = this.xs.map((each) => Math.abs(each - x));
    return this.xs.length - 1 - distances.indexOf(Math.min(...distances));
  }

  choose(back) {
    this.back = Math.max(0, Math.min(back, this.xs.length - 1));
    this.showChoice();
    this.onChoice();
  }

  showChoice() {
    const isPast = this.back > 0;
    const x = this.xs.at(-1 - this.back);
    this.cursor.setAttribute('visibility', isPast ? 'visible' : 'hidden');
    if (isPast) for (const end of ['x1', 'x2']) this.cursor.setAttribute(end, x);
    tell(this.when, isPast ? `at the line: ${Math.round(((width - x) * span) / width)} s ago` : 'now');
  }

  draw(axis, rows) {
    const end = this.drawing.draw(axis, rows, roundUp);
    tell(this.top, end > 0 ? this.format(end) : '');
    tell(this.middle, end > 0 ? this.format(end / 2) : '');
    this.xs = axis.xs;
    this.back = Math.max(0, Math.min(this.back, this.xs.length - 1));
    this.showChoice();
  }
}
