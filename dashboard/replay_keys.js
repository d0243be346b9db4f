'use strict';

// The keys that a rule rejects most.

const sum = (row) => row.reduce((total, value) => total + value, 0);

// Requests in the back, rejected ones in front.
function sparkOf({ requests_of_step: requests, rejected_of_step: rejected }) {
  const spark = new ChartLines(['rejected', 'passed'], true, { class: 'spark', 'aria-hidden': 'true' });
  spark.draw(stepAxis(requests.length), [stepped(rejected), stepped(requests.map((all, at) => all - rejected[at]))]);
  return spark.svg;
}

function keyRow(key) {
  const requests = sum(key.requests_of_step); // 0: it is not known how many
  const part = requests > 0 ? element('small', {}, ` ${percent(Math.min(key.rejected, requests), requests)}`) : '';
  return element('tr', {},
    element('th', { scope: 'row', class: 'key foreign' }, key.key),
    element('td', { class: 'drawing' }, requests > 0 ? sparkOf(key) : ''),
    element('td', { class: 'number', 'data-label': 'Rejected' }, count(key.rejected), part),
    element('td', { class: 'number', 'data-label': 'Of its requests' }, requests > 0 ? count(requests) : '–'));
}

function keysPanel({ name, top_rejected: keys, keys_are_estimated: isEstimate }) {
  const panel = element('div', { class: 'panel' }, element('h3', {}, 'Keys rejected most'));
  if (keys.length === 0) {
    panel.append(element('p', { class: 'empty' }, 'No key would have been rejected.'));
    return panel;
  }
  const heads = [['Key', ''], ['Its requests over time, rejected ones in front', ''], ['Rejected', 'number'], ['Of its requests', 'number']];
  panel.append(
    element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `Keys that ${name} rejects most` },
      element('table', { class: 'stacked keys', 'aria-label': `Keys that ${name} rejects most` },
        element('thead', {}, element('tr', {}, ...heads.map(([text, kind]) => element('th', { scope: 'col', class: kind }, text)))),
        element('tbody', {}, ...keys.map(keyRow)))));
  if (isEstimate) {
    panel.append(element('p', { class: 'note' }, 'There were so many keys that old ones were forgotten: counts may be lower than they should be.'));
  }
  return panel;
}
