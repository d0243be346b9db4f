'use strict';

// Drawings of steps side by side, of which a pointer or the arrow keys choose one.

// Each step is as high as its number from where it begins to where it ends.
function stepAxis(steps) {
  const xs = Array.from({ length: steps }, (_, at) => [at, at + 1]).flat().map((at) => (at * width) / steps);
  return { xs, runs: [[0, xs.length - 1]] };
}

const stepped = (row) => row.flatMap((value) => [value, value]);

// Makes it known to a screen reader as a slider, on which the arrow keys go from step to step. `tellOf` shows
// the numbers of a step, or of all of them for -1, and returns them as a text.
class StepChooser {
  constructor(svg, steps, label, tellOf) {
    this.svg = svg;
    this.steps = steps;
    this.tellOf = tellOf;
    this.mark = drawing('rect', { class: 'chosen', y: 0, width: width / steps, height, visibility: 'hidden' });
    svg.append(this.mark);
    const names = { role: 'slider', tabindex: 0, 'aria-label': label, 'aria-valuemin': 0, 'aria-valuemax': steps };
    for (const [name, value] of Object.entries(names)) svg.setAttribute(name, value);
    listenForChoice(svg, {
      at: (part) => this.choose(Math.max(0, Math.floor(part * steps))),
      by: (places) => this.choose(this.chosen + places),
      none: () => this.choose(-1),
    });
    this.choose(-1);
  }

  choose(step) {
    this.chosen = Math.max(-1, Math.min(step, this.steps - 1));
    this.mark.setAttribute('visibility', this.chosen < 0 ? 'hidden' : 'visible');
    this.mark.setAttribute('x', (Math.max(0, this.chosen) * width) / this.steps);
    this.svg.setAttribute('aria-valuenow', this.chosen + 1);
    this.svg.setAttribute('aria-valuetext', this.tellOf(this.chosen));
  }
}

// What stands at a part of a drawing's width, from 0 to 1.
function placed(part, text, attributes = {}) {
  const edge = part < 0.04 ? 'at-left' : part > 0.96 ? 'at-right' : '';
  const made = element('span', { ...attributes, class: `${attributes.class ?? ''} ${edge}`.trim() }, text);
  made.style.left = `${100 * part}%`;
  return made;
}

const upright = (part, name) => drawing('line', { class: name, x1: part * width, x2: part * width, y1: 0, y2: height });
