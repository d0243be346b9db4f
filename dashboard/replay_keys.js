'use strict';

// The keys that a rule rejects most.

const sum = (row) => row.reduce((total, value) => total + value, 0);

// Requests in the back, rejected ones in front.
function sparkOf({ requests_of_step: requests, rejected_of_step: rejected }) {
  const spark = new Drawing(['rejected', 'passed'], true, { class: 'spark', 'aria-hidden': 'true' });
  spark.draw(stepAxis(requests.length), [stepped(rejected), stepped(requests.map((all, at) => all - rejected[at]))]);
  return spark.svg;
}

function keyRow(key, longest) {
  const requests = sum(key.requests_of_step);
  const isKnown = requests > 0;
  const bar = element('i', { class: 'rejected' });
  bar.style.width = `${(100 * key.rejected) / longest}%`;
  return element('tr', {},
    element('th', { scope: 'row', class: 'key foreign' }, key.key),
    element('td', { class: 'drawing' }, isKnown ? sparkOf(key) : ''),
    element('td', { class: 'drawing wide', 'aria-hidden': 'true' }, element('div', { class: 'bar' }, bar)),
    element('td', { class: 'number', 'data-label': 'Rejected' }, count(key.rejected)),
    element('td', { class: 'number', 'data-label': 'Of its requests' }, isKnown ? count(requests) : '–'),
    element('td', { class: 'number', 'data-label': 'Part' }, isKnown ? percent(Math.min(key.rejected, requests), requests) : '–'));
}

function keysPanel({ name, top_rejected: keys, keys: all }) {
  const panel = element('div', { class: 'panel' }, element('h3', {}, 'Keys rejected most'));
  if (keys.length === 0) {
    panel.append(element('p', { class: 'empty' }, 'No key would have been rejected.'));
    return panel;
  }
  const heads = [['Key', ''], ['Requests and rejected ones over time', ''], ['', 'wide'], ['Rejected', 'number'], ['Of its requests', 'number'], ['Part', 'number']];
  panel.append(
    element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `Keys that ${name} rejects most` },
      element('table', { class: 'stacked keys' },
        element('thead', {}, element('tr', {}, ...heads.map(([text, kind]) => element('th', { scope: 'col', class: kind }, text)))),
        element('tbody', {}, ...keys.map((key) => keyRow(key, keys[0].rejected))))),
    element('p', { class: 'note' }, `Keys are cut after 64 bytes.${all > 100
      ? ' Of more than a hundred rejected keys the counts may be lower than they should be.' : ''}`));
  return panel;
}
