'use strict';

// How much keys take in their busiest window, and the limits that would have been enough.

const searched = ['at most 1 %', 'at most 0.1 %', 'nothing']; // what the `limits` of a rule reject
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

const markText = (units) => (units < 1e5 ? count(units) : compact.format(units));

const limitNumber = ({ limit }) => (/^\d+$/.test(limit) ? Number(limit) : null); // null: a variable gives it

// The upright lines. Of searched limits that are the same the last one is told, which rejects least.
function linesOf(rule) {
  const present = limitNumber(rule);
  const found = new Map((rule.limits ?? []).map((limit, i) => [limit, `rejects ${searched[i]}`]));
  return [...new Set([present, ...found.keys()])].filter((limit) => limit > 0).map((limit) => {
    const isPresent = limit === present;
    const labels = [...(isPresent ? ['limit'] : []), found.get(limit)].filter(Boolean);
    return { limit, isPresent, text: `${count(limit)}: ${labels.join(', ')}` };
  });
}

const unitsOf = (step) => (step === 0 ? 'at most 1' : step === 1 ? '2' : `${count(2 ** (step - 1) + 1)} to ${count(2 ** step)}`);

// An axis for counts of which some are a million times others. One key is to be seen, too.
const onScale = (keys) => (keys > 0 ? Math.log10(2 * keys) : 0);

// A bar, of which the part beyond the limit has another colour.
function barsOf(from, to, part, limitPart) {
  const [left, right] = [from * width, to * width];
  const border = Math.max(left, Math.min(limitPart * width, right));
  return [['passed', left, border], ['rejected', border, right]].filter(([, begin, end]) => end > begin)
    .map(([name, begin, end]) => drawing('rect', { class: `column ${name}`, x: begin, width: end - begin, y: height * (1 - part), height: height * part }));
}

// Each label in a row of its own, from which its line goes down past those below.
function labelsOf(lines, partOf) {
  const ascending = lines.toSorted((one, other) => one.limit - other.limit);
  const isRight = ({ limit }) => partOf(limit) > 0.5;
  const ordered = [...ascending.filter(isRight).reverse(), ...ascending.filter((line) => !isRight(line))];
  const labels = ordered.map((line, row) => {
    const label = placed(partOf(line.limit), line.text, { class: `${line.isPresent ? 'present' : 'found'} ${isRight(line) ? 'before' : 'behind'}` });
    label.style.top = `${row * 1.2}rem`;
    return label;
  });
  const made = element('div', { class: 'lines' }, ...labels);
  made.style.height = `${lines.length * 1.2}rem`;
  return made;
}

function peaksPanel(rule) {
  const { peaks, window_ms: window, calendar } = rule;
  const lines = linesOf(rule);
  const steps = [...peaks.keys()].filter((step) => peaks[step] > 0);
  const reached = [...steps, ...lines.map(({ limit }) => Math.ceil(Math.log2(limit)))];
  const [first, last] = [Math.min(...reached), Math.max(...reached)];
  const shown = Array.from({ length: last - first + 1 }, (_, at) => peaks[first + at] ?? 0);
  const partOf = (units) => (Math.log2(units) - first + 1) / shown.length;
  const limit = limitNumber(rule);
  const limitPart = limit === null ? 1 : limit > 0 ? partOf(limit) : 0;

  const svg = drawing('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none' });
  const top = onScale(roundUp(Math.max(...shown)));
  const powers = [1, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9].filter((keys) => onScale(keys) < top * 0.98);
  const levels = powers.filter((_, at) => powers.length < 5 || at % 2 === 0);
  const heightOf = (keys) => onScale(keys) / top;
  svg.append(...levels.map((keys) => {
    const y = height * (1 - heightOf(keys));
    return drawing('line', { class: 'tick', x1: 0, x2: width, y1: y, y2: y });
  }));
  shown.forEach((keys, at) => svg.append(
    ...barsOf((at + 0.04) / shown.length, (at + 0.96) / shown.length, heightOf(keys), limitPart)));
  svg.append(...lines.map((line) => upright(partOf(line.limit), line.isPresent ? 'limit' : 'limit found')));

  const chosen = element('span', { class: 'unit' });
  new StepChooser(svg, shown.length, `Keys of ${rule.name} by their busiest window: the arrow keys choose a bar`, (at) => {
    const text = at < 0 ? ofKeys(rule.keys)
      : `${unitsOf(first + at)} in a window: ${ofKeys(shown[at])} (${percent(shown[at], rule.keys)})`;
    tell(chosen, text);
    return text;
  });

  const every = Math.ceil(shown.length / 8);
  const marks = shown.map((_, at) => at).filter((at) => at % every === 0)
    .map((at) => placed((at + 1) / shown.length, markText(2 ** (first + at))));
  const scale = levels.map((keys) => {
    const made = element('span', { class: 'level' }, count(keys));
    made.style.bottom = `${100 * heightOf(keys)}%`;
    return made;
  });
  return element('div', { class: 'panel' },
    element('div', { class: 'heading' }, element('h3', {}, 'Keys by their busiest window'), chosen),
    labelsOf(lines, partOf),
    element('div', { class: 'chart peaks' }, element('div', { class: 'plot' }, svg, ...scale),
      element('div', { class: 'marks', 'aria-hidden': 'true' }, ...marks)),
    element('p', { class: 'note' }, `Number of keys, on a logarithmic scale, by the most that they asked for in one window of ${
      calendar ?? duration(window / 1000)}. Windows are aligned: one follows the other. ${limit === null
      ? 'Variables give the limit, so it is not drawn.' : 'What is beyond the limit is red; keys of the bar that it cuts may be on either side.'}`));
}

function limitsPanel(rule, others) {
  const rows = (rule.limits ?? []).map((limit, i) => [searched[i], limit === null ? 'no limit does' : count(limit)]);
  const panel = element('div', { class: 'panel' }, element('h3', {}, 'Limits that would have been enough'));
  if (rows.length === 0) {
    panel.append(element('p', { class: 'empty' }, 'None can be told: requests cost different numbers of units, the rule has a block or '
      + 'shards, or there was no room for its requests.'));
    return panel;
  }
  const row = (part, limit, name) => element('tr', { class: name }, element('th', { scope: 'row' }, part), cell(limit));
  panel.append(
    element('table', { class: 'limits', 'aria-label': `Limits of ${rule.name} that would have been enough` },
      element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, 'Rejects'), element('th', { scope: 'col', class: 'number' }, 'Limit'))),
      element('tbody', {}, row(`${percent(rule.rejected, rule.requests)}, in this replay`, count(rule.limit), 'present'),
        ...rows.map((each) => row(...each, 'found')))),
    element('p', { class: 'note' }, 'The smallest limits by which this rule alone would have rejected no more. Its other '
      + `numbers stay as they are.${others.some(({ holds_back: holdsBack }) => holdsBack) ? ' In this replay other rules have held requests back, too.' : ''}`));
  return panel;
}
