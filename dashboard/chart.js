'use strict';

// Charts of numbers in the samples, now at the right.

const gap = 5; // seconds without a sample, over which nothing is drawn

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

// A drawing with an axis. A pointer or the arrow keys choose a sample, which `onChoice` is told of:
// `back` is how many it is behind the newest.
class Chart {
  constructor(place, series, { label, format, isStacked = false, onChoice }) {
    this.format = format;
    this.onChoice = onChoice;
    this.back = 0;
    this.xs = [];
    this.chartLines = new ChartLines(series, isStacked, { role: 'img', 'aria-label': label, tabindex: 0 });
    this.cursor = drawing('line', { class: 'cursor', y1: 0, y2: height, visibility: 'hidden' });
    this.chartLines.svg.append(this.cursor);
    this.top = element('span', { class: 'top' });
    this.middle = element('span', { class: 'middle' });
    this.when = element('span', {}, 'now');
    const times = element('div', { class: 'times' }, element('span', {}, '2 minutes ago'), this.when);
    place.replaceChildren(this.chartLines.svg, this.top, this.middle, times);
    listenForChoice(this.chartLines.svg, {
      at: (part) => this.choose(this.nearestTo(part * width)),
      by: (places) => this.choose(this.back - places),
      none: () => this.choose(0),
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

  // The scale reaches to `least` at least, also where no number does.
  draw(axis, rows, least) {
    const end = this.chartLines.draw(axis, rows, (highest) => roundUp(Math.max(highest, least)));
    tell(this.top, end > 0 ? this.format(end) : '');
    tell(this.middle, end > 0 ? this.format(end / 2) : '');
    this.xs = axis.xs;
    this.back = Math.max(0, Math.min(this.back, this.xs.length - 1));
    this.showChoice();
  }
}
