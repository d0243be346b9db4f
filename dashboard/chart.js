'use strict';

// Drawings of numbers over the last looks, the newest at the right.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function drawing(tag, attributes) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// The end of an axis: 1, 2 or 5 of a power of ten.
function roundUp(number) {
  const power = 10 ** Math.floor(Math.log10(number));
  return power * [1, 2, 5, 10].find((step) => step * power >= number);
}

// Rows of numbers, each on top of those before: pairs of the lower and the upper end.
function stack(rows) {
  const heights = (rows[0] ?? []).map(() => 0);
  return rows.map((row) => row.map((value, at) => {
    const low = heights[at];
    heights[at] += value;
    return [low, heights[at]];
  }));
}

const highestOf = (pairs) => pairs.flat().reduce((most, [, high]) => Math.max(most, high), 0);

// The path of a row of pairs: a line along its upper ends, or all between the ends.
function pathOf(row, most, isArea) {
  const first = shown - row.length;
  const point = (at, value) => `${first + at},${(100 - (100 * value) / most).toFixed(2)}`;
  const upper = row.map(([, high], at) => point(at, high));
  const lower = isArea ? row.map(([low], at) => point(at, low)).reverse() : [];
  return row.length > 0 ? `M${[...upper, ...lower].join('L')}${isArea ? 'Z' : ''}` : '';
}

function makeSvg(attributes) {
  return drawing('svg', {
    viewBox: `0 0 ${shown - 1} 100`,
    preserveAspectRatio: 'none',
    ...attributes,
  });
}

function addPaths(svg, series, kind) {
  return series.map((name) => svg.appendChild(drawing('path', { class: `${kind} ${name}` })));
}

// Areas on top of each other, without an axis: no more than a shape.
class Spark {
  constructor(series) {
    this.svg = makeSvg({ class: 'spark', 'aria-hidden': 'true' });
    this.paths = addPaths(this.svg, series, 'area');
  }

  draw(rows) {
    const pairs = stack(rows);
    const most = highestOf(pairs) || 1;
    pairs.forEach((row, i) => this.paths[i].setAttribute('d', pathOf(row, most, true)));
  }
}

// Lines, or areas on top of each other. A pointer or the arrow keys choose a look, which
// `onCursor` is told of: how many it is behind the newest.
class Chart {
  constructor(place, series, { label, format, isStacked = false, onCursor = () => {} }) {
    this.format = format;
    this.isStacked = isStacked;
    this.onCursor = onCursor;
    this.back = 0;
    this.length = 1;
    this.svg = makeSvg({ role: 'img', 'aria-label': label, tabindex: 0 });
    this.paths = addPaths(this.svg, series, isStacked ? 'area' : 'line');
    this.cursor = drawing('line', { class: 'cursor', y1: 0, y2: 100, visibility: 'hidden' });
    this.svg.append(this.cursor);
    this.top = element('span', { class: 'top' });
    this.middle = element('span', { class: 'middle' });
    this.newest = element('span', {}, 'now');
    const times = element('div', { class: 'times' }, element('span', {}, '2 minutes ago'), this.newest);
    place.replaceChildren(this.svg, this.top, this.middle, times);
    this.listen();
  }

  listen() {
    this.svg.addEventListener('pointermove', (event) => {
      const box = this.svg.getBoundingClientRect();
      this.moveTo(Math.round((1 - (event.clientX - box.left) / box.width) * (shown - 1)));
    });
    for (const leaving of ['pointerleave', 'blur']) {
      this.svg.addEventListener(leaving, () => this.moveTo(0));
    }
    const steps = { ArrowLeft: 1, ArrowRight: -1, PageUp: 10, PageDown: -10, Home: shown, End: -shown };
    this.svg.addEventListener('keydown', (event) => {
      if (event.key in steps) {
        event.preventDefault();
        this.moveTo(this.back + steps[event.key]);
      }
    });
  }

  moveTo(back) {
    this.back = Math.max(0, Math.min(back, this.length - 1));
    this.cursor.setAttribute('visibility', this.back > 0 ? 'visible' : 'hidden');
    for (const end of ['x1', 'x2']) this.cursor.setAttribute(end, shown - 1 - this.back);
    this.newest.textContent = this.back > 0 ? `at the line: ${this.back} s ago` : 'now';
    this.onCursor(this.back);
  }

  // A row of numbers for each of the series.
  draw(rows) {
    const pairs = this.isStacked ? stack(rows) : rows.map((row) => row.map((value) => [0, value]));
    const highest = highestOf(pairs);
    const most = highest > 0 ? roundUp(highest) : 1;
    this.length = Math.max(1, rows[0].length);
    pairs.forEach((row, i) => this.paths[i].setAttribute('d', pathOf(row, most, this.isStacked)));
    this.top.textContent = highest > 0 ? this.format(most) : '';
    this.middle.textContent = highest > 0 ? this.format(most / 2) : '';
    if (this.back > 0) this.onCursor(this.back);
  }
}
